package rpc_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/redis"
	"urr.guru/pkg/redis/redistest"
	"urr.guru/pkg/wire"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

func TestCheckReturnsSlotOrPlace(t *testing.T) {
	f := setup(t)
	f.open(1)
	res, err := f.visitors.Check(f.ctx(), &queuev1.LineRequest{Items: []*queuev1.LineItem{
		f.item("a"), {EventId: f.event}, f.item("b"), f.item("c"), f.item("not a user"),
	}})
	require.NoError(t, err)
	r := res.GetResults()
	require.Len(t, r, 5)
	require.Equal(t, "UNAUTHENTICATED", r[1].GetProblem().GetReason())
	require.Equal(t, "UNAUTHENTICATED", r[4].GetProblem().GetReason())

	a := r[0].GetPlace()
	require.Equal(t, "active", a.GetStatus())
	require.False(t, a.GetQueued())
	require.Zero(t, a.GetPosition())
	require.Equal(t, f.clock().Add(600*time.Second).UnixMilli(), a.GetExpiresAt())
	require.Equal(t, "A concert", a.GetEventTitle())
	require.Equal(t, "Somebody", a.GetArtistName())
	require.Nil(t, a.Ticket)
	c := f.claims(a.GetEntryToken())
	require.Equal(t, a.GetExpiresAt(), c.GetEnd())
	require.Equal(t, f.clock().Add(60*time.Second).UnixMilli(), c.GetExpiresAt())
	require.Equal(t, []string{"a"}, f.announced.users(), "announced when claimed")

	b, d := r[2].GetPlace(), r[3].GetPlace()
	require.True(t, b.GetQueued())
	require.Equal(t, []int64{1, 0, 1}, []int64{b.GetPosition(), b.GetPeopleAhead(), b.GetPeopleBehind()})
	require.Equal(t, []int64{2, 1, 0}, []int64{d.GetPosition(), d.GetPeopleAhead(), d.GetPeopleBehind()})
	require.Equal(t, []int64{1, 1, 2}, []int64{d.GetCurrentUsers(), d.GetThreshold(), d.GetQueueSize()})
	require.Nil(t, d.EstimatedWait, "not measured yet")
	require.Equal(t, int64(0), *a.EstimatedWait)
	require.InDelta(t, 1.5, d.GetNextPoll(), 0.5, "1 or 2, chosen at random")
	require.NotEmpty(t, d.GetTicket())
	require.Nil(t, d.EntryToken)
	require.Nil(t, d.ExpiresAt)

	json, err := wire.Marshal(d)
	require.NoError(t, err)
	require.Contains(t, string(json), `"peopleAhead":1`)
	require.NotContains(t, string(json), "entryToken")
}

func TestStatusReturnsSameAsCheck(t *testing.T) {
	f := setup(t)
	f.open(1)
	a, place := f.enter("a")
	waits := f.check(f.item("b")).GetPlace()

	got := f.status(f.item("b")).GetPlace()
	require.Equal(t, waits.GetPosition(), got.GetPosition())
	require.Equal(t, waits.GetQueueSize(), got.GetQueueSize())
	require.Equal(t, waits.GetEventTitle(), got.GetEventTitle())
	require.NotEmpty(t, got.GetTicket())

	second := f.status(f.item("a")).GetPlace() // another device, without the token
	require.Equal(t, "active", second.GetStatus())
	require.Equal(t, place.GetExpiresAt(), second.GetExpiresAt())
	require.Equal(t, a.GetEntry().GetSlotId(), f.claims(second.GetEntryToken()).GetSlotId())

	none := f.status(f.item("nobody")).GetPlace()
	require.Equal(t, "none", none.GetStatus())
	require.False(t, none.GetQueued())
	require.Equal(t, int64(1), none.GetQueueSize(), "status enqueues nobody")
	require.Equal(t, []string{"a"}, f.announced.users(), "announced once")
}

func TestEntryTokenIsRenewedBelowThirtySeconds(t *testing.T) {
	f := setup(t)
	f.open(1)
	a, _ := f.enter("a")
	calls := map[string]func(*queuev1.LineItem) *queuev1.LineResult{"check": f.check, "status": f.status, "heartbeat": f.heartbeat}
	f.advance(30 * time.Second)
	for name, call := range calls {
		p := call(a).GetPlace()
		require.Equal(t, "active", p.GetStatus(), name)
		require.Nil(t, p.EntryToken, name)
	}
	f.advance(time.Second)
	for name, call := range calls {
		tok := call(a).GetPlace().GetEntryToken()
		require.NotEmpty(t, tok, name)
		require.Equal(t, f.clock().Add(60*time.Second).UnixMilli(), f.claims(tok).GetExpiresAt(), name)
	}
}

