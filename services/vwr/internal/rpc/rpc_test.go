package rpc_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/testing/protocmp"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc/rpctest"
	"urr.guru/pkg/testkit"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
	"urr.guru/services/vwr/internal/lobby"
	"urr.guru/services/vwr/internal/pass"
	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
	"urr.guru/services/vwr/internal/rpc"
)

// epoch is the time that a fixture's clock always shows.
var epoch = time.Unix(1_800_000_000, 0)

// fixture is the service with an in-memory store, called over gRPC like by the gateway.
type fixture struct {
	vwrv1.VwrServiceClient
	vwrv1.VwrAdminServiceClient

	store *roomtest.Memory
	cache *room.StateCache
	log   *bytes.Buffer
}

func serve(t *testing.T) *fixture {
	t.Helper()
	passes, err := pass.New("0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef")
	require.NoError(t, err)
	now := testkit.NewClock(epoch).Now
	m, b := roomtest.NewMemory(now), room.NewStateCache()
	out := new(bytes.Buffer)
	log := slog.New(slog.NewTextHandler(out, nil))
	lobbies := lobby.NewService(b, m, lobby.Store{}, passes, lobby.Keys{}, lobby.Schedule{}, nil, now)
	service := room.NewService(b, m, m, passes, m, nil, now, func() float64 { return 0.5 })
	conn := rpctest.Serve(t, func(r grpc.ServiceRegistrar) {
		vwrv1.RegisterVwrServiceServer(r, rpc.NewVisitors(service, lobbies, b, log))
		vwrv1.RegisterVwrAdminServiceServer(r, rpc.NewOperators(room.NewAdmin(b, m, roomtest.NewSales().Destinations(), nil, now), lobbies))
	})
	b.MarkLoaded()
	return &fixture{vwrv1.NewVwrServiceClient(conn), vwrv1.NewVwrAdminServiceClient(conn), m, b, out}
}

var admin = &commonv1.Caller{UserId: "op", Roles: []string{"admin"}}

func visitor(id string) *commonv1.Caller { return &commonv1.Caller{AnonId: id} }

func (d *fixture) activate(t *testing.T, req *vwrv1.ActivateRequest) *vwrv1.VwrStatus {
	t.Helper()
	req.Caller, req.EventId = admin, "demo"
	st, err := d.Activate(t.Context(), req)
	require.NoError(t, err)
	return st
}

func (d *fixture) assign(t *testing.T, visitors ...string) []*vwrv1.AssignResult {
	t.Helper()
	req := &vwrv1.AssignRequest{}
	for _, v := range visitors {
		req.Items = append(req.Items, &vwrv1.AssignItem{Caller: visitor(v), EventId: "demo"})
	}
	res, err := d.Assign(t.Context(), req)
	require.NoError(t, err)
	require.Len(t, res.GetResults(), len(visitors))
	return res.GetResults()
}

func reason(t *testing.T, what string, err error, want *errs.Error) {
	t.Helper()
	require.Error(t, err, what)
	require.Equal(t, want.Reason, errs.FromStatus(err).Reason, what)
}

func TestAssignReturnsResultPerItem(t *testing.T) {
	t.Parallel()
	d := serve(t)
	roomless := d.assign(t, "a")[0].GetProblem()
	require.Equal(t, []string{errs.ErrVWRInactive.Reason, string(errs.NotFound)}, []string{roomless.GetReason(), roomless.GetKind()})
	d.activate(t, &vwrv1.ActivateRequest{})
	results := d.assign(t, "a", "", "b", "a")
	require.Equal(t, errs.ErrVisitorRequired.Reason, results[1].GetProblem().GetReason(), "without a visitor")
	a, b, again := results[0].GetAssigned(), results[2].GetAssigned(), results[3].GetAssigned()
	require.ElementsMatch(t, []int64{1, 2}, []int64{a.GetPosition(), b.GetPosition()})
	require.Equal(t, a.GetPosition(), again.GetPosition())
	require.Equal(t, a.GetRequestId(), again.GetRequestId())
	require.NotEmpty(t, a.GetTicket())
	require.Equal(t, int64(2), a.GetNextPoll())
	require.Positive(t, a.GetEstimatedWait())
}

