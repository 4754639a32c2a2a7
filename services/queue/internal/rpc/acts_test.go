package rpc_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/errs"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// act does an operator's act. It returns whether the act is stored.
func (f *fixture) act(do func(a queuev1.QueueAdminServiceClient) (interface{ GetDurable() bool }, error)) bool {
	f.t.Helper()
	res, err := do(f.admin)
	require.NoError(f.t, err)
	return res.GetDurable()
}

func (f *fixture) setPaused(paused bool) (durable bool) {
	f.t.Helper()
	return f.act(func(a queuev1.QueueAdminServiceClient) (interface{ GetDurable() bool }, error) {
		if paused {
			return a.Pause(f.ctx(), &queuev1.PauseRequest{Caller: f.operator(), EventId: f.event})
		}
		return a.Resume(f.ctx(), &queuev1.ResumeRequest{Caller: f.operator(), EventId: f.event})
	})
}

func (f *fixture) setThreshold(n int64) (durable bool) {
	f.t.Helper()
	return f.act(func(a queuev1.QueueAdminServiceClient) (interface{ GetDurable() bool }, error) {
		return a.SetThreshold(f.ctx(), &queuev1.SetThresholdRequest{Caller: f.operator(), EventId: f.event, Threshold: &n})
	})
}

func (f *fixture) setBlocked(user string, blocked bool) (durable bool) {
	f.t.Helper()
	return f.act(func(a queuev1.QueueAdminServiceClient) (interface{ GetDurable() bool }, error) {
		if blocked {
			return a.Block(f.ctx(), &queuev1.BlockRequest{Caller: f.operator(), EventId: f.event, UserId: user})
		}
		return a.Unblock(f.ctx(), &queuev1.UnblockRequest{Caller: f.operator(), EventId: f.event, UserId: user})
	})
}

// requireStored checks that these settings are stored and in the line, and no act is pending.
func (f *fixture) requireStored(threshold int64, paused bool, blocked ...string) {
	f.t.Helper()
	set, err := f.tickets.get(f.event)
	require.NoError(f.t, err)
	require.Equal(f.t, []any{threshold, paused}, []any{set.GetThreshold(), set.GetPaused()})
	require.ElementsMatch(f.t, blocked, set.GetBlockedUsers())
	f.requireInForce(threshold, paused, blocked...)
	require.True(f.t, f.line().GetDurable())
}

func (f *fixture) requireInForce(threshold int64, paused bool, blocked ...string) {
	f.t.Helper()
	l := f.line()
	require.Equal(f.t, threshold, l.GetThreshold())
	if paused {
		require.Contains(f.t, l.GetPauses(), "OPERATOR")
	} else {
		require.NotContains(f.t, l.GetPauses(), "OPERATOR")
	}
	users, err := f.client.SMembers(f.ctx(), f.key("blocked")).Result()
	require.NoError(f.t, err)
	require.ElementsMatch(f.t, blocked, users)
}

// seconds lets n seconds pass, in each of which the replicas do their work.
func seconds(n int, replicas ...*fixture) {
	for range n {
		replicas[0].advance(time.Second)
		for _, r := range replicas {
			r.work()
		}
	}
}

