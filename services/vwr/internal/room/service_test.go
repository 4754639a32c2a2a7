package room_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/proofofwork"
	"urr.guru/pkg/testkit"
	"urr.guru/services/vwr/internal/pass"
	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
)

// testReplica is one replica that uses a shared store.
type testReplica struct {
	*room.Service
	*room.Admin

	cache *room.StateCache
}

// newReplicas returns n replicas that use one store. Their clocks always show epoch.
func newReplicas(t *testing.T, n int) (*roomtest.Memory, []testReplica) {
	t.Helper()
	now := testkit.NewClock(epoch).Now
	m := roomtest.NewMemory(now)
	passes, err := pass.New("0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef")
	require.NoError(t, err)
	out := make([]testReplica, n)
	for i := range out {
		b := room.NewStateCache()
		out[i] = testReplica{
			Service: room.NewService(b, m, m, passes, m, nil, now, func() float64 { return 0.5 }),
			Admin:   room.NewAdmin(b, m, roomtest.NewSales().Destinations(), nil, now), cache: b,
		}
	}
	return m, out
}

func (d testReplica) activate(t *testing.T) room.State {
	t.Helper()
	st, err := d.Activate(t.Context(), "e", room.SettingsChange{})
	require.NoError(t, err)
	return st
}

func (d testReplica) deactivate(t *testing.T) room.State {
	t.Helper()
	st, err := d.Deactivate(t.Context(), "e")
	require.NoError(t, err)
	return st
}

func (d testReplica) advance(t *testing.T, n int64) room.State {
	t.Helper()
	st, err := d.Advance(t.Context(), "e", n)
	require.NoError(t, err)
	return st
}

// claimed returns how many of the served positions were claimed.
func (d testReplica) claimed(t *testing.T) int64 {
	t.Helper()
	st, err := d.Status(t.Context(), "e")
	require.NoError(t, err)
	return st.Claimed
}

func (d testReplica) assign(t *testing.T, visitor string) room.AssignResult {
	t.Helper()
	a, err := roomtest.Assign(t.Context(), d.Service, "e", room.VisitorIDs{Visitor: visitor})
	require.NoError(t, err, visitor)
	return a
}

func (d testReplica) check(t *testing.T, visitor string, a room.AssignResult, ticket string) room.CheckResult {
	t.Helper()
	c, err := d.Check(t.Context(), "e", room.VisitorIDs{Visitor: visitor}, a.RequestID, ticket)
	require.NoError(t, err, visitor)
	return c
}

func TestAssignIsIdempotentAcrossReplicas(t *testing.T) {
	t.Parallel()
	_, d := newReplicas(t, 2)
	_, err := roomtest.Assign(t.Context(), d[0].Service, "e", room.VisitorIDs{Visitor: "a"})
	require.ErrorIs(t, err, room.ErrInactive, "before the activation")
	d[0].activate(t)
	first := d[0].assign(t, "a")
	require.Equal(t, []int64{1, 1, 2}, []int64{first.Position, first.EstimatedWait, first.NextPoll})
	require.NotEmpty(t, first.Ticket)
	// The other replica has not read the counters yet since the activation.
	require.Equal(t, first.Record, d[1].assign(t, "a").Record)
	require.Equal(t, int64(2), d[1].assign(t, "b").Position)
	_, err = roomtest.Assign(t.Context(), d[0].Service, "e", room.VisitorIDs{Visitor: ""})
	require.ErrorIs(t, err, room.ErrVisitorRequired)
}

func TestCheckAdmitsServedPositions(t *testing.T) {
	t.Parallel()
	m, d := newReplicas(t, 2)
	d[0].activate(t)
	a, b := d[0].assign(t, "a"), d[0].assign(t, "b")
	require.Equal(t, room.CheckResult{Position: 2, Ahead: 2, EstimatedWait: 1, NextPoll: 2}, d[0].check(t, "b", b, b.Ticket))
	d[0].advance(t, 1)
	// The other replica's cache is older than the counter that the visitor has seen.
	c := d[1].check(t, "a", a, a.Ticket)
	require.True(t, c.Admitted)
	require.NotEmpty(t, c.Token)
	require.Zero(t, c.Ahead)
	require.Equal(t, epoch.Add(10*time.Minute).Unix(), c.TokenExpiresAt.Unix())
	require.False(t, d[1].check(t, "b", b, b.Ticket).Admitted, "the second is not admitted with the first")
	d[0].check(t, "a", a, a.Ticket)
	require.Equal(t, int64(1), d[0].claimed(t))
	// The cache is enough for visitors whose position is served.
	m.SetDown(true)
	require.True(t, d[1].check(t, "a", a, a.Ticket).Admitted)
	_, err := d[1].Check(t.Context(), "e", room.VisitorIDs{Visitor: "b"}, b.RequestID, b.Ticket)
	require.ErrorIs(t, err, roomtest.ErrDown, "who is not known to be served")
}