func TestCheck(t *testing.T) {
	t.Parallel()
	d := serve(t)
	d.activate(t, &vwrv1.ActivateRequest{})
	a, b := d.assign(t, "a")[0].GetAssigned(), d.assign(t, "b")[0].GetAssigned()
	_, err := d.Advance(t.Context(), &vwrv1.AdvanceRequest{Caller: admin, EventId: "demo", BatchSize: new(int64(1))})
	require.NoError(t, err)
	forged := []byte(a.GetTicket())
	forged[20] ^= 1
	res, err := d.Check(t.Context(), &vwrv1.CheckRequest{Items: []*vwrv1.CheckItem{
		{Caller: visitor("a"), EventId: "demo", RequestId: a.GetRequestId(), Ticket: a.GetTicket()},
		{Caller: visitor("b"), EventId: "demo", RequestId: b.GetRequestId()},
		{Caller: visitor("b"), EventId: "demo", RequestId: a.GetRequestId(), Ticket: a.GetTicket()},
		{Caller: visitor("a"), EventId: "demo", RequestId: a.GetRequestId(), Ticket: string(forged)},
	}})
	require.NoError(t, err)
	got := res.GetResults()
	served := got[0].GetChecked()
	require.True(t, served.GetAdmitted())
	require.NotEmpty(t, served.GetToken())
	require.Equal(t, epoch.Add(10*time.Minute).Unix(), served.GetExpiresAt())
	require.Nil(t, served.Ticket)
	waiting := got[1].GetChecked() // the request had no ticket
	require.False(t, waiting.GetAdmitted())
	require.Nil(t, waiting.Token)
	require.Nil(t, waiting.ExpiresAt)
	require.Equal(t, int64(1), waiting.GetAhead())
	require.NotEmpty(t, waiting.GetTicket())
	require.Equal(t, errs.ErrVWRRequestUnknown.Reason, got[2].GetProblem().GetReason(), "another visitor's ticket")
	require.Equal(t, errs.ErrVWRRequestUnknown.Reason, got[3].GetProblem().GetReason(), "a flipped bit")
}

func TestInvalidIDsAreRejected(t *testing.T) {
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
		ProofOfWork: new(int64(16)), SignIn: new(true), Next: new("QUEUE"), Expected: new(int64(5000)), AskRate: new(int64(500)),
	})
	require.Empty(t, cmp.Diff(&vwrv1.VwrStatus{
		EventId: "demo", IsActive: true, Batch: 30, IntervalSeconds: 2, Inlet: "MAX_IN_FLIGHT", MaxInFlight: 100,
		ActivatedAt: epoch.UnixMicro(), UpdatedAt: epoch.UnixMilli(), ProofOfWork: new(int64(16)),
		SignIn: new(true), Next: new("QUEUE"), Expected: new(int64(5000)), AskRate: new(int64(500)), SpreadMs: new(int64(10_000)),
	}, st, protocmp.Transform()))
	d.activate(t, &vwrv1.ActivateRequest{SignIn: new(false)})
	d.assign(t, "a", "b")
	st, err = d.Advance(t.Context(), &vwrv1.AdvanceRequest{Caller: admin, EventId: "demo"})
	require.NoError(t, err)
	require.Equal(t, int64(2), st.GetServingCounter())
	st, err = d.Deactivate(t.Context(), &vwrv1.DeactivateRequest{Caller: admin, EventId: "demo"})
	require.NoError(t, err)
	require.False(t, st.GetIsActive())

	const promotion = "01990f5e-7b5a-7c3e-9d1a-3b5c7d9e1f20"
	st, err = d.Activate(t.Context(), &vwrv1.ActivateRequest{Caller: admin, EventId: promotion, Next: new("PROMO")})
	require.NoError(t, err)
	require.Equal(t, "PROMO", st.GetNext())
	_, err = d.Activate(t.Context(), &vwrv1.ActivateRequest{Caller: admin, EventId: promotion, Next: new("SHOP")})
	reason(t, "a kind of page that is none", err, errs.ErrInvalidRequest)
}

// If the store is down, every item of a call fails, and this is logged once per call.
func TestItemFailuresAreLoggedOncePerCall(t *testing.T) {
	t.Parallel()
	d := serve(t)
	d.activate(t, &vwrv1.ActivateRequest{})
	d.assign(t, "a")
	require.Empty(t, d.log.String(), "what went well")
	d.store.SetDown(true)
	for _, r := range d.assign(t, "b", "c", "d") {
		require.NotNil(t, r.GetProblem(), "without a store")
	}
	got := d.log.String()
	require.Equal(t, 1, strings.Count(got, "\n"), got)
	require.Contains(t, got, "count=3")
	require.Contains(t, got, roomtest.ErrDown.Error())
}

func TestGetCounters(t *testing.T) {
	t.Parallel()
	d := serve(t)
	d.activate(t, &vwrv1.ActivateRequest{ProofOfWork: new(int64(18))})
	d.assign(t, "a")
	d.activate(t, &vwrv1.ActivateRequest{SignIn: new(true), Expected: new(int64(3000))})
	res, err := d.GetCounters(t.Context(), &vwrv1.GetCountersRequest{EventIds: []string{"demo", "unknown"}})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff([]*vwrv1.Counter{
		{
			EventId: "demo", Active: true, Round: epoch.UnixMicro(), Issued: 1, ConfiguredRate: 50, ProofOfWork: 18, SignIn: true, Next: "QUEUE",
			OpenedAt: epoch.UnixMilli(), SpreadMs: 3000,
		},
	}, res.GetCounters(), protocmp.Transform()))
	d.store.SetDown(true)
	_, err = d.GetCounters(t.Context(), &vwrv1.GetCountersRequest{EventIds: []string{"demo"}})
	require.Error(t, err, "a store that is down")
}
