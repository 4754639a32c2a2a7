package line_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/redis/redistest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/queue/internal/line"
	"urr.guru/services/queue/internal/line/linetest"
	"urr.guru/services/queue/internal/redis"
	"urr.guru/services/queue/internal/seal"
)

// replica is a service with its worker. It uses a real Redis, in which replicas share a registry.
type replica struct {
	service *line.Service
	worker  *line.Worker
	meter   *meter
}

type testEnv struct {
	t        *testing.T
	client   goredis.UniversalClient
	event    string
	registry string
	clock    *testkit.Clock
	tickets  *directory // used by replicas without a ticket service of their own
}

func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	t.Parallel()
	w := &testEnv{t: t, client: redistest.Open(t), event: redistest.Prefix(t), clock: testkit.NewClock(time.Unix(1_800_000_000, 0)), tickets: &directory{}}
	w.registry = "registry-" + w.event
	return w
}

func (w *testEnv) store() line.Store {
	w.t.Helper()
	store, err := redis.NewStore(w.client, line.DefaultRules(), redis.WithClock(w.clock.Now), redis.WithRegistry(w.registry), redis.WithTimeout(time.Hour))
	require.NoError(w.t, err)
	return linetest.Unlimited(store)
}

func (w *testEnv) replica() *replica { return w.replicaOn(w.store()) }

func (w *testEnv) replicaOn(store line.Store) *replica { return w.replicaWith(store, w.tickets) }

func (w *testEnv) replicaWith(store line.Store, events line.Directory) *replica {
	w.t.Helper()
	return w.replicaOf(store, events, noSales{})
}

func (w *testEnv) replicaOf(store line.Store, events line.Directory, sales line.SaleReader) *replica {
	w.t.Helper()
	sealer, err := seal.New("0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef")
	require.NoError(w.t, err)
	m := &meter{}
	entitled, _ := sales.(line.EntitlementSource) // nil for a ticket service without presales
	s := line.NewService(line.Deps{
		Store: store, Cache: line.NewLineCache(w.clock.Now), Seal: sealer, Events: events, Sales: sales, Entitled: entitled, Announce: noAnnouncer{}, Meter: m,
		Rules: line.DefaultRules(), Log: slog.New(slog.DiscardHandler), Now: w.clock.Now,
	})
	w.t.Cleanup(func() { _ = s.Close(context.Background()) })
	return &replica{service: s, worker: line.NewWorker(s, time.Second, time.Minute), meter: m}
}

func (w *testEnv) listed() bool {
	w.t.Helper()
	ok, err := w.client.SIsMember(w.t.Context(), w.registry, w.event).Result()
	require.NoError(w.t, err)
	return ok
}

func (r *replica) check(ctx context.Context, event, user string) line.PlaceAnswer {
	return r.service.Check(ctx, []line.PlaceRequest{{EventID: event, Visitor: line.Visitor{UserID: user}}})[0]
}

type meter struct {
	mu       sync.Mutex
	figures  line.Figures
	admitted int64
	failures int
	forgot   bool
}

func (m *meter) SetFigures(_ string, f line.Figures) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.figures = f
}

func (m *meter) RecordTickFailure(string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failures++
}

func (m *meter) AddAdmissions(_ string, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.admitted += n
}

func (m *meter) ForgetLine(string) { m.forgot = true }

func (*meter) AddEntitlementAnswers([]bool, int) {}

// directory is a fake ticket service in which every event exists.
type directory struct {
	mu     sync.Mutex
	opened map[string]bool
	// threshold is the threshold of every line; 0 means 1.
	threshold int64
	reads     int // how often settings were read
}

func (*directory) TitleAndArtist(context.Context, string) (line.TitleAndArtist, error) {
	return line.TitleAndArtist{}, errs.ErrEventNotFound
}

func (*directory) Exists(context.Context, string) error { return nil }

func (d *directory) Settings(_ context.Context, eventID string) (line.Settings, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reads++
	threshold := max(d.threshold, 1)
	return line.Settings{Threshold: &threshold, Slot: 2 * time.Hour, NeverOpened: !d.opened[eventID]}, nil
}

// settingsRead returns how often settings were read.
func (d *directory) settingsRead() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reads
}

func (d *directory) waitOpened(t *testing.T, eventID string) {
	t.Helper()
	testkit.Until(t, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.opened[eventID]
	}, "ticket has recorded the opening")
}

func (*directory) ChangeSettings(context.Context, string, line.SettingsChange) (int64, error) {
	return 0, nil
}

func (d *directory) MarkOpened(_ context.Context, eventID string) (first bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.opened == nil {
		d.opened = make(map[string]bool)
	}
	first = !d.opened[eventID]
	d.opened[eventID] = true
	return first, nil
}