// The estimated wait follows the measured rate; until there is one, it follows the configured rate.
func TestEstimateFollowsTheMeasuredRate(t *testing.T) {
	t.Parallel()
	_, d := newReplicas(t, 1)
	st := d[0].activate(t)
	var last room.AssignResult
	for i := range 200 {
		last = d[0].assign(t, fmt.Sprint("v", i))
	}
	require.Equal(t, int64(4), last.EstimatedWait, "at the configured 50 per second")
	for rate, want := range map[float64]int64{10: 20, 2: 100, 400: 1} {
		d[0].cache.SetRate("e", st.Round, rate)
		require.Equal(t, want, d[0].check(t, "v199", last, last.Ticket).EstimatedWait, "at %v per second", rate)
	}
	d[0].cache.SetStalled("e", st.Round, true)
	require.Zero(t, d[0].check(t, "v199", last, last.Ticket).EstimatedWait, "nobody is served")
}

func TestCheckWithoutTicketReadsTheRecord(t *testing.T) {
	t.Parallel()
	_, d := newReplicas(t, 2)
	d[0].activate(t)
	a := d[0].assign(t, "a")
	c := d[1].check(t, "a", a, "")
	require.Equal(t, int64(1), c.Position)
	require.NotEmpty(t, c.Ticket)
	require.Equal(t, int64(1), d[0].check(t, "a", a, c.Ticket).Position, "with the new ticket")
	for what, ask := range map[string]struct {
		event, visitor string
		id             uuid.UUID
		ticket         string
	}{
		"another visitor's request":   {"e", "thief", a.RequestID, ""},
		"an unknown request":          {"e", "a", uuid.New(), ""},
		"a ticket of another request": {"e", "a", uuid.New(), a.Ticket},
		"a ticket of another event":   {"other", "a", a.RequestID, a.Ticket},
		"another visitor's ticket":    {"e", "thief", a.RequestID, a.Ticket},
	} {
		_, err := d[0].Check(t.Context(), ask.event, room.VisitorIDs{Visitor: ask.visitor}, ask.id, ask.ticket)
		require.ErrorIs(t, err, room.ErrUnknown, what)
	}
}

func TestPositionOfAnotherRoundIsUnknown(t *testing.T) {
	t.Parallel()
	_, d := newReplicas(t, 2)
	one := d[0].activate(t)
	a := d[0].assign(t, "a")
	d[0].deactivate(t)
	c := d[1].check(t, "a", a, a.Ticket)
	require.True(t, c.Admitted, "a closed room admits everyone")
	require.NotEmpty(t, c.Token)
	require.Zero(t, d[0].claimed(t), "whom a closed room lets through says nothing about the rate")
	_, err := roomtest.Assign(t.Context(), d[1].Service, "e", room.VisitorIDs{Visitor: "a"})
	require.ErrorIs(t, err, room.ErrInactive, "assign in a closed room")
	two := d[0].activate(t)
	require.Greater(t, two.Round, one.Round)
	require.Equal(t, []int64{0, 0}, []int64{two.Issued, two.Serving})
	for _, ticket := range []string{a.Ticket, ""} {
		_, err := d[1].Check(t.Context(), "e", room.VisitorIDs{Visitor: "a"}, a.RequestID, ticket)
		require.ErrorIs(t, err, room.ErrUnknown, "a position of the first round")
	}
	// This replica has cached the first round, and must not issue positions of it.
	b := d[1].assign(t, "b")
	require.Equal(t, two.Round, b.Round)
	require.Equal(t, int64(1), b.Position)
	again := d[1].assign(t, "a")
	require.Equal(t, int64(2), again.Position)
	require.NotEqual(t, a.RequestID, again.RequestID)
}

// A replica that has cached an earlier round as active detects the change when it writes.
func TestAssignDetectsRoundStartedElsewhere(t *testing.T) {
	t.Parallel()
	_, d := newReplicas(t, 2)
	d[1].activate(t)
	d[1].assign(t, "a")
	d[0].deactivate(t)
	two := d[0].activate(t)
	b := d[1].assign(t, "b")
	require.Equal(t, two.Round, b.Round)
	require.Equal(t, int64(1), b.Position)
}