// During an outage of the ticket service no slot runs out, nobody is admitted in vain, and an
// operator's act is in force at once.
func TestSlotsAndActsInOutageOfTicket(t *testing.T) {
	f := setup(t)
	f.tickets.setSale(&ticketv1.SaleStatus{
		EventId: f.event, Status: "ON_SALE", OpensAt: stamp(f.clock().Add(-time.Hour)), ClosesAt: stamp(f.clock().Add(24 * time.Hour)),
	})
	f.open(2)
	other := f.another()
	var inside []*queuev1.LineItem
	for _, user := range []string{"a", "b"} {
		it, p := f.enter(user)
		require.Equal(t, f.clock().Add(600*time.Second).UnixMilli(), p.GetExpiresAt())
		inside = append(inside, it)
	}
	waits := f.item("w")
	require.Equal(t, "queued", f.check(waits).GetPlace().GetStatus())
	poll := func() {
		t.Helper()
		for _, it := range inside {
			p := f.heartbeat(it).GetPlace()
			require.Equal(t, "active", p.GetStatus(), it.GetCaller().GetUserId())
			if p.GetEntryToken() != "" {
				it.Entry = f.claims(p.GetEntryToken())
			}
			require.True(t, other.verify(it.GetCaller().GetUserId(), it.GetEntry()).GetActive())
		}
		require.Equal(t, "queued", other.status(waits).GetPlace().GetStatus())
	}
	seconds(1, f, other)
	f.tickets.setDown(true)
	for range 700 { // longer than a slot
		seconds(1, f, other)
		poll()
	}
	require.Equal(t, []string{"SHOP"}, f.line().GetPauses())
	require.False(t, f.setThreshold(3))
	seconds(2, f, other)
	poll()
	require.False(t, other.setPaused(true))
	f.tickets.setDown(false)
	for range 599 {
		seconds(1, f, other)
		poll()
	}
	require.Equal(t, []string{"OPERATOR"}, f.line().GetPauses())
	f.requireStored(3, true)
	seconds(1, f, other)
	require.Equal(t, "none", f.heartbeat(inside[0]).GetPlace().GetStatus(), "600 s of the shop's time are over")
	require.True(t, f.setPaused(false))
	seconds(1, f, other)
	require.Equal(t, "active", f.status(waits).GetPlace().GetStatus())
}

func TestActsWithoutTicket(t *testing.T) {
	f := setup(t)
	f.open(1)
	other := f.another()
	bot, _ := f.enter("bot")
	f.tickets.setDown(true)
	require.False(t, f.setThreshold(5))
	require.False(t, f.setPaused(true))
	require.False(t, f.setBlocked("bot", true))
	require.False(t, f.setBlocked("friend", false))
	for _, r := range []*fixture{f, other} {
		r.requireInForce(5, true, "bot")
		require.False(t, r.line().GetDurable())
		r.requireBlocked(bot)
		require.Equal(t, "queued", r.check(f.item("w")).GetPlace().GetStatus())
	}
	seconds(40, f, other)
	f.requireInForce(5, true, "bot")

	f.tickets.setDown(false)
	other.worker.RefreshSettings(f.ctx()) // the stored settings are those from before the acts
	f.requireInForce(5, true, "bot")
	seconds(1, other)
	f.requireStored(5, true, "bot")
	require.Equal(t, 4, f.tickets.writes)
	seconds(35, f, other)
	f.requireStored(5, true, "bot")
	require.Equal(t, 4, f.tickets.writes, "once")
}

// The replica that made the acts dies, and Redis loses everything. The acts are not lost.
func TestPendingActsSurviveLoss(t *testing.T) {
	for name, lose := range map[string]func(f *fixture){"wipe": (*fixture).wipe, "failover": (*fixture).failover} {
		t.Run(name, func(t *testing.T) {
			f := setup(t)
			f.open(1)
			other := f.another()
			bot, _ := f.enter("bot")
			f.check(f.item("w"))
			f.tickets.setDown(true)
			f.setThreshold(5)
			f.setPaused(true)
			f.setBlocked("bot", true)
			seconds(2, other) // the other replica learns of the acts
			lose(f)
			seconds(1, other)
			other.requireInForce(5, true, "bot")
			other.requireBlocked(bot)
			seconds(40, other)
			require.Equal(t, []string{"OPERATOR"}, other.line().GetPauses())
			f.tickets.setDown(false)
			seconds(1, other)
			other.requireStored(5, true, "bot")
		})
	}
}

