package redis_test

import (
	"encoding/json"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/redis/redistest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/queue/internal/line"
	"urr.guru/services/queue/internal/redis"
)

// schedule is the schedule of lines, for two replicas, in a real Redis.
type schedule struct {
	*testing.T

	store *redis.Store
	clock *testkit.Clock
}

func newSchedule(t *testing.T, client goredis.UniversalClient, registry string) *schedule {
	t.Helper()
	clock := testkit.NewClock(time.Unix(1_800_000_001, 0)) // not a time of the periodic comparison with the registry
	store, err := redis.NewStore(client, line.DefaultRules(), redis.WithClock(clock.Now), redis.WithRegistry(registry), redis.WithTimeout(time.Hour))
	require.NoError(t, err)
	return &schedule{T: t, store: store, clock: clock}
}

func (s *schedule) claim(r line.TickRequest) line.TickPlan {
	s.Helper()
	r.Lease, r.BusyFor = 900*time.Millisecond, time.Minute
	p, err := s.store.ClaimTicks(s.Context(), r)
	require.NoError(s, err)
	return p
}

func (s *schedule) report(reports ...line.TickReport) {
	s.Helper()
	require.NoError(s, s.store.ReportTicks(s.Context(), line.TickResults{Reports: reports, BusyFor: time.Minute}))
}

func TestTickIsClaimedOnce(t *testing.T) {
	t.Parallel()
	s := newSchedule(t, redistest.Open(t), "registry-"+redistest.Prefix(t))
	require.NoError(t, s.store.AddEvents(t.Context(), "a", "b"))
	require.ElementsMatch(t, []string{"a", "b"}, s.claim(line.TickRequest{}).Due)
	require.Empty(t, s.claim(line.TickRequest{}).Due)
	s.clock.Advance(900 * time.Millisecond)
	require.Equal(t, []string{"b"}, s.claim(line.TickRequest{Skip: []string{"a"}}).Due, "a is left to others")
	require.Equal(t, []string{"a"}, s.claim(line.TickRequest{}).Due)
}

func TestIdleLineIsDueWhenSomebodyComes(t *testing.T) {
	t.Parallel()
	s := newSchedule(t, redistest.Open(t), "registry-"+redistest.Prefix(t))
	require.NoError(t, s.store.AddEvents(t.Context(), "a"))
	s.claim(line.TickRequest{})
	s.report(line.TickReport{EventID: "a", State: line.LineState{Epoch: 1}, IdleFor: time.Minute})
	s.clock.Advance(50 * time.Second)
	require.Empty(t, s.claim(line.TickRequest{}).Due)
	_, err := s.store.ClaimTicks(t.Context(), line.TickRequest{Busy: []string{"a"}, BusyFor: time.Minute})
	require.NoError(t, err)
	p := s.claim(line.TickRequest{})
	require.Equal(t, [][]string{{"a"}, {"a"}}, [][]string{p.Due, p.Busy})

	// The tick has found nobody, but meanwhile a visitor came to another replica.
	s.report(line.TickReport{EventID: "a", State: line.LineState{Epoch: 1}, IdleFor: time.Minute})
	s.clock.Advance(time.Second)
	require.Equal(t, []string{"a"}, s.claim(line.TickRequest{}).Due)
	s.clock.Advance(time.Minute)
	p = s.claim(line.TickRequest{})
	require.Equal(t, []string{"a"}, p.Due)
	require.Empty(t, p.Busy)
}

func TestReportsReachOtherReplicas(t *testing.T) {
	t.Parallel()
	s := newSchedule(t, redistest.Open(t), "registry-"+redistest.Prefix(t))
	require.NoError(t, s.store.AddEvents(t.Context(), "a", "gone"))
	since := s.claim(line.TickRequest{}).Now
	s.clock.Advance(time.Second)
	state := line.LineState{Epoch: 5, Revision: 2, Now: 7, Waiting: 3, Threshold: 9, Sale: line.Sale{Status: line.OnSale, At: 6}}
	fresh := state
	fresh.BegunNow = true
	tick := line.AdmissionResult{Silent: true, Kept: 4}
	s.report(line.TickReport{EventID: "a", State: fresh, Tick: tick, AgeMS: 10}, line.TickReport{EventID: "gone", IdleFor: time.Minute})
	s.clock.Advance(100 * time.Millisecond)
	want := []line.TickReport{{EventID: "a", State: state, Tick: tick, AgeMS: 110}, {EventID: "gone", AgeMS: 100}}
	p := s.claim(line.TickRequest{Since: since})
	require.ElementsMatch(t, want, p.Reports)
	require.Equal(t, []string{"a"}, p.Busy, "it has visitors")
	require.Empty(t, s.claim(line.TickRequest{Since: p.Now}).Reports)
	require.Len(t, s.claim(line.TickRequest{}).Reports, 2, "a new replica gets all")

	require.NoError(t, s.store.RemoveEvent(t.Context(), "gone"))
	require.Len(t, s.claim(line.TickRequest{}).Reports, 1, "of a line that is no longer listed there is none")
}