func TestPolls(t *testing.T) {
	f := setup(t)
	f.open(0)
	for i := range 24 {
		items := make([]*queuev1.LineItem, 50)
		for k := range items {
			items[k] = f.item(fmt.Sprintf("u-%d-%d", i, k))
		}
		_, err := f.visitors.Check(f.ctx(), &queuev1.LineRequest{Items: items})
		require.NoError(t, err)
		f.advance(time.Millisecond)
	}
	near := f.status(f.item("u-19-49")).GetPlace()
	require.Equal(t, int64(1000), near.GetPosition())
	require.InDelta(t, 1.5, near.GetNextPoll(), 0.5, "1 or 2, chosen at random")
	far := f.status(f.item("u-20-0")).GetPlace()
	require.Equal(t, int64(1001), far.GetPosition())
	require.InDelta(t, 5, far.GetNextPoll(), 1)
	require.Nil(t, far.EstimatedWait, "nobody is admitted")
}

func TestTier1(t *testing.T) {
	f := setup(t)
	f.open(0)
	it := f.item("a")
	it.Caller.Tier1 = &commonv1.Tier1{Required: true}
	p := f.check(it).GetProblem()
	require.Equal(t, "VWR_TOKEN_REQUIRED", p.GetReason())
	require.Equal(t, "/vwr/"+f.event, p.GetMetadata()["redirectTo"])

	it.Caller.Tier1 = &commonv1.Tier1{Required: true, Round: f.clock().Add(-time.Minute).UnixMicro(), Position: 3}
	require.Equal(t, "queued", f.check(it).GetPlace().GetStatus())
	thief := f.item("b")
	thief.Caller.Tier1 = it.GetCaller().GetTier1()
	p = f.check(thief).GetProblem()
	require.Equal(t, []string{"PASS_USED", "conflict"}, []string{p.GetReason(), p.GetKind()})

	load, err := f.visitors.GetLoad(f.ctx(), &queuev1.GetLoadRequest{EventId: f.event})
	require.NoError(t, err)
	require.Equal(t, []int64{1, 0, 0, 1}, []int64{load.GetWaiting(), load.GetActive(), load.GetParked(), load.GetArrived()})
}

func TestLeave(t *testing.T) {
	f := setup(t)
	f.open(1)
	a, _ := f.enter("a")
	f.check(f.item("b"))
	f.leave("a", nil)
	require.True(t, f.verify("a", a.GetEntry()).GetActive(), "without the token, leave removes a waiting place only")
	f.leave("b", nil)
	require.Equal(t, "none", f.status(f.item("b")).GetPlace().GetStatus())
	f.leave("a", a.GetEntry())
	require.False(t, f.verify("a", a.GetEntry()).GetActive())
	again, _ := f.enter("a")
	f.leave("a", a.GetEntry()) // the same call, repeated late
	require.True(t, f.verify("a", again.GetEntry()).GetActive())
}

func TestStatusClaimsSlotFromTick(t *testing.T) {
	f := setup(t)
	f.open(1)
	a, _ := f.enter("a")
	f.check(f.item("b"))
	f.leave("a", a.GetEntry())
	f.tick()
	require.Equal(t, []string{"a"}, f.announced.users(), "announced when claimed, not when admitted")
	p := f.status(f.item("b")).GetPlace()
	require.Equal(t, "active", p.GetStatus())
	require.NotEmpty(t, p.GetEntryToken())
	require.Equal(t, []string{"a", "b"}, f.announced.users())
}

