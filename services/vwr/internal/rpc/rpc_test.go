package rpc_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc/rpctest"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
	"urr.guru/services/vwr/internal/pass"
	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
	"urr.guru/services/vwr/internal/rpc"
)

// desk is the service over a store in memory, called as the gateway calls it.
type desk struct {
	vwrv1.VwrServiceClient
	vwrv1.VwrAdminServiceClient

	store *roomtest.Memory
	board *room.Board
	log   *bytes.Buffer
}

func serve(t *testing.T) *desk {
	t.Helper()
	passes, err := pass.New("0123456789abcdef0123456789abcdef")
	if err != nil {
		t.Fatal(err)
	}
	m, b := roomtest.NewMemory(time.Now), room.NewBoard()
	out := new(bytes.Buffer)
	log := slog.New(slog.NewTextHandler(out, nil))
	service := room.NewService(b, m, m, passes, m, time.Now, func() float64 { return 0.5 })
	conn := rpctest.Serve(t, func(r grpc.ServiceRegistrar) {
		vwrv1.RegisterVwrServiceServer(r, rpc.NewVisitors(service, b, log))
		vwrv1.RegisterVwrAdminServiceServer(r, rpc.NewOperators(room.NewAdmin(b, m, time.Now)))
	})
	b.Loaded()
	return &desk{vwrv1.NewVwrServiceClient(conn), vwrv1.NewVwrAdminServiceClient(conn), m, b, out}
}

var admin = &commonv1.Caller{UserId: "op", Roles: []string{"admin"}}

func visitor(id string) *commonv1.Caller { return &commonv1.Caller{AnonId: id} }

