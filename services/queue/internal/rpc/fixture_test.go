package rpc_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/redis/redistest"
	pkgrpc "urr.guru/pkg/rpc"
	"urr.guru/pkg/rpc/rpctest"
	"urr.guru/pkg/testkit"
	"urr.guru/pkg/token"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/queue/internal/line"
	"urr.guru/services/queue/internal/line/linetest"
	"urr.guru/services/queue/internal/redis"
	"urr.guru/services/queue/internal/rpc"
	"urr.guru/services/queue/internal/seal"
	"urr.guru/services/queue/internal/ticket"
)

const secret = "k1:0123456789abcdef0123456789abcdef"

// fixture is the service, called over gRPC, with a real Redis, a clock of its own and a ticket
// service in memory.
type fixture struct {
	t         *testing.T
	client    goredis.UniversalClient
	event     string
	visitors  queuev1.QueueServiceClient
	admin     queuev1.QueueAdminServiceClient
	service   *line.Service
	cache     *line.LineCache
	worker    *line.Worker
	tickets   *tickets
	announced *announcements
	announce  line.Announcer // announced, unless the test sets another one and serves again
	keys      token.KeySet
	time      *testkit.Clock
}

func setup(t *testing.T) *fixture {
	t.Helper()
	t.Parallel()
	f := &fixture{
		t: t, client: redistest.Open(t), event: redistest.Prefix(t), time: testkit.NewClock(time.Unix(1_800_000_000, 0)),
		tickets: &tickets{settings: map[string]*ticketv1.LineSettings{}}, announced: &announcements{},
	}
	f.announce = f.announced
	var err error
	f.keys, err = token.ParseKeySet(secret)
	require.NoError(t, err)
	f.serve(f.client, make(chan struct{}))
	return f
}

// serve starts a replica on a client.
func (f *fixture) serve(client goredis.UniversalClient, stop <-chan struct{}) {
	f.t.Helper()
	store, err := redis.NewStore(client, line.DefaultRules(), redis.WithClock(f.clock), redis.WithRegistry("registry-"+f.event), redis.WithTimeout(time.Hour))
	require.NoError(f.t, err)
	sealer, err := seal.New(secret, secret)
	require.NoError(f.t, err)
	conn := rpctest.Serve(f.t, f.tickets.register, rpctest.As("queue"), unhurried)
	f.cache = line.NewLineCache(f.clock)
	events := patient{ticket.New(conn, conn, conn, ticket.WithAskTimeout(time.Hour))}
	f.service = line.NewService(line.Deps{
		Store: linetest.Unlimited(store), Cache: f.cache, Seal: sealer, Events: events, Sales: events, Entitled: events, Announce: f.announce, Meter: noMeter{},
		Rules: line.DefaultRules(), Log: slog.New(slog.DiscardHandler), Now: f.clock,
	})
	f.worker = line.NewWorker(f.service, time.Second, 30*time.Second)
	service := f.service
	f.t.Cleanup(func() { _ = service.Close(context.Background()) })
	own := rpctest.Serve(f.t, func(s grpc.ServiceRegistrar) { rpc.Register(s, f.service, f.service, f.service, stop) }, unhurried)
	f.visitors, f.admin = queuev1.NewQueueServiceClient(own), queuev1.NewQueueAdminServiceClient(own)
}

func (f *fixture) clock() time.Time { return f.time.Now() }

func (f *fixture) advance(d time.Duration) { f.time.Advance(d) }

func (f *fixture) ctx() context.Context { return f.t.Context() }

// open opens the line with a threshold. The first visitor lacks a position, in a presale also an
// entitlement, and so gets no place.
func (f *fixture) open(threshold int64) {
	f.t.Helper()
	f.tickets.set(f.event, &ticketv1.LineSettings{Threshold: &threshold})
	opener := f.item("opener")
	opener.Caller.Tier1 = &commonv1.Tier1{Required: true}
	require.Contains(f.t, []string{errs.ErrVWRTokenRequired.Reason, errs.ErrEntitlementUnknown.Reason}, f.check(opener).GetProblem().GetReason())
}

func (f *fixture) item(user string) *queuev1.LineItem {
	return &queuev1.LineItem{EventId: f.event, Caller: &commonv1.Caller{UserId: user}}
}

// check, status and heartbeat make a call with one item.
func (f *fixture) check(it *queuev1.LineItem) *queuev1.LineResult {
	f.t.Helper()
	return f.one(f.visitors.Check(f.ctx(), &queuev1.LineRequest{Items: []*queuev1.LineItem{it}}))
}

func (f *fixture) status(it *queuev1.LineItem) *queuev1.LineResult {
	f.t.Helper()
	return f.one(f.visitors.Status(f.ctx(), &queuev1.LineRequest{Items: []*queuev1.LineItem{it}}))
}

func (f *fixture) heartbeat(it *queuev1.LineItem) *queuev1.LineResult {
	f.t.Helper()
	return f.one(f.visitors.Heartbeat(f.ctx(), &queuev1.LineRequest{Items: []*queuev1.LineItem{it}}))
}