// Of two acts the later one is in force, whichever replica made it, and whichever is sent first.
func TestLaterActWins(t *testing.T) {
	for name, between := range map[string]func(f, other *fixture){
		"":                          func(*fixture, *fixture) {},
		"while the first is away":   func(_, other *fixture) { seconds(2, other) },
		"after a wipe":              func(f, other *fixture) { seconds(2, other); f.wipe(); seconds(1, other) },
		"after a wipe at its first": func(f, _ *fixture) { seconds(2, f); f.wipe(); seconds(1, f) },
		"clock set back":            func(f, other *fixture) { seconds(2, other); f.advance(-time.Hour); f.failover(); seconds(1, other) },
	} {
		t.Run("durable after pending "+name, func(t *testing.T) {
			f := setup(t)
			f.open(1)
			other := f.another()
			f.check(f.item("w"))
			f.tickets.setDown(true)
			require.False(t, f.setThreshold(5))
			require.False(t, f.setPaused(true))
			require.False(t, f.setBlocked("bot", true))
			between(f, other)
			f.tickets.setDown(false)
			require.True(t, other.setBlocked("bot", false))
			other.setPaused(false)
			other.setThreshold(7)
			seconds(3, f, other)
			f.requireStored(7, false)
			f.wipe()
			seconds(3, f, other)
			f.requireStored(7, false)
		})
		t.Run("pending after durable "+name, func(t *testing.T) {
			f := setup(t)
			f.open(1)
			other := f.another()
			f.check(f.item("w"))
			require.True(t, f.setThreshold(5))
			require.True(t, f.setPaused(true))
			between(f, other)
			f.tickets.setDown(true)
			require.False(t, other.setThreshold(7))
			require.False(t, other.setPaused(false))
			seconds(3, f, other)
			f.tickets.setDown(false)
			seconds(3, f, other)
			f.requireStored(7, false)
		})
		t.Run("both pending "+name, func(t *testing.T) {
			f := setup(t)
			f.open(1)
			other := f.another()
			f.check(f.item("w"))
			f.tickets.setDown(true)
			f.setThreshold(5)
			f.setBlocked("bot", true)
			between(f, other)
			other.setThreshold(7)
			other.setBlocked("bot", false)
			seconds(3, other, f)
			f.requireInForce(7, false)
			f.tickets.setDown(false)
			seconds(3, f, other)
			f.requireStored(7, false)
		})
	}
}

// A new act counts as the latest even if Redis has lost the higher number of a stored one.
func TestActAfterForgottenOrder(t *testing.T) {
	f := setup(t)
	f.open(1)
	require.True(t, f.setPaused(true))
	f.advance(-time.Hour)
	f.wipe()
	f.restart()
	f.check(f.item("w"))
	require.True(t, f.setPaused(false))
	f.requireStored(1, false)
}

func TestPendingActsOfTwoEvents(t *testing.T) {
	f := setup(t)
	f.open(1)
	second := *f
	second.event = f.event + "-2"
	second.open(1)
	f.tickets.setDown(true)
	require.False(t, f.setThreshold(5))
	require.False(t, second.setPaused(true))
	f.requireInForce(5, false)
	second.requireInForce(1, true)
	f.tickets.setDown(false)
	f.tick()
	f.requireStored(5, false)
	second.requireStored(1, true)
}

// If a replica dies after it has put an act in force, another one has the act stored.
func TestActOfDeadReplica(t *testing.T) {
	f := setup(t)
	f.open(1)
	other := f.another()
	f.tickets.setDown(true)
	f.setPaused(true)
	f.tickets.setDown(false)
	seconds(2, other)
	other.requireStored(1, true)
}

// If the ticket service refuses an act that is in force, the act is undone.
func TestRefusedActIsUndone(t *testing.T) {
	f := setup(t)
	f.open(2)
	f.tickets.setDown(true)
	require.False(t, f.setBlocked("one-too-many", true))
	f.tickets.set(f.event, &ticketv1.LineSettings{Threshold: proto.Int64(2), BlockedUsers: []string{"x", "y", "z"}})
	f.tickets.setDown(false)
	f.tick()
	f.requireStored(2, false, "x", "y", "z")
	_, err := f.admin.Block(f.ctx(), &queuev1.BlockRequest{Caller: f.operator(), EventId: f.event, UserId: "another"})
	require.ErrorIs(t, err, errs.ErrTooManyBlocked)
	f.requireStored(2, false, "x", "y", "z")
}

// Without a line and the ticket service an act fails, since it can neither be in force nor stored.
func TestActWithoutLineAndTicket(t *testing.T) {
	f := setup(t)
	f.tickets.set(f.event, &ticketv1.LineSettings{})
	f.tickets.setDown(true)
	_, err := f.pause()
	require.ErrorIs(t, err, errs.ErrUnavailable)
	require.Empty(t, f.storedKeys())
}