func (d *desk) activate(t *testing.T, req *vwrv1.ActivateRequest) *vwrv1.VwrStatus {
	t.Helper()
	req.Caller, req.EventId = admin, "demo"
	st, err := d.Activate(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func (d *desk) assign(t *testing.T, visitors ...string) []*vwrv1.AssignResult {
	t.Helper()
	req := &vwrv1.AssignRequest{}
	for _, v := range visitors {
		req.Items = append(req.Items, &vwrv1.AssignItem{Caller: visitor(v), EventId: "demo"})
	}
	res, err := d.Assign(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.GetResults()) != len(visitors) {
		t.Fatalf("%d results for %d items", len(res.GetResults()), len(visitors))
	}
	return res.GetResults()
}

func reason(t *testing.T, what string, err error, want *errs.Error) {
	t.Helper()
	if e := errs.FromStatus(err); e == nil || e.Reason != want.Reason {
		t.Errorf("%s: got %v, want %s", what, err, want.Reason)
	}
}

func TestAssignAnswersItemByItem(t *testing.T) {
	t.Parallel()
	d := serve(t)
	if got := d.assign(t, "a")[0].GetProblem(); got.GetReason() != errs.ErrVWRInactive.Reason || got.GetKind() != string(errs.NotFound) {
		t.Errorf("without a room: %v", got)
	}
	d.activate(t, &vwrv1.ActivateRequest{})
	results := d.assign(t, "a", "", "b", "a")
	if got := results[1].GetProblem().GetReason(); got != errs.ErrVisitorRequired.Reason {
		t.Errorf("without a visitor: %q", got)
	}
	a, b, again := results[0].GetAssigned(), results[2].GetAssigned(), results[3].GetAssigned()
	positions := []int64{a.GetPosition(), b.GetPosition()}
	slices.Sort(positions)
	if !slices.Equal(positions, []int64{1, 2}) || again.GetPosition() != a.GetPosition() || again.GetRequestId() != a.GetRequestId() {
		t.Errorf("positions %d, %d, again %d", a.GetPosition(), b.GetPosition(), again.GetPosition())
	}
	if a.GetTicket() == "" || a.GetNextPoll() != 2 || a.GetEstimatedWait() < 1 {
		t.Errorf("assigned: %v", a)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	d := serve(t)
	d.activate(t, &vwrv1.ActivateRequest{})
	a, b := d.assign(t, "a")[0].GetAssigned(), d.assign(t, "b")[0].GetAssigned()
	if _, err := d.Advance(t.Context(), &vwrv1.AdvanceRequest{Caller: admin, EventId: "demo", BatchSize: new(int64(1))}); err != nil {
		t.Fatal(err)
	}
	forged := []byte(a.GetTicket())
	forged[20] ^= 1
	res, err := d.Check(t.Context(), &vwrv1.CheckRequest{Items: []*vwrv1.CheckItem{
		{Caller: visitor("a"), EventId: "demo", RequestId: a.GetRequestId(), Ticket: a.GetTicket()},
		{Caller: visitor("b"), EventId: "demo", RequestId: b.GetRequestId()},
		{Caller: visitor("b"), EventId: "demo", RequestId: a.GetRequestId(), Ticket: a.GetTicket()},
		{Caller: visitor("a"), EventId: "demo", RequestId: a.GetRequestId(), Ticket: string(forged)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	got := res.GetResults()
	if c := got[0].GetChecked(); !c.GetAdmitted() || c.GetToken() == "" || c.GetExpiresAt() < time.Now().Unix()+590 || c.Ticket != nil {
		t.Errorf("served: %v", c)
	}
	if c := got[1].GetChecked(); c.GetAdmitted() || c.Token != nil || c.ExpiresAt != nil || c.GetAhead() != 1 || c.GetTicket() == "" {
		t.Errorf("waiting, ticket lost: %v", c)
	}
	for i, what := range map[int]string{2: "another visitor's ticket", 3: "a flipped bit"} {
		if p := got[i].GetProblem(); p.GetReason() != errs.ErrVWRRequestUnknown.Reason {
			t.Errorf("%s: %v", what, got[i])
		}
	}
}

func TestCheckRefusesBadIDs(t *testing.T) {
	t.Parallel()
	d := serve(t)
	_, err := d.Check(t.Context(), &vwrv1.CheckRequest{Items: []*vwrv1.CheckItem{{Caller: visitor("a"), EventId: "demo", RequestId: "1"}}})
	reason(t, "a request id that is none", err, errs.ErrInvalidRequest)
	_, err = d.Assign(t.Context(), &vwrv1.AssignRequest{Items: []*vwrv1.AssignItem{{Caller: visitor("a"), EventId: "#active"}}})
	reason(t, "the registry's name as an event", err, errs.ErrInvalidRequest)
}

func TestOperators(t *testing.T) {
	t.Parallel()
	d := serve(t)
	for name, act := range map[string]func(*commonv1.Caller) error{
		"activate": func(c *commonv1.Caller) error {
			_, err := d.Activate(t.Context(), &vwrv1.ActivateRequest{Caller: c, EventId: "demo"})
			return err
		},
		"deactivate": func(c *commonv1.Caller) error {
			_, err := d.Deactivate(t.Context(), &vwrv1.DeactivateRequest{Caller: c, EventId: "demo"})
			return err
		},
		"advance": func(c *commonv1.Caller) error {
			_, err := d.Advance(t.Context(), &vwrv1.AdvanceRequest{Caller: c, EventId: "demo"})
			return err
		},
		"status": func(c *commonv1.Caller) error {
			_, err := d.GetStatus(t.Context(), &vwrv1.GetStatusRequest{Caller: c, EventId: "demo"})
			return err
		},
	} {
		reason(t, name+" by a visitor", act(visitor("a")), errs.ErrUnauthenticated)
		reason(t, name+" without the role", act(&commonv1.Caller{UserId: "u", Roles: []string{"staff"}}), errs.ErrRoleRequired)
	}
	_, err := d.GetStatus(t.Context(), &vwrv1.GetStatusRequest{Caller: admin, EventId: "demo"})
	reason(t, "an event without a room", err, errs.ErrVWRInactive)
	st := d.activate(t, &vwrv1.ActivateRequest{
		Batch: new(int64(30)), IntervalSeconds: new(int64(2)), Inlet: new("MAX_IN_FLIGHT"), MaxInFlight: new(int64(100)),
	})
	if !st.GetIsActive() || st.GetBatch() != 30 || st.GetIntervalSeconds() != 2 || st.GetInlet() != "MAX_IN_FLIGHT" ||
		st.GetMaxInFlight() != 100 || st.GetActivatedAt() < 1e15 {
		t.Errorf("activated: %v", st)
	}
	d.assign(t, "a", "b")
	if st, err = d.Advance(t.Context(), &vwrv1.AdvanceRequest{Caller: admin, EventId: "demo"}); err != nil || st.GetServingCounter() != 2 {
		t.Errorf("advanced: %v, %v", st, err)
	}
	if st, err = d.Deactivate(t.Context(), &vwrv1.DeactivateRequest{Caller: admin, EventId: "demo"}); err != nil || st.GetIsActive() {
		t.Errorf("deactivated: %v, %v", st, err)
	}
}

// A store that is down fails every item of a call: that is one line in the log, and a refusal for each.
func TestFaultsAreLoggedOncePerCall(t *testing.T) {
	t.Parallel()
	d := serve(t)
	d.activate(t, &vwrv1.ActivateRequest{})
	d.assign(t, "a")
	if got := d.log.String(); got != "" {
		t.Errorf("what went well is logged: %s", got)
	}
	d.store.Fail(true)
	for _, r := range d.assign(t, "b", "c", "d") {
		if r.GetProblem() == nil {
			t.Errorf("answered without a store: %v", r)
		}
	}
	if got := d.log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "count=3") || !strings.Contains(got, roomtest.ErrDown.Error()) {
		t.Errorf("the log: %s", got)
	}
}

// A stream begins with every event, then tells what changes, at most five times a second for one event, and never a lower value.
func TestWatchCounters(t *testing.T) {
	t.Parallel()
	d := serve(t)
	d.activate(t, &vwrv1.ActivateRequest{})
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	stream, err := d.WatchCounters(ctx, &vwrv1.WatchCountersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil || !first.GetSnapshot() || len(first.GetCounters()) != 1 || !first.GetCounters()[0].GetActive() {
		t.Fatalf("the snapshot: %v, %v", first, err)
	}
	start, messages, last := time.Now(), 0, int64(0)
	const people = 60
	go func() {
		for i := range people {
			_, _ = d.Assign(ctx, &vwrv1.AssignRequest{Items: []*vwrv1.AssignItem{{Caller: visitor(fmt.Sprint(i)), EventId: "demo"}}})
		}
	}()
	for last < people {
		msg, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if len(msg.GetCounters()) == 0 {
			continue // a beat
		}
		messages++
		c := msg.GetCounters()[0]
		if msg.GetSnapshot() || c.GetIssued() < last {
			t.Errorf("issued went from %d to %d, snapshot %v", last, c.GetIssued(), msg.GetSnapshot())
		}
		last = c.GetIssued()
	}
	if most := 2 + int(time.Since(start)/(200*time.Millisecond)); messages > most {
		t.Errorf("%d messages in %v, at most %d are allowed", messages, time.Since(start), most)
	}
}

// A stream that has nothing to tell says so, since a gateway takes silence for a replica that hangs.
func TestWatchCountersIsNeverSilent(t *testing.T) {
	t.Parallel()
	d := serve(t)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	stream, err := d.WatchCounters(ctx, &vwrv1.WatchCountersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		msg, err := stream.Recv()
		if err != nil || msg.GetSnapshot() != (i == 0) || len(msg.GetCounters()) != 0 {
			t.Fatalf("message %d without a change: %v, %v", i, msg, err)
		}
	}
	d.activate(t, &vwrv1.ActivateRequest{})
	for told := false; !told; {
		msg, err := stream.Recv()
		if err != nil || msg.GetSnapshot() {
			t.Fatalf("the change: %v, %v", msg, err)
		}
		told = len(msg.GetCounters()) == 1 && msg.GetCounters()[0].GetActive()
	}
}

func TestGetCounters(t *testing.T) {
	t.Parallel()
	d := serve(t)
	d.activate(t, &vwrv1.ActivateRequest{})
	d.assign(t, "a")
	res, err := d.GetCounters(t.Context(), &vwrv1.GetCountersRequest{EventIds: []string{"demo", "unknown"}})
	if err != nil || len(res.GetCounters()) != 1 {
		t.Fatalf("got %v, %v", res, err)
	}
	if c := res.GetCounters()[0]; c.GetEventId() != "demo" || c.GetIssued() != 1 || c.GetConfiguredRate() != 50 || c.GetRound() == 0 {
		t.Errorf("counter %v", c)
	}
	d.store.Fail(true)
	if _, err := d.GetCounters(t.Context(), &vwrv1.GetCountersRequest{EventIds: []string{"demo"}}); err == nil {
		t.Error("a store that is down is not told")
	}
}