// A replica that has cached an event as closed reads the store before it refuses a visitor, since
// another replica may have just activated the event.
func TestAssignDetectsActivationElsewhere(t *testing.T) {
	t.Parallel()
	_, d := newReplicas(t, 2)
	d[1].activate(t)
	d[1].deactivate(t)
	two := d[0].activate(t)
	a := d[1].assign(t, "a")
	require.Equal(t, two.Round, a.Round)
	require.Equal(t, int64(1), a.Position)
}

// The numbers of rounds increase even if a replica's clock is behind that of the replica that
// started the last round.
func TestRoundsIncreaseDespiteClockSkew(t *testing.T) {
	t.Parallel()
	m, d := newReplicas(t, 1)
	one := d[0].activate(t)
	behind := testReplica{Admin: room.NewAdmin(room.NewStateCache(), m, roomtest.NewSales().Destinations(), nil, testkit.NewClock(epoch.Add(-time.Hour)).Now)}
	behind.deactivate(t)
	require.Greater(t, behind.activate(t).Round, one.Round)
}

// contendedStore is a store whose next `failures` SetServing calls fail with ErrStale.
type contendedStore struct {
	*roomtest.Memory

	failures int
}

func (c *contendedStore) SetServing(ctx context.Context, seen room.Counters, to int64) error {
	if c.failures > 0 {
		c.failures--
		return room.ErrStale
	}
	return c.Memory.SetServing(ctx, seen, to)
}

// Replicas write the counter that an operator moves. The operator's write is repeated with the new
// state, at most maxAttempts times.
func TestAdminRetriesStaleWrites(t *testing.T) {
	t.Parallel()
	m, d := newReplicas(t, 1)
	d[0].activate(t)
	d[0].assign(t, "a")
	c := &contendedStore{Memory: m, failures: 5}
	admin := room.NewAdmin(room.NewStateCache(), c, roomtest.NewSales().Destinations(), nil, testkit.NewClock(epoch).Now)
	st, err := admin.Advance(t.Context(), "e", 1)
	require.NoError(t, err, "behind five others")
	require.Equal(t, int64(1), st.Serving)
	d[0].assign(t, "b")
	c.failures = 1000
	_, err = admin.Advance(t.Context(), "e", 1)
	require.ErrorIs(t, err, room.ErrUnavailable, "behind a thousand")
}

func TestActivateChangesOnlyGivenSettings(t *testing.T) {
	t.Parallel()
	_, d := newReplicas(t, 1)
	one := d[0].activate(t)
	require.Equal(t, room.DefaultSettings(), one.Settings, "a round without settings")
	d[0].assign(t, "a")
	batch := int64(20)
	st, err := d[0].Activate(t.Context(), "e", room.SettingsChange{Batch: &batch})
	require.NoError(t, err)
	want := room.DefaultSettings()
	want.Batch = 20
	require.Equal(t, want, st.Settings)
	require.Equal(t, one.Round, st.Round)
	require.Equal(t, int64(1), st.Issued)
	inlet := room.MaxInFlight
	_, err = d[0].Activate(t.Context(), "e", room.SettingsChange{Inlet: &inlet})
	require.ErrorIs(t, err, room.ErrInvalidSettings, "an inlet without its maximum")
	fields := errs.From(err).Fields
	require.Len(t, fields, 1)
	require.Equal(t, "maxInFlight", fields[0].Path)
}

// The proof of work can be changed during a round, and a new round begins without one.
func TestProofOfWorkIsASetting(t *testing.T) {
	t.Parallel()
	_, d := newReplicas(t, 1)
	one := d[0].activate(t)
	require.Zero(t, one.Settings.ProofOfWork)
	set := func(bits int64) (room.State, error) {
		return d[0].Activate(t.Context(), "e", room.SettingsChange{ProofOfWork: &bits})
	}
	for _, bits := range []int64{20, proofofwork.MaxBits, 0, 16} {
		st, err := set(bits)
		require.NoError(t, err)
		require.Equal(t, bits, st.Settings.ProofOfWork)
		require.Equal(t, one.Round, st.Round)
	}
	for _, bits := range []int64{-1, proofofwork.MaxBits + 1} {
		_, err := set(bits)
		require.ErrorIs(t, err, room.ErrInvalidSettings)
		require.Equal(t, "proofOfWork", errs.From(err).Fields[0].Path)
	}
	_, err := d[0].Deactivate(t.Context(), "e")
	require.NoError(t, err)
	st, err := d[0].Activate(t.Context(), "e", room.SettingsChange{})
	require.NoError(t, err)
	require.Zero(t, st.Settings.ProofOfWork)
}

