package redis_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/redis/redistest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/queue/internal/line"
	"urr.guru/services/queue/internal/redis"
	"urr.guru/services/queue/internal/redis/admissiontest"
)

// fixture is one line on the real Redis, with a clock that only the test advances.
type fixture struct {
	t      *testing.T
	client goredis.UniversalClient
	store  *redis.Store
	event  string
	round  int64
	time   *testkit.Clock
	known  line.KnownState // what the replica under test has cached of the line
	away   bool            // the ticket service does not answer
}

// setup returns an open line with this threshold, whose settings have been read.
func setup(t *testing.T, threshold int64) *fixture {
	t.Helper()
	f := unopened(t)
	f.open()
	f.apply(line.Settings{Threshold: &threshold})
	return f
}

func ptr(n int64) *int64 { return &n }

func unopened(t *testing.T) *fixture {
	t.Helper()
	return setupOn(t, redistest.Open(t), redistest.Prefix(t))
}

// setupOn returns a line on the client's server that is not open yet.
func setupOn(t *testing.T, client goredis.UniversalClient, event string) *fixture {
	t.Helper()
	t.Parallel()
	f := &fixture{t: t, client: client, event: event, time: testkit.NewClock(time.Unix(1_800_000_000, 0))}
	f.round = f.clock().Add(-time.Hour).UnixMicro()
	store, err := redis.NewStore(f.client, line.DefaultRules(), redis.WithClock(f.clock), redis.WithRegistry("registry-"+f.event), redis.WithTimeout(time.Hour))
	require.NoError(t, err)
	f.store = store
	return f
}

func (f *fixture) clock() time.Time { return f.time.Now() }

func (f *fixture) advance(d time.Duration) { f.time.Advance(d) }

// observe caches a state like a replica.
func (f *fixture) observe(s line.LineState, err error) line.LineState {
	f.t.Helper()
	require.NoError(f.t, err)
	m := &f.known
	if s.Epoch > m.Epoch || (s.Epoch == m.Epoch && s.Revision >= m.Revision) {
		m.Epoch, m.Revision, m.AnsweredAt = s.Epoch, s.Revision, s.Now
		if s.SettingsAt > 0 {
			m.SettingsAt, m.Threshold, m.Paused, m.SlotMS, m.ClosesAt = s.SettingsAt, s.Threshold, s.Paused, s.SlotMS, s.ClosesAt
		}
		if s.Sale.At >= m.Sale.At {
			m.Sale = s.Sale
		}
	}
	return s
}

func (f *fixture) open() line.LineState {
	f.t.Helper()
	return f.observe(f.store.Open(f.ctx(), f.event, f.known))
}

func (f *fixture) apply(s line.Settings) line.LineState {
	f.t.Helper()
	return f.observe(f.store.ApplySettings(f.ctx(), f.event, f.known, s, f.clock().UnixMilli()))
}

func (f *fixture) peek() line.LineState {
	f.t.Helper()
	return f.observe(f.store.Peek(f.ctx(), f.event, f.known))
}

func (f *fixture) ctx() context.Context { return f.t.Context() }

// admissions lists who was admitted so far, in order.
func (f *fixture) admissions() []admissiontest.Admission {
	f.t.Helper()
	return admissiontest.Read(f.t, f.client, f.key("admitted"))
}

// claim runs the check for one visitor.
func (f *fixture) claim(c line.PlaceClaim) line.ClaimOutcome {
	f.t.Helper()
	s, out, err := f.store.Check(f.ctx(), f.event, f.known, []line.PlaceClaim{c})
	f.observe(s, err)
	require.Len(f.t, out, 1)
	return out[0]
}

// join runs the check script, which adds the user to the line. status runs it and adds nobody.
func (f *fixture) join(user string) line.ClaimOutcome {
	f.t.Helper()
	return f.claim(line.PlaceClaim{UserID: user, Join: true, Begin: true})
}

func (f *fixture) status(user string) line.ClaimOutcome {
	f.t.Helper()
	return f.claim(line.PlaceClaim{UserID: user})
}

// joinAt joins with a tier-1 position.
func (f *fixture) joinAt(user string, position int64) line.ClaimOutcome {
	f.t.Helper()
	return f.claim(line.PlaceClaim{UserID: user, Join: true, Tier1: line.Tier1{Required: true, Round: f.round, Position: position}})
}

// crowd makes n users named prefix-0… join a millisecond apart, and returns their names.
func (f *fixture) crowd(prefix string, n int) []string {
	f.t.Helper()
	users := make([]string, n)
	for i := range users {
		users[i] = fmt.Sprintf("%s-%d", prefix, i)
		f.advance(time.Millisecond)
		f.join(users[i])
	}
	return users
}