func (f *fixture) one(res *queuev1.LineResponse, err error) *queuev1.LineResult {
	f.t.Helper()
	require.NoError(f.t, err)
	require.Len(f.t, res.GetResults(), 1)
	return res.GetResults()[0]
}

// enter admits a user at once. It returns the item with the entry token, and the answer.
func (f *fixture) enter(user string) (*queuev1.LineItem, *queuev1.Place) {
	f.t.Helper()
	it := f.item(user)
	p := f.check(it).GetPlace()
	require.Equal(f.t, "active", p.GetStatus())
	it.Entry = f.claims(p.GetEntryToken())
	return it, p
}

// claims verifies an entry token like the gateway, and returns its content.
func (f *fixture) claims(tok string) *queuev1.EntryClaims {
	f.t.Helper()
	var c claims.Entry
	require.NoError(f.t, f.keys.Verify(tok, &c, claims.AudienceEntry, f.clock()))
	require.Equal(f.t, f.event, c.EventID)
	return &queuev1.EntryClaims{SlotId: c.SlotID, Epoch: c.Epoch, End: c.End, ExpiresAt: c.Expiry().UnixMilli()}
}

func (f *fixture) verify(user string, e *queuev1.EntryClaims) *queuev1.SlotResult {
	f.t.Helper()
	res, err := f.visitors.VerifySlots(f.ctx(), &queuev1.VerifySlotsRequest{Items: []*queuev1.SlotItem{
		{EventId: f.event, UserId: user, SlotId: e.GetSlotId(), Epoch: e.GetEpoch()},
	}})
	require.NoError(f.t, err)
	require.Len(f.t, res.GetResults(), 1)
	return res.GetResults()[0]
}

func (f *fixture) leave(user string, e *queuev1.EntryClaims) {
	f.t.Helper()
	_, err := f.visitors.Leave(f.ctx(), &queuev1.LeaveRequest{Caller: &commonv1.Caller{UserId: user}, EventId: f.event, Entry: e})
	require.NoError(f.t, err)
}

// tick lets a second pass, and then calls work.
func (f *fixture) tick() {
	f.advance(time.Second)
	f.work()
}

// work does what a replica does every second.
func (f *fixture) work() {
	f.service.RefreshSales(f.ctx())
	f.worker.Tick(f.ctx())
	f.worker.RefreshSettings(f.ctx())
	f.worker.SendPendingActs(f.ctx())
}

// another returns another replica on the same Redis and ticket service.
func (f *fixture) another() *fixture {
	f.t.Helper()
	other := *f
	other.serve(f.client, make(chan struct{}))
	return &other
}

func (f *fixture) key(name string) string { return "{" + f.event + "}:" + name }

func (f *fixture) wipe() {
	f.t.Helper()
	keys := redistest.Keys(f.t, f.client, f.key("*"))
	require.NoError(f.t, f.client.Del(f.ctx(), keys...).Err())
}

func (f *fixture) failover() {
	f.t.Helper()
	require.NoError(f.t, f.client.HSet(f.ctx(), f.key("line"), "run", "another").Err())
}

// unhurried gives calls a long time limit, since the machine may be slow.
var unhurried = rpctest.WithDial(pkgrpc.WithTimeout(time.Minute))

// patient ignores the time limits of calls to the ticket service, which are some 100 ms. After that
// the service goes on without an answer, but on a busy machine a call may take longer.
type patient struct{ *ticket.Directory }

func (p patient) TitleAndArtist(ctx context.Context, eventID string) (line.TitleAndArtist, error) {
	return p.Directory.TitleAndArtist(context.WithoutCancel(ctx), eventID)
}

func (p patient) Exists(ctx context.Context, eventID string) error {
	return p.Directory.Exists(context.WithoutCancel(ctx), eventID)
}

func (p patient) Settings(ctx context.Context, eventID string) (line.Settings, error) {
	return p.Directory.Settings(context.WithoutCancel(ctx), eventID)
}

func (p patient) MarkOpened(ctx context.Context, eventID string) (first bool, err error) {
	return p.Directory.MarkOpened(context.WithoutCancel(ctx), eventID)
}

func (p patient) Sales(ctx context.Context, eventIDs []string) (map[string]line.SaleReport, time.Duration, error) {
	return p.Directory.Sales(context.WithoutCancel(ctx), eventIDs)
}

// tickets is a fake ticket service.
type tickets struct {
	ticketv1.UnimplementedEventServiceServer
	ticketv1.UnimplementedEntitlementServiceServer

	entitled []string // what HoldsEntitlement looks for: user ids, e-mails and claims

	mu            sync.Mutex
	sales         []*ticketv1.SaleStatus
	settings      map[string]*ticketv1.LineSettings
	opened        map[string]bool
	acts          map[string]int64 // the highest order number, by setting
	writes        int              // of settings
	down          bool
	settingsReads int
}