func TestOperators(t *testing.T) {
	t.Parallel()
	_, d := newReplicas(t, 1)
	ctx := t.Context()
	for name, act := range map[string]func() (room.State, error){
		"deactivate": func() (room.State, error) { return d[0].Deactivate(ctx, "e") },
		"advance":    func() (room.State, error) { return d[0].Advance(ctx, "e", 1) },
		"status":     func() (room.State, error) { return d[0].Status(ctx, "e") },
	} {
		_, err := act()
		require.ErrorIs(t, err, room.ErrInactive, "%s of an event without a room", name)
	}
	d[0].activate(t)
	for _, visitor := range []string{"a", "b", "c"} {
		d[0].assign(t, visitor)
	}
	require.Equal(t, int64(2), d[0].advance(t, 2).Serving)
	require.Equal(t, int64(3), d[0].advance(t, 0).Serving, "by a batch, which ends at the last position")
	require.Equal(t, int64(3), d[0].advance(t, 5).Serving, "an empty line")
	for range 2 {
		require.False(t, d[0].deactivate(t).Active)
	}
	_, err := d[0].Advance(ctx, "e", 1)
	require.ErrorIs(t, err, room.ErrInactive, "advance a closed room")
	st, err := d[0].Status(ctx, "e")
	require.NoError(t, err)
	require.False(t, st.Active)
	require.Equal(t, int64(3), st.Issued)
}

func TestCounters(t *testing.T) {
	t.Parallel()
	_, d := newReplicas(t, 2)
	d[0].activate(t)
	d[0].assign(t, "a")
	got, err := d[1].ReadStates(t.Context(), []string{"e", "unknown"})
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Equal(t, int64(1), got[0].Issued)
	require.True(t, got[0].Active)
}

// findCounter counts calls of FindRecord.
type findCounter struct {
	room.PositionStore

	finds int
}

func (c *findCounter) FindRecord(ctx context.Context, of room.Counters, id uuid.UUID) (room.Record, bool, error) {
	c.finds++
	return c.PositionStore.FindRecord(ctx, of, id)
}

// An id is derived from the event, the round and the visitor, so another visitor's id is refused
// without a read. An own one is read once, if it exists, else once a second.
func TestReadsOfRecords(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock(epoch)
	m := roomtest.NewMemory(clock.Now)
	passes, err := pass.New("0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef")
	require.NoError(t, err)
	replica := func() (testReplica, *findCounter) {
		cache, store := room.NewStateCache(), &findCounter{PositionStore: m}
		return testReplica{
			Service: room.NewService(cache, m, store, passes, m, nil, clock.Now, func() float64 { return 0.5 }), Admin: room.NewAdmin(cache, m, roomtest.NewSales().Destinations(), nil, clock.Now), cache: cache,
		}, store
	}
	d, store := replica()
	d.activate(t)
	own, foreign := d.assign(t, "a"), d.assign(t, "b")
	for name, id := range map[string]uuid.UUID{"random": uuid.New(), "another visitor's": foreign.RequestID} {
		_, err := d.Check(t.Context(), "e", room.VisitorIDs{Visitor: "a"}, id, "")
		require.ErrorIs(t, err, room.ErrUnknown, name)
	}
	require.Equal(t, own.Position, d.check(t, "a", own, "").Position)
	require.Zero(t, store.finds, "what was assigned here is known")

	other, reads := replica()
	for range 3 {
		require.Equal(t, own.Position, other.check(t, "a", own, "").Position)
		clock.Advance(time.Minute)
	}
	require.Equal(t, 1, reads.finds, "it never changes")

	unknown := func() {
		t.Helper()
		_, err := other.Check(t.Context(), "e", room.VisitorIDs{Visitor: "c"}, passes.RequestIDs("e", own.Round, "c")[0], "")
		require.ErrorIs(t, err, room.ErrUnknown)
	}
	unknown()
	unknown()
	require.Equal(t, 2, reads.finds)
	clock.Advance(time.Second)
	unknown()
	require.Equal(t, 3, reads.finds)
	late := other.assign(t, "c")
	require.Equal(t, late.Position, other.check(t, "c", late, "").Position, "assigned within the second")
	require.Equal(t, 3, reads.finds)
}
