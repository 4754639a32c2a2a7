package revoked_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/redis/redistest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/gateway/internal/revoked"
)

const life = 12 * time.Hour

// fixture is a key in Redis and a clock, shared by the lists of several gateways.
type fixture struct {
	t     *testing.T
	rdb   redis.UniversalClient
	key   string
	clock *testkit.Clock
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return &fixture{t: t, rdb: redistest.Open(t), key: redistest.Prefix(t), clock: testkit.NewClock(time.UnixMilli(1_800_000_000_500))}
}

// gateway returns a list that was read once.
func (s *fixture) gateway() *revoked.List {
	s.t.Helper()
	l := revoked.New(s.rdb, s.key, life, s.clock.Now)
	s.read(l)
	return l
}

func (s *fixture) read(l *revoked.List) {
	s.t.Helper()
	require.NoError(s.t, l.Read(s.t.Context()))
}

func (s *fixture) session(user string) *claims.Session {
	return claims.NewSession(user, nil, s.clock.Now(), s.clock.Now().Add(life))
}

func (s *fixture) stored() map[string]float64 {
	s.t.Helper()
	members, err := s.rdb.ZRangeWithScores(s.t.Context(), s.key, 0, -1).Result()
	require.NoError(s.t, err)
	all := map[string]float64{}
	for _, z := range members {
		all[fmt.Sprint(z.Member)] = z.Score
	}
	return all
}

func TestRevocationsReachAllGateways(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*fixture{"single server": newFixture(t), "cluster": func() *fixture {
		s := newFixture(t)
		s.rdb, s.key = redistest.OpenCluster(t), redistest.ClusterPrefix(t)
		return s
	}()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.t = t
			a, b := s.gateway(), s.gateway()
			one, two, bob := s.session("alice"), s.session("alice"), s.session("bob")
			require.NoError(t, a.RevokeSessions(t.Context(), one.ID))
			require.True(t, a.IsRevoked(one), "at once where it was revoked")
			require.False(t, b.IsRevoked(one))
			s.read(b)
			require.True(t, b.IsRevoked(one))
			require.False(t, b.IsRevoked(two))

			s.clock.Advance(time.Millisecond)
			require.NoError(t, b.RevokeUser(t.Context(), "alice"))
			s.read(a)
			later := claims.NewSession("alice", nil, a.IssueTime(t.Context(), "alice"), s.clock.Now().Add(life))
			for _, l := range []*revoked.List{a, b} {
				require.True(t, l.IsRevoked(two), "issued before")
				require.False(t, l.IsRevoked(later), "issued afterwards")
				require.False(t, l.IsRevoked(bob))
			}
			require.Equal(t, map[string]float64{"s:" + one.ID: 1_800_000_000_500, "u:alice": 1_800_000_060_501}, s.stored())
		})
	}
}

// A gateway with a slow clock also revokes sessions that a gateway with a fast clock has issued
// before, but no session that any gateway issues afterwards.
func TestClockSkew(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	ahead, behind := s.gateway(), s.gateway()
	issuedAhead := claims.NewSession("alice", nil, s.clock.Now().Add(40*time.Second), s.clock.Now().Add(life))
	require.NoError(t, behind.RevokeUser(t.Context(), "alice"))
	require.True(t, behind.IsRevoked(issuedAhead))
	s.read(ahead)
	require.True(t, ahead.IsRevoked(issuedAhead))
	for _, l := range []*revoked.List{ahead, behind} {
		again := claims.NewSession("alice", nil, l.IssueTime(t.Context(), "alice"), s.clock.Now().Add(life))
		require.False(t, ahead.IsRevoked(again))
		require.False(t, behind.IsRevoked(again))
		require.Equal(t, s.clock.Now(), l.IssueTime(t.Context(), "bob"))
	}
	s.clock.Advance(time.Hour)
	require.Equal(t, s.clock.Now(), behind.IssueTime(t.Context(), "alice"))
}

// A sign-in at a gateway that has not yet read a revocation of the user gives a session that all
// gateways accept. While Redis is unavailable the list in memory decides.
func TestSignInAfterRevocation(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	a, b := s.gateway(), s.gateway()
	before := s.session("alice")
	s.clock.Advance(time.Second)
	require.NoError(t, a.RevokeUser(t.Context(), "alice"))
	after := claims.NewSession("alice", nil, b.IssueTime(t.Context(), "alice"), s.clock.Now().Add(life))
	require.True(t, b.IsRevoked(before), "the member read from Redis is in force at once")
	s.read(b)
	for _, l := range []*revoked.List{a, b, s.gateway()} {
		require.True(t, l.IsRevoked(before))
		require.False(t, l.IsRevoked(after))
	}
	require.Equal(t, s.clock.Now(), b.IssueTime(t.Context(), "bob"))

	require.NoError(t, s.rdb.Close())
	require.Equal(t, after.Issued(), b.IssueTime(t.Context(), "alice"))
	require.Equal(t, s.clock.Now(), b.IssueTime(t.Context(), "bob"))
}