func TestVerifySlots(t *testing.T) {
	f := setup(t)
	f.open(2)
	a, _ := f.enter("a")
	b, _ := f.enter("b")
	other := &queuev1.EntryClaims{SlotId: b.GetEntry().GetSlotId(), Epoch: a.GetEntry().GetEpoch()}
	require.True(t, f.verify("a", a.GetEntry()).GetActive())
	require.False(t, f.verify("a", other).GetActive(), "the slot of another user")
	require.False(t, f.verify("nobody", other).GetActive())

	// VerifySlots counts as contact.
	for range 15 {
		f.advance(10 * time.Second)
		f.verify("a", a.GetEntry())
		f.worker.Tick(f.ctx())
	}
	require.True(t, f.verify("a", a.GetEntry()).GetActive())
	require.False(t, f.verify("b", b.GetEntry()).GetActive(), "150 s absent")

	f.failover()
	f.tick()
	require.True(t, f.verify("a", a.GetEntry()).GetActive(), "the slot is moved to the new epoch")
	f.advance(31 * time.Second)
	f.worker.Tick(f.ctx())
	require.False(t, f.verify("a", a.GetEntry()).GetActive(), "the token of the previous epoch is invalid after the takeover")
	fresh := f.status(a).GetPlace()
	require.Equal(t, "active", fresh.GetStatus(), "its holder gets a new token")
	require.True(t, f.verify("a", f.claims(fresh.GetEntryToken())).GetActive())
}

// A replica whose cached state is a second old does not refuse a token that another replica has
// just issued in a new epoch.
func TestVerifySlotsOfEpochNewToReplica(t *testing.T) {
	f := setup(t)
	f.open(1)
	a, _ := f.enter("a")
	behind := f.visitors
	f.serve(f.client, make(chan struct{}))
	f.failover()
	fresh := f.claims(f.status(a).GetPlace().GetEntryToken())
	require.Greater(t, fresh.GetEpoch(), a.GetEntry().GetEpoch())
	f.visitors = behind
	require.True(t, f.verify("a", fresh).GetActive())
}

func TestHeartbeatRestoresLostSlot(t *testing.T) {
	f := setup(t)
	f.open(2)
	a, _ := f.enter("a")
	f.wipe()
	f.tick()
	p := f.verify("a", a.GetEntry()).GetProblem()
	require.Equal(t, "LINE_RECOVERING", p.GetReason())
	require.Positive(t, p.GetRetryAfterMs())
	place := f.heartbeat(a).GetPlace()
	require.Equal(t, "active", place.GetStatus())
	renewed := f.claims(place.GetEntryToken())
	require.Equal(t, a.GetEntry().GetSlotId(), renewed.GetSlotId())
	require.Greater(t, renewed.GetEpoch(), a.GetEntry().GetEpoch())
	require.True(t, f.verify("a", renewed).GetActive())
}

// If Redis has lost an admission, and the holder waits again, a heartbeat restores the slot.
func TestHeartbeatRestoresSlotOfLostAdmission(t *testing.T) {
	f := setup(t)
	f.open(1)
	first, _ := f.enter("first")
	late := f.item("late")
	require.Equal(t, "queued", f.check(late).GetPlace().GetStatus())
	lose := redistest.Snapshot(t, f.client, f.key("*"))
	f.leave("first", first.GetEntry())
	f.advance(time.Second)
	f.tick()
	late.Entry = f.claims(f.status(late).GetPlace().GetEntryToken())

	f.advance(time.Second)
	lose()
	f.failover()
	f.tick() // the replica knows of the loss
	p := f.heartbeat(late).GetPlace()
	require.Equal(t, "active", p.GetStatus())
	back := f.claims(p.GetEntryToken())
	require.Equal(t, late.GetEntry().GetSlotId(), back.GetSlotId())
	require.Equal(t, late.GetEntry().GetEnd(), back.GetEnd())
	f.advance(31 * time.Second)
	require.Equal(t, "active", f.heartbeat(late).GetPlace().GetStatus())
}

func TestTicketRestoresPlace(t *testing.T) {
	f := setup(t)
	f.open(0)
	first := f.item("first")
	first.Ticket = f.check(first).GetPlace().GetTicket()
	f.advance(time.Second)
	f.wipe()
	f.check(f.item("late"))
	thief := f.item("thief")
	thief.Ticket = first.GetTicket()
	require.Equal(t, "none", f.status(thief).GetPlace().GetStatus())
	p := f.status(first).GetPlace()
	require.Equal(t, int64(1), p.GetPosition())
	require.Equal(t, int64(2), p.GetQueueSize())
}

