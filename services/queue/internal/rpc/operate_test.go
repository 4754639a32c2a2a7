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

func (f *fixture) pause() (*queuev1.LineStatus, error) {
	return f.admin.Pause(f.ctx(), &queuev1.PauseRequest{Caller: f.operator(), EventId: f.event})
}

func (f *fixture) resume() *queuev1.LineStatus {
	f.t.Helper()
	l, err := f.admin.Resume(f.ctx(), &queuev1.ResumeRequest{Caller: f.operator(), EventId: f.event})
	require.NoError(f.t, err)
	return l
}

func (f *fixture) line() *queuev1.LineStatus {
	f.t.Helper()
	l, err := f.admin.GetLine(f.ctx(), &queuev1.GetLineRequest{Caller: f.operator(), EventId: f.event})
	require.NoError(f.t, err)
	return l
}

func (f *fixture) revoke(user string) bool {
	f.t.Helper()
	res, err := f.admin.Revoke(f.ctx(), &queuev1.RevokeRequest{Caller: f.operator(), EventId: f.event, UserId: user})
	require.NoError(f.t, err)
	return res.GetRevoked()
}

func (f *fixture) block(user string) {
	f.t.Helper()
	res, err := f.admin.Block(f.ctx(), &queuev1.BlockRequest{Caller: f.operator(), EventId: f.event, UserId: user})
	require.NoError(f.t, err)
	require.True(f.t, res.GetBlocked())
}

func (f *fixture) unblock(user string) {
	f.t.Helper()
	res, err := f.admin.Unblock(f.ctx(), &queuev1.UnblockRequest{Caller: f.operator(), EventId: f.event, UserId: user})
	require.NoError(f.t, err)
	require.False(f.t, res.GetBlocked())
}

// requireBlocked checks that every call of a visitor is refused with USER_BLOCKED.
func (f *fixture) requireBlocked(it *queuev1.LineItem) {
	f.t.Helper()
	for _, r := range []*queuev1.LineResult{f.check(it), f.status(it), f.heartbeat(it)} {
		require.Equal(f.t, "USER_BLOCKED", r.GetProblem().GetReason())
	}
}

func TestPauseAndResume(t *testing.T) {
	f := setup(t)
	f.open(2)
	f.enter("in")
	l, err := f.pause()
	require.NoError(t, err)
	require.Equal(t, []string{"OPERATOR"}, l.GetPauses())
	require.True(t, l.GetPaused())
	set, err := f.tickets.get(f.event)
	require.NoError(t, err)
	require.True(t, set.GetPaused())
	require.Equal(t, int64(2), set.GetThreshold())

	w := f.item("w")
	p := f.check(w).GetPlace()
	require.Equal(t, "queued", p.GetStatus(), "a slot is free")
	require.True(t, p.GetPaused())
	f.tick()
	require.Equal(t, int64(1), f.status(w).GetPlace().GetPosition())
	require.Equal(t, "active", f.status(f.item("in")).GetPlace().GetStatus())
	_, err = f.pause()
	require.NoError(t, err, "again")

	l = f.resume()
	require.Empty(t, l.GetPauses())
	require.False(t, l.GetPaused())
	f.tick()
	p = f.status(w).GetPlace()
	require.Equal(t, "active", p.GetStatus())
	require.Nil(t, p.Paused)
	f.resume()
}

func TestPauseBeforeTheFirstVisitor(t *testing.T) {
	f := setup(t)
	f.tickets.set(f.event, &ticketv1.LineSettings{})
	l, err := f.pause()
	require.NoError(t, err)
	require.Equal(t, []string{"OPERATOR"}, l.GetPauses())
	require.Equal(t, "queued", f.check(f.item("a")).GetPlace().GetStatus())
	f.tick()
	require.Equal(t, "queued", f.status(f.item("a")).GetPlace().GetStatus())
	f.resume()
	f.tick()
	require.Equal(t, "active", f.status(f.item("a")).GetPlace().GetStatus())
}

// If Redis loses a pause, the line stays paused, even while the ticket service is away.
func TestPauseSurvivesLoss(t *testing.T) {
	f := setup(t)
	f.open(1)
	_, err := f.pause()
	require.NoError(t, err)
	w := f.item("w")
	w.Ticket = f.check(w).GetPlace().GetTicket()
	f.wipe()
	f.tickets.setDown(true)
	f.tick()
	require.Equal(t, "queued", f.check(w).GetPlace().GetStatus())
	l := f.line()
	require.Equal(t, []string{"OPERATOR", "RECOVERY"}, l.GetPauses())
	require.Equal(t, f.clock().Add(30*time.Second).UnixMilli(), l.GetRecoveryEndsAt())
	for range 40 {
		f.tick()
		require.Equal(t, "queued", f.status(w).GetPlace().GetStatus())
	}
	l = f.line()
	require.Equal(t, []string{"OPERATOR"}, l.GetPauses())
	require.Nil(t, l.RecoveryEndsAt)
	f.tickets.setDown(false)
	f.resume()
	f.tick()
	require.Equal(t, "active", f.status(w).GetPlace().GetStatus())
}