func (k *tickets) set(eventID string, s *ticketv1.LineSettings) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.settings[eventID] = s
}

func (k *tickets) setDown(down bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.down = down
}

func (k *tickets) get(eventID string) (*ticketv1.LineSettings, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.down {
		return nil, errs.ErrUnavailable
	}
	if s := k.settings[eventID]; s != nil {
		return s, nil
	}
	return nil, errs.ErrEventNotFound
}

// count returns how often settings were asked for.
func (k *tickets) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.settingsReads
}

func (k *tickets) GetEventInfo(_ context.Context, req *ticketv1.GetEventInfoRequest) (*ticketv1.EventInfo, error) {
	if _, err := k.get(req.GetEventId()); err != nil {
		return nil, err
	}
	return &ticketv1.EventInfo{EventId: req.GetEventId(), Title: "A concert", Artist: "Somebody"}, nil
}

func (k *tickets) GetLineSettings(_ context.Context, req *ticketv1.GetLineSettingsRequest) (*ticketv1.LineSettings, error) {
	k.mu.Lock()
	k.settingsReads++
	opened := k.opened[req.GetEventId()]
	k.mu.Unlock()
	s, err := k.get(req.GetEventId())
	if err != nil {
		return nil, err
	}
	s = proto.CloneOf(s)
	s.NeverOpened = !opened
	return s, nil
}

func (k *tickets) MarkLineOpened(_ context.Context, req *ticketv1.MarkLineOpenedRequest) (*ticketv1.MarkLineOpenedResponse, error) {
	return &ticketv1.MarkLineOpenedResponse{First: k.markOpened(req.GetEventId())}, nil
}

func (k *tickets) markOpened(eventID string) (first bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.opened == nil {
		k.opened = make(map[string]bool)
	}
	first = !k.opened[eventID]
	k.opened[eventID] = true
	return first
}

// setSale sets the status of an event's sale.
func (k *tickets) setSale(s *ticketv1.SaleStatus) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sales = []*ticketv1.SaleStatus{s}
}

func (k *tickets) GetSaleStatus(context.Context, *ticketv1.GetSaleStatusRequest) (*ticketv1.GetSaleStatusResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.down {
		return nil, errs.ErrUnavailable
	}
	return &ticketv1.GetSaleStatusResponse{Sales: k.sales}, nil
}

func (k *tickets) PutLineSettings(_ context.Context, req *ticketv1.PutLineSettingsRequest) (*ticketv1.LineSettings, error) {
	old, err := k.get(req.GetEventId())
	if err != nil && !errors.Is(err, errs.ErrEventNotFound) {
		return nil, err
	}
	s := &ticketv1.LineSettings{EventId: req.GetEventId()}
	if old != nil {
		s = proto.CloneOf(old)
	}
	if req.Threshold != nil {
		s.Threshold = req.Threshold
	}
	if req.Paused != nil {
		s.Paused = req.GetPaused()
	}
	s.BlockedUsers = slices.DeleteFunc(s.BlockedUsers, func(u string) bool { return u == req.GetBlockUser() || u == req.GetUnblockUser() })
	if u := req.GetBlockUser(); u != "" {
		s.BlockedUsers = append(s.BlockedUsers, u)
	}
	if len(s.GetBlockedUsers()) > maxBlocked {
		return nil, errs.ErrTooManyBlocked
	}
	if later, counts := k.order(req); !counts {
		return &ticketv1.LineSettings{LaterAct: later}, nil
	}
	s.Act = max(s.GetAct(), req.GetAct())
	k.set(req.GetEventId(), s)
	return s, nil
}

// maxBlocked is the maximum number of blocked users that this fake ticket service allows.
const maxBlocked = 3

// order decides by order numbers whether an act counts, and records it if so.
func (k *tickets) order(req *ticketv1.PutLineSettingsRequest) (later int64, counts bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	setting := req.GetEventId() + " " + req.GetBlockUser() + req.GetUnblockUser()
	if req.Threshold != nil {
		setting += "threshold"
	}
	if k.acts == nil {
		k.acts = make(map[string]int64)
	}
	if stored := k.acts[setting]; stored >= req.GetAct() {
		if stored == req.GetAct() {
			return 0, false
		}
		return stored, false
	}
	k.acts[setting] = req.GetAct()
	k.writes++
	return 0, true
}

// announcements is an Announcer that keeps the admissions in a list.
type announcements struct {
	mu   sync.Mutex
	list []line.Admission
}

func (a *announcements) Announce(adm line.Admission) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = append(a.list, adm)
}

func (a *announcements) users() (out []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, adm := range a.list {
		out = append(out, adm.UserID)
	}
	return out
}

type noMeter struct{}

func (noMeter) SetFigures(string, line.Figures)   {}
func (noMeter) RecordTickFailure(string)          {}
func (noMeter) AddAdmissions(string, int64)       {}
func (noMeter) ForgetLine(string)                 {}
func (noMeter) AddEntitlementAnswers([]bool, int) {}