func TestOutageOfTicket(t *testing.T) {
	f := setup(t)
	f.open(0)
	waiter := f.item("a")
	waiter.Ticket = f.check(waiter).GetPlace().GetTicket()
	f.advance(time.Second)
	f.wipe()
	f.restart()
	f.tickets.set(f.event, &ticketv1.LineSettings{})
	f.tickets.setDown(true)
	_, err := f.visitors.GetSale(f.ctx(), &queuev1.GetSaleRequest{EventId: f.event})
	require.ErrorIs(t, err, errs.ErrUnavailable)
	p := f.check(waiter).GetPlace()
	require.Equal(t, "queued", p.GetStatus())
	require.Nil(t, p.EventTitle)
	for range 31 {
		f.tick()
	}
	require.Equal(t, "queued", f.check(waiter).GetPlace().GetStatus(), "nobody is admitted before the settings are read")
	f.tickets.setDown(false)
	f.tick()
	f.tick()
	f.advance(10 * time.Second)
	p = f.status(waiter).GetPlace()
	require.Equal(t, "active", p.GetStatus())
	require.Equal(t, "A concert", p.GetEventTitle())
}

func TestSlotsEndWithSale(t *testing.T) {
	f := setup(t)
	f.open(1)
	a, _ := f.enter("a")
	f.tickets.set(f.event, &ticketv1.LineSettings{ClosesAt: stamp(f.clock().Add(70 * time.Second))})
	for range 35 {
		f.tick()
		f.heartbeat(a)
	}
	p := f.status(f.item("a")).GetPlace()
	require.Equal(t, f.clock().Add(35*time.Second).UnixMilli(), p.GetExpiresAt(), "the new closing time is known within 30 s")
	require.Equal(t, p.GetExpiresAt(), f.claims(p.GetEntryToken()).GetExpiresAt())
	f.advance(35 * time.Second)
	require.Equal(t, "none", f.status(a).GetPlace().GetStatus())
}

func TestOutageOfRedis(t *testing.T) {
	f := setup(t)
	client, err := redis.Open(f.ctx(), redis.Config{Addrs: []string{"127.0.0.1:1"}, PoolSize: 32})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	f.serve(client, make(chan struct{}))
	for _, r := range []*queuev1.LineResult{f.check(f.item("a")), f.status(f.item("a"))} {
		require.Equal(t, "UNAVAILABLE", r.GetProblem().GetReason())
	}
	require.Equal(t, "UNAVAILABLE", f.verify("a", &queuev1.EntryClaims{SlotId: "x"}).GetProblem().GetReason())
}

// After a loss, a new replica reads the blocked users from the ticket service at once.
func TestBlockedUsersStayBlockedAfterLoss(t *testing.T) {
	f := setup(t)
	f.open(1)
	bot, _ := f.enter("bot")
	f.tickets.set(f.event, &ticketv1.LineSettings{BlockedUsers: []string{"bot"}})
	f.advance(31 * time.Second)
	f.tick()
	require.Equal(t, "USER_BLOCKED", f.check(bot).GetProblem().GetReason())
	f.wipe()
	f.tick()
	require.Equal(t, "USER_BLOCKED", f.status(bot).GetProblem().GetReason())
}

func TestVerifySlotsOfForgottenLine(t *testing.T) {
	f := setup(t)
	f.open(1)
	a, _ := f.enter("a")
	f.wipe()
	f.restart()
	require.Equal(t, "LINE_RECOVERING", f.verify("a", a.GetEntry()).GetProblem().GetReason(), "the token proves that the line existed")
}

// A replica that does not know of a loss yet does not report a lost slot as ended.
func TestVerifySlotsBeforeLossIsKnown(t *testing.T) {
	f := setup(t)
	f.open(2)
	a, _ := f.enter("a")
	b, _ := f.enter("b")
	f.leave("b", b.GetEntry())
	f.wipe()
	require.Equal(t, "LINE_RECOVERING", f.verify("a", a.GetEntry()).GetProblem().GetReason())
	require.Equal(t, "active", f.heartbeat(a).GetPlace().GetStatus())
}

// While the line recovers, tokens of the previous epoch are valid, and older ones are not.
func TestVerifySlotsOfOlderEpochs(t *testing.T) {
	f := setup(t)
	f.open(1)
	a, _ := f.enter("a")
	oldest := a.GetEntry()
	f.failover()
	f.tick()
	a.Entry = f.claims(f.heartbeat(a).GetPlace().GetEntryToken())
	f.failover()
	f.tick()
	require.True(t, f.verify("a", a.GetEntry()).GetActive(), "a token of the previous epoch")
	require.False(t, f.verify("a", oldest).GetActive(), "a token of the epoch before that")
}