func TestRevokedUserQueuesAgain(t *testing.T) {
	f := setup(t)
	f.open(1)
	in, _ := f.enter("in")
	f.check(f.item("next"))
	require.True(t, f.revoke("in"))
	res := f.verify("in", in.GetEntry())
	require.False(t, res.GetActive())
	require.Nil(t, res.GetProblem())
	p := f.heartbeat(in).GetPlace()
	require.Equal(t, "none", p.GetStatus())
	require.Nil(t, p.EntryToken)
	require.False(t, f.revoke("in"), "no slot")
	require.False(t, f.revoke("next"), "a place is none")
	p = f.check(in).GetPlace()
	require.Equal(t, []any{"queued", int64(2)}, []any{p.GetStatus(), p.GetPosition()})
}

func TestRevokeWithoutLine(t *testing.T) {
	f := setup(t)
	f.tickets.set(f.event, &ticketv1.LineSettings{})
	require.False(t, f.revoke("a"))
	_, err := f.admin.Revoke(f.ctx(), &queuev1.RevokeRequest{Caller: f.operator(), EventId: f.event + "-unknown", UserId: "a"})
	require.ErrorIs(t, err, errs.ErrEventNotFound)
}

func TestBlockedUserIsKeptOut(t *testing.T) {
	f := setup(t)
	f.open(1)
	bot, _ := f.enter("bot")
	waiter := f.item("waiter")
	f.check(waiter)
	f.block("bot")
	f.block("bot")
	require.False(t, f.verify("bot", bot.GetEntry()).GetActive())
	f.requireBlocked(bot)
	f.block("waiter")
	f.requireBlocked(waiter)
	require.Zero(t, f.line().GetWaiting()+f.line().GetActive())

	f.unblock("bot")
	f.unblock("bot")
	require.Equal(t, "active", f.check(f.item("bot")).GetPlace().GetStatus())
	f.requireBlocked(waiter)
}

func TestBlockBeforeTheFirstVisitor(t *testing.T) {
	f := setup(t)
	f.tickets.set(f.event, &ticketv1.LineSettings{})
	f.block("bot")
	require.Equal(t, "USER_BLOCKED", f.check(f.item("bot")).GetProblem().GetReason())
}

// Calls of the store do not restore the blocked users. The replica blocks them again.
func TestBlockSurvivesLossWithoutTicket(t *testing.T) {
	f := setup(t)
	f.open(2)
	bot, _ := f.enter("bot")
	f.block("bot")
	f.wipe()
	f.tickets.setDown(true)
	f.tick()
	f.requireBlocked(bot)
	res := f.verify("bot", bot.GetEntry())
	require.False(t, res.GetActive())
	require.Nil(t, res.GetProblem(), "a retry would be in vain")
	f.tickets.setDown(false)
	f.tick()
	f.tick()
	f.requireBlocked(bot)
	f.unblock("bot")
	for range 31 {
		f.tick()
	}
	require.Equal(t, "active", f.check(f.item("bot")).GetPlace().GetStatus())
}

func TestActsOnUnknownEvents(t *testing.T) {
	f := setup(t)
	_, err := f.pause()
	require.ErrorIs(t, err, errs.ErrEventNotFound)
	_, err = f.admin.Block(f.ctx(), &queuev1.BlockRequest{Caller: f.operator(), EventId: f.event, UserId: "a"})
	require.ErrorIs(t, err, errs.ErrEventNotFound)
	_, err = f.admin.Block(f.ctx(), &queuev1.BlockRequest{Caller: f.operator(), EventId: f.event, UserId: "a b"})
	require.ErrorIs(t, err, errs.ErrInvalidRequest)
	_, err = f.tickets.get(f.event)
	require.ErrorIs(t, err, errs.ErrEventNotFound, "nothing was stored")
}

func TestLineTellsTheSale(t *testing.T) {
	f := setup(t)
	opens := f.clock().Add(10 * time.Second)
	f.tickets.set(f.event, &ticketv1.LineSettings{Threshold: proto.Int64(1)})
	f.tickets.setSale(&ticketv1.SaleStatus{EventId: f.event, Status: "SCHEDULED", OpensAt: stamp(opens), ClosesAt: stamp(opens.Add(time.Minute))})
	requireSale := func(status string, pauses ...string) {
		t.Helper()
		l := f.line()
		require.Equal(t, status, l.GetSaleStatus())
		require.Equal(t, pauses, l.GetPauses())
		require.Equal(t, len(pauses) > 0, l.GetPaused())
	}
	requireSale("SCHEDULED", "SALE") // without a line
	f.check(f.item("a"))
	requireSale("SCHEDULED", "SALE")
	f.advance(10 * time.Second)
	requireSale("ON_SALE")
	_, err := f.pause()
	require.NoError(t, err)
	f.advance(time.Minute)
	requireSale("CLOSED", "OPERATOR", "SALE")
}

func TestAdmissionsAreMeasuredWithoutWaiters(t *testing.T) {
	f := setup(t)
	f.open(10)
	for _, user := range []string{"a", "b", "c"} {
		f.enter(user)
	}
	for range 59 {
		f.tick()
	}
	require.InDelta(t, 3, f.line().GetAdmittedPerMinute(), 0.15)
	for range 60 {
		f.tick()
	}
	require.Zero(t, f.line().GetAdmittedPerMinute())
}