// A gateway with a shorter lifetime of sessions drops revocations earlier. After that it accepts
// neither the revoked session nor others of the same age, about which the list has no information.
func TestShorterLifetimeRevivesNoSession(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	revokedSession, other := s.session("alice"), s.session("bob")
	require.NoError(t, s.gateway().RevokeSessions(t.Context(), revokedSession.ID))
	const shorter = time.Hour
	gateway := func() *revoked.List {
		l := revoked.New(s.rdb, s.key, shorter, s.clock.Now)
		s.read(l)
		return l
	}
	s.clock.Advance(shorter)
	l := gateway()
	require.True(t, l.IsRevoked(revokedSession))
	require.False(t, l.IsRevoked(other), "not older than a session may be")
	s.clock.Advance(time.Millisecond)
	require.True(t, l.IsRevoked(other))
	for range 5 { // until it is dropped everywhere
		s.clock.Advance(time.Minute)
		s.read(l)
		require.True(t, l.IsRevoked(revokedSession))
	}
	require.Empty(t, s.stored())
	require.True(t, gateway().IsRevoked(revokedSession))
	require.False(t, gateway().IsRevoked(s.session("alice")))
}

// A gateway that has never read the list accepts no session. One that has uses the last list while
// Redis is unavailable, and fails to revoke what it cannot write.
func TestRedisUnavailable(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	l, c := s.gateway(), s.session("alice")
	require.NoError(t, l.RevokeUser(t.Context(), "alice"))
	require.NoError(t, s.rdb.Close())
	neverRead := revoked.New(s.rdb, s.key, life, s.clock.Now)
	for _, l := range []*revoked.List{l, neverRead} {
		require.ErrorIs(t, l.Read(t.Context()), errs.ErrUnavailable)
	}
	require.True(t, l.IsRevoked(c))
	require.NoError(t, l.Ready(t.Context()))
	require.False(t, neverRead.HasBeenRead())
	require.Error(t, neverRead.Ready(t.Context()))
	bob := s.session("bob")
	require.ErrorIs(t, l.RevokeSessions(t.Context(), bob.ID), errs.ErrUnavailable)
	require.False(t, l.IsRevoked(bob), "a failed revocation has no effect")
}

// The gateways write back what Redis has lost: all members, or the last ones before a failover.
func TestLostMembersAreWrittenBack(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	a, b := s.gateway(), s.gateway()
	sessions := make([]string, 2500) // more than one command can write
	for i := range sessions {
		sessions[i] = s.session("alice").ID
	}
	require.NoError(t, a.RevokeSessions(t.Context(), sessions...))
	s.read(b)
	s.clock.Advance(time.Hour)
	require.NoError(t, a.RevokeUser(t.Context(), "bob"))
	all := s.stored()
	require.Len(t, all, 2501)

	require.NoError(t, s.rdb.ZRem(t.Context(), s.key, "u:bob").Err())
	s.read(a)
	require.Equal(t, all, s.stored(), "one")
	require.NoError(t, s.rdb.Del(t.Context(), s.key).Err())
	s.read(b)
	s.read(a)
	require.Equal(t, all, s.stored(), "everything")
	bob := s.session("bob")
	require.True(t, s.gateway().IsRevoked(bob), "a new gateway reads everything")
}

// A list that is read-only follows the others, but neither restores nor removes members.
func TestReadOnlyListWritesNothing(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	a := s.gateway()
	room := revoked.New(s.rdb, s.key, life, s.clock.Now)
	room.ReadOnly = true
	require.NoError(t, a.RevokeUser(t.Context(), "bob"))
	s.read(room)
	require.True(t, room.IsRevoked(s.session("bob")))

	require.NoError(t, s.rdb.Del(t.Context(), s.key).Err())
	s.read(room)
	require.Empty(t, s.stored())
	require.True(t, room.IsRevoked(s.session("bob")), "it keeps what it has read")
	require.NoError(t, s.rdb.ZAdd(t.Context(), s.key, redis.Z{Score: 1, Member: "u:old"}).Err())
	s.read(room)
	require.Contains(t, s.stored(), "u:old")
	s.read(a)
	require.NotContains(t, s.stored(), "u:old", "others remove what is too old")
}

// readCounter counts the members that Redis sends.
type readCounter struct{ members int }

func (c *readCounter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *readCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		defer c.add(cmd)
		return next(ctx, cmd)
	}
}