// If the clock is set back, lines are ticked all the same.
func TestTicksGoOnAfterClockWentBack(t *testing.T) {
	t.Parallel()
	s := newSchedule(t, redistest.Open(t), "registry-"+redistest.Prefix(t))
	require.NoError(t, s.store.AddEvents(t.Context(), "a"))
	since := s.claim(line.TickRequest{Busy: []string{"a"}}).Now
	for _, step := range []time.Duration{2 * time.Second, 5 * time.Second, time.Minute, time.Hour} {
		s.clock.Advance(-step)
		p := s.claim(line.TickRequest{Since: since})
		require.Equal(t, []string{"a"}, p.Due)
		require.Less(t, p.Now, since)
		since = p.Now
	}
	s.clock.Advance(time.Second)
	require.Equal(t, []string{"a"}, s.claim(line.TickRequest{Since: since}).Due)
}

// The schedule notices changes of the registry that keep its size, whenever replicas plan.
func TestScheduleFollowsRegistry(t *testing.T) {
	t.Parallel()
	s := newSchedule(t, redistest.Open(t), "registry-"+redistest.Prefix(t))
	require.NoError(t, s.store.AddEvents(t.Context(), "a"))
	p := s.claim(line.TickRequest{})
	s.report(line.TickReport{EventID: "a", State: line.LineState{Epoch: 1}, IdleFor: time.Minute})
	require.NoError(t, s.store.AddEvents(t.Context(), "b"))
	require.NoError(t, s.store.RemoveEvent(t.Context(), "a"))
	s.clock.Advance(5 * time.Second)
	p = s.claim(line.TickRequest{Since: p.Now})
	require.Empty(t, p.Due)
	s.clock.Advance(5 * time.Second)
	require.Equal(t, []string{"b"}, s.claim(line.TickRequest{Since: p.Now}).Due)
}

// A tick soon after a failover begins a line's recovery, which is over when a visitor comes.
func TestIdleLinesAreDueSoonAfterFailover(t *testing.T) {
	t.Parallel()
	registry := "registry-" + redistest.Prefix(t)
	client := redistest.Open(t)
	s := newSchedule(t, client, registry)
	require.NoError(t, s.store.AddEvents(t.Context(), "a", "b"))
	since := s.claim(line.TickRequest{}).Now
	for _, id := range []string{"a", "b"} {
		s.report(line.TickReport{EventID: id, State: line.LineState{Epoch: 1}, IdleFor: time.Minute})
	}
	s.clock.Advance(time.Second)
	require.Empty(t, s.claim(line.TickRequest{Since: since}).Due)
	require.NoError(t, client.Set(t.Context(), "{"+registry+"}:run", "another", 0).Err())
	require.Empty(t, s.claim(line.TickRequest{Since: since}).Due, "not all at once")
	s.clock.Advance(2500 * time.Millisecond)
	require.Len(t, s.claim(line.TickRequest{Since: since}).Due, 1)
	s.clock.Advance(2500 * time.Millisecond)
	require.Len(t, s.claim(line.TickRequest{Since: since}).Due, 2)
}

// Replicas of other releases read the states.
func TestStateKeepsItsNamesInJSON(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(line.LineState{Revision: 1, BegunNow: true, PrevHolders: 2, PrevEpoch: 3, ExtendedMS: 4})
	require.NoError(t, err)
	for _, field := range []string{`"Rev":1`, `"Fresh":true`, `"Old":2`, `"Prev":3`, `"Lost":4`} {
		require.Contains(t, string(raw), field)
	}
}