// poll runs the check for several users in one call, like a batch of the gateway.
func (f *fixture) poll(users ...string) {
	f.t.Helper()
	if len(users) == 0 {
		return
	}
	claims := make([]line.PlaceClaim, len(users))
	for i, u := range users {
		claims[i].UserID = u
	}
	s, _, err := f.store.Check(f.ctx(), f.event, f.known, claims)
	f.observe(s, err)
}

// tick runs one tick of the line.
func (f *fixture) tick() line.AdmissionResult {
	f.t.Helper()
	s, did, err := f.store.Admit(f.ctx(), f.event, f.known)
	f.observe(s, err)
	return did
}

// live runs a tick and the polls of the users once a second for the duration.
func (f *fixture) live(d time.Duration, users ...string) {
	f.t.Helper()
	f.liveBy(time.Second, d, users...)
}

// liveBy does what live does, with the given time between ticks.
func (f *fixture) liveBy(step, d time.Duration, users ...string) {
	f.t.Helper()
	for range int(d / step) {
		f.advance(step)
		f.ask()
		f.poll(users...)
		f.tick()
	}
}

func (f *fixture) release(user, slot string) bool {
	f.t.Helper()
	s, ok, err := f.store.Release(f.ctx(), f.event, f.known, user, slot)
	f.observe(s, err)
	return ok
}

func (f *fixture) hold(user, slot string, until time.Time) bool {
	f.t.Helper()
	return f.holdFor("r", user, slot, until)
}

// holdFor records the hold of a reservation; the zero time ends it.
func (f *fixture) holdFor(reservation, user, slot string, until time.Time) bool {
	f.t.Helper()
	s, ok, err := f.store.Hold(f.ctx(), f.event, f.known, line.SeatHold{UserID: user, SlotID: slot, ReservationID: reservation, Until: until})
	f.observe(s, err)
	return ok
}

func (f *fixture) clean() (moved int64) {
	f.t.Helper()
	s, moved, _, err := f.store.Clean(f.ctx(), f.event, f.known)
	f.observe(s, err)
	return moved
}

func (f *fixture) key(name string) string { return "{" + f.event + "}:" + name }

// joinAll joins n users named prefix-000… in one call and returns their names.
func (f *fixture) joinAll(prefix string, n int) []string {
	f.t.Helper()
	claims, users := make([]line.PlaceClaim, n), make([]string, n)
	for i := range claims {
		users[i] = fmt.Sprintf("%s-%03d", prefix, i)
		claims[i] = line.PlaceClaim{UserID: users[i], Join: true}
	}
	s, _, err := f.store.Check(f.ctx(), f.event, f.known, claims)
	f.observe(s, err)
	return users
}

// advised sets a waiter's last contact to now, and the advised poll interval in seconds.
func (f *fixture) advised(user string, poll int) {
	f.t.Helper()
	score := float64(f.clock().UnixMilli()) + float64(poll)/128
	require.NoError(f.t, f.client.ZAdd(f.ctx(), f.key("seen"), goredis.Z{Score: score, Member: user}).Err())
}

// score returns a member's score in a sorted set, in whole ms or µs.
func (f *fixture) score(name, user string) int64 {
	f.t.Helper()
	x, err := f.client.ZScore(f.ctx(), f.key(name), user).Result()
	require.NoError(f.t, err)
	return int64(x)
}

// set returns the members of a sorted set in order.
func (f *fixture) set(name string) []string {
	f.t.Helper()
	users, err := f.client.ZRange(f.ctx(), f.key(name), 0, -1).Result()
	require.NoError(f.t, err)
	return users
}

// wipe removes all data of the line from Redis.
func (f *fixture) wipe() {
	f.t.Helper()
	keys := redistest.Keys(f.t, f.client, f.key("*"))
	if len(keys) > 0 {
		require.NoError(f.t, f.client.Del(f.ctx(), keys...).Err())
	}
}

// failover makes the line's data appear to be on another server.
func (f *fixture) failover() {
	f.t.Helper()
	require.NoError(f.t, f.client.HSet(f.ctx(), f.key("line"), "run", "another").Err())
}

// snapshot returns a function that restores the line's present data.
func (f *fixture) snapshot() (restore func()) {
	f.t.Helper()
	return redistest.Snapshot(f.t, f.client, f.key("*"))
}

func (f *fixture) ticket(o line.ClaimOutcome) *line.Ticket {
	return &line.Ticket{Score: o.Score, Epoch: f.known.Epoch, IssuedAt: f.clock().UnixMilli()}
}

func (f *fixture) entry(o line.ClaimOutcome) *line.EntryClaims {
	return &line.EntryClaims{SlotID: o.SlotID, Epoch: f.known.Epoch, End: o.End}
}

// otherLine returns a fixture for a second line in the same store. The line is not open yet.
func otherLine(t *testing.T, f *fixture) *fixture {
	t.Helper()
	return &fixture{t: t, client: f.client, store: f.store, event: f.event + "-2", time: testkit.NewClock(f.clock()), round: f.round}
}