func (c *readCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		defer func() { c.add(cmds...) }()
		return next(ctx, cmds)
	}
}

func (c *readCounter) add(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		if read, ok := cmd.(*redis.ZSliceCmd); ok {
			c.members += len(read.Val())
		}
	}
}

// After 30,000 users have signed out within a minute, a read transfers only what has changed since
// the last one, also if one more signs out or a member is lost. The whole list is read in parts.
func TestReadsCostWhatHasChanged(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	const users = 30_000
	begun := s.clock.Now().UnixMilli()
	members := make([]redis.Z, users)
	for i := range members {
		members[i] = redis.Z{Member: fmt.Sprintf("s:%06d", i), Score: float64(begun + int64(i)*2)}
	}
	for part := range slices.Chunk(members, 5000) {
		require.NoError(t, s.rdb.ZAdd(t.Context(), s.key, part...).Err())
	}
	s.clock.Advance(time.Minute)
	sent := &readCounter{}
	s.rdb.AddHook(sent)
	l := s.gateway()
	require.Less(t, sent.members, users*11/10, "all of them, once")
	requireCost := func(want int, what string) {
		t.Helper()
		sent.members = 0
		s.clock.Advance(time.Second)
		s.read(l)
		require.LessOrEqual(t, sent.members, want, what)
	}
	requireCost(5001, "those of the last seconds")
	c := s.session("alice")
	require.NoError(t, s.rdb.ZAdd(t.Context(), s.key, redis.Z{Member: "s:" + c.ID, Score: float64(s.clock.Now().UnixMilli())}).Err())
	requireCost(5001, "one more")
	require.True(t, l.IsRevoked(c))

	s.clock.Advance(10 * time.Second)
	require.NoError(t, s.rdb.ZRem(t.Context(), s.key, "s:001000", "s:001001").Err())
	require.NoError(t, s.rdb.ZAdd(t.Context(), s.key, redis.Z{Member: "s:late", Score: float64(begun + 25_000)}).Err())
	requireCost(15_000, "the parts that differ")
	require.InDelta(t, float64(begun+2000), s.stored()["s:001000"], 0, "written back")
	late := s.session("bob")
	late.ID = "late"
	require.True(t, l.IsRevoked(late))

	s.clock.Advance(time.Minute)
	require.NoError(t, s.rdb.ZRem(t.Context(), s.key, "s:020000").Err())
	require.NoError(t, s.rdb.ZAdd(t.Context(), s.key, redis.Z{Member: "s:other", Score: float64(begun + 40_000)}).Err())
	for range 10 {
		requireCost(10_000, "a part a second, though all counts are equal")
	}
	require.Contains(t, s.stored(), "s:020000")
}

// A revocation by a gateway whose clock is minutes slow has an old time, so it is not read as a new
// one. The count shows that it is missing.
func TestRevocationWithAnOldTimeIsRead(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	l, c := s.gateway(), s.session("alice")
	behind := s.clock.Now().Add(-10 * time.Minute).UnixMilli()
	require.NoError(t, s.rdb.ZAdd(t.Context(), s.key, redis.Z{Member: "s:" + c.ID, Score: float64(behind)}).Err())
	s.read(l)
	require.True(t, l.IsRevoked(c))
}

// Revocations are kept for as long as the sessions may live, and no longer.
func TestRevocationsExpire(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	l, c := s.gateway(), s.session("alice")
	require.NoError(t, l.RevokeSessions(t.Context(), c.ID))
	s.clock.Advance(life)
	s.read(l)
	require.True(t, l.IsRevoked(c))
	s.clock.Advance(2*time.Minute + time.Millisecond) // twice the allowed clock skew
	s.read(l)
	s.read(l) // an entry still in memory would be written back
	require.Empty(t, s.stored())
}

func TestWithoutRedis(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock(time.Unix(1_800_000_000, 0))
	l := revoked.New(nil, "", life, clock.Now)
	require.NoError(t, l.Ready(t.Context()))
	require.NoError(t, l.Watch(t.Context(), slog.New(slog.DiscardHandler)))
	c := claims.NewSession("alice", nil, clock.Now(), clock.Now().Add(life))
	require.NoError(t, l.RevokeSessions(t.Context(), c.ID))
	require.True(t, l.IsRevoked(c))
}

// An outage of a minute causes one line in the log.
func TestWatchLogsAnOutageOnce(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	require.NoError(t, rdb.Close()) // every command fails at once
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := revoked.New(rdb, "k", life, time.Now)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- l.Watch(ctx, slog.New(slog.NewTextHandler(&log, nil))) }()
		<-time.After(time.Minute)
		stop()
		require.NoError(t, <-done)
		require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
		require.False(t, l.HasBeenRead())
	})
}