// noSales is a ticket service without sales.
type noSales struct{}

func (noSales) Sales(context.Context, []string) (map[string]line.SaleReport, time.Duration, error) {
	return nil, 0, nil
}

type noAnnouncer struct{}

func (noAnnouncer) Announce(line.Admission) {}

func TestReplicasTickRegisteredEvents(t *testing.T) {
	w := newTestEnv(t)
	a, b := w.replica(), w.replica()
	a.open(t, w.event)
	in := a.check(t.Context(), w.event, "in")
	require.NoError(t, in.Err)
	require.Equal(t, line.StatusActive, in.Place.Status)
	require.Equal(t, line.StatusQueued, a.check(t.Context(), w.event, "w").Place.Status)
	require.NoError(t, a.service.Leave(t.Context(), w.event, "in", &line.EntryClaims{SlotID: slotOf(t, w, "in")}))
	require.True(t, w.listed())

	w.clock.Advance(time.Second)
	b.worker.Tick(t.Context()) // b knows the event only from the registry
	require.Equal(t, int64(1), b.meter.admitted)
	require.Equal(t, []int64{0, 1}, []int64{b.meter.figures.Waiting, b.meter.figures.Active})
	require.Equal(t, int64(1), a.meter.admitted, "the one who entered at once")
}

// After a loss of the line's data, slot holders without contact since then still count.
func TestHoldersOfLostEpochAreCounted(t *testing.T) {
	w := newTestEnv(t)
	a := w.replica()
	a.open(t, w.event)
	require.Equal(t, line.StatusActive, a.check(t.Context(), w.event, "in").Place.Status)
	w.clock.Advance(time.Second)
	a.worker.Tick(t.Context())
	require.Equal(t, int64(1), a.meter.figures.Active)

	require.NoError(t, w.client.HDel(t.Context(), "{"+w.event+"}:line", "run").Err())
	w.clock.Advance(time.Second)
	a.worker.Tick(t.Context())
	status, err := a.service.ReadOverview(t.Context(), w.event)
	require.NoError(t, err)
	require.Equal(t, int64(1), status.Active)
	require.Equal(t, int64(1), a.meter.figures.Active, "as an operator is told")
}

// unreachable is a store whose ticks fail while err is set.
type unreachable struct {
	line.Store

	err error
}

func (u *unreachable) Admit(ctx context.Context, eventID string, m line.KnownState) (line.LineState, line.AdmissionResult, error) {
	if u.err != nil {
		return line.LineState{}, line.AdmissionResult{}, u.err
	}
	return u.Store.Admit(ctx, eventID, m)
}

// A failed tick is exported as a failure. For a line that is gone no figures are exported.
func TestFiguresOfUnreadableAndMissingLines(t *testing.T) {
	w := newTestEnv(t)
	w.tickets.threshold = 7
	store := &unreachable{Store: w.store()}
	a := w.replicaOn(store)
	a.open(t, w.event)
	a.check(t.Context(), w.event, "in")
	w.clock.Advance(time.Second)
	a.worker.Tick(t.Context())
	require.Equal(t, line.Figures{Active: 1, Threshold: 7, Epoch: a.meter.figures.Epoch, Selling: true}, a.meter.figures)
	require.Positive(t, a.meter.figures.Epoch)

	store.err = errs.ErrUnavailable
	w.clock.Advance(time.Second)
	a.worker.Tick(t.Context())
	require.Equal(t, 1, a.meter.failures)
	store.err = nil
	a.worker.Tick(t.Context())
	require.Equal(t, 1, a.meter.failures)
	require.False(t, a.meter.forgot)

	b := w.replica() // a replica that knows nothing of the line
	for _, key := range []string{"{" + w.event + "}:line", "{" + w.registry + "}:reports"} {
		require.NoError(t, w.client.Del(t.Context(), key).Err())
	}
	w.clock.Advance(time.Second)
	b.worker.Tick(t.Context())
	require.True(t, b.meter.forgot)
}

func slotOf(t *testing.T, w *testEnv, user string) string {
	t.Helper()
	v, err := w.client.HGet(t.Context(), "{"+w.event+"}:slot", user).Result()
	require.NoError(t, err)
	return v[:36]
}

func TestLostRegistryIsRestored(t *testing.T) {
	w := newTestEnv(t)
	a := w.replica()
	a.check(t.Context(), w.event, "u")
	a.worker.Tick(t.Context())
	require.True(t, w.listed())
	require.NoError(t, w.client.Del(t.Context(), w.registry).Err())
	w.clock.Advance(59 * time.Second)
	a.worker.Tick(t.Context())
	require.True(t, w.listed())
}

func TestEmptyLineIsUnlistedAfterTenMinutes(t *testing.T) {
	w := newTestEnv(t)
	a, b := w.replica(), w.replica()
	a.check(t.Context(), w.event, "u")
	tick := func(n int) {
		for range n {
			w.clock.Advance(10 * time.Second)
			a.worker.Tick(t.Context())
		}
	}
	tick(1)
	require.NoError(t, a.service.Leave(t.Context(), w.event, "u", nil))
	for _, r := range a.service.Status(t.Context(), []line.PlaceRequest{{EventID: w.event, Visitor: line.Visitor{UserID: "u"}}}) {
		if r.Place.Status == line.StatusActive {
			require.NoError(t, a.service.Leave(t.Context(), w.event, "u", &line.EntryClaims{SlotID: slotOf(t, w, "u")}))
		}
	}
	tick(59)
	require.True(t, w.listed())
	b.check(t.Context(), w.event, "v") // at replica b; replica a learns of it by its next tick
	tick(2)
	require.True(t, w.listed(), "somebody came in between")
	require.NoError(t, b.service.Leave(t.Context(), w.event, "v", nil))
	if n, _ := w.client.HExists(t.Context(), "{"+w.event+"}:slot", "v").Result(); n {
		require.NoError(t, b.service.Leave(t.Context(), w.event, "v", &line.EntryClaims{SlotID: slotOf(t, w, "v")}))
	}
	tick(62)
	require.False(t, w.listed())
	tick(6 * 61)
	require.True(t, a.meter.forgot, "and is forgotten after an hour")
}

// racingStore calls before when an event is about to be removed from the registry.
type racingStore struct {
	line.Store

	before func()
}

func (r racingStore) RemoveEvent(ctx context.Context, eventID string) error {
	r.before()
	return r.Store.RemoveEvent(ctx, eventID)
}

func TestContactDuringUnlistIsTicked(t *testing.T) {
	w := newTestEnv(t)
	b := w.replica()
	a := w.replicaOn(racingStore{w.store(), func() { require.NoError(t, b.check(t.Context(), w.event, "v").Err) }})
	a.open(t, w.event)
	for range 61 {
		w.clock.Advance(10 * time.Second)
		a.worker.Tick(t.Context())
	}
	require.True(t, w.listed())
}

func TestTickRepeatsWhileThereIsMore(t *testing.T) {
	w := newTestEnv(t)
	a := w.replica()
	a.open(t, w.event)
	over := make([]goredis.Z, 1200)
	for i := range over {
		over[i] = goredis.Z{Score: 1, Member: i}
	}
	count := func(set string) int64 {
		n, err := w.client.ZCard(t.Context(), "{"+w.event+"}:"+set).Result()
		require.NoError(t, err)
		return n
	}
	require.NoError(t, w.client.ZAdd(t.Context(), "{"+w.event+"}:active", over...).Err())
	a.worker.Tick(t.Context())
	require.Zero(t, count("active"))

	for _, set := range []string{"parked", "parked-seen"} {
		require.NoError(t, w.client.ZAdd(t.Context(), "{"+w.event+"}:"+set, over...).Err())
	}
	a.worker.CleanLines(t.Context())
	require.Zero(t, count("parked"))
}

func TestEventWithoutLineIsUnlisted(t *testing.T) {
	w := newTestEnv(t)
	a := w.replica()
	require.NoError(t, w.client.SAdd(t.Context(), w.registry, w.event).Err())
	a.worker.Tick(t.Context())
	require.True(t, w.listed(), "it may have been lost just now")
	w.clock.Advance(10 * time.Minute)
	a.worker.Tick(t.Context())
	require.False(t, w.listed())
}

func TestSweepParksAbsentWaiters(t *testing.T) {
	w := newTestEnv(t)
	a := w.replica()
	a.open(t, w.event)
	a.check(t.Context(), w.event, "in")
	a.check(t.Context(), w.event, "gone")
	keep := []line.PlaceRequest{{EventID: w.event, Visitor: line.Visitor{UserID: "in"}}}
	parked := func() int64 {
		load, err := a.service.ReadLoad(t.Context(), w.event)
		require.NoError(t, err)
		require.Equal(t, int64(1), load.Waiting+load.Parked)
		return load.Parked
	}
	for range 122 {
		require.Zero(t, parked())
		w.clock.Advance(5 * time.Second)
		require.Equal(t, line.StatusActive, a.service.Status(t.Context(), keep)[0].Place.Status)
		a.worker.Tick(t.Context())
	}
	a.worker.CleanLines(t.Context())
	require.Equal(t, int64(1), parked())
}
