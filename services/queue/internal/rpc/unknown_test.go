package rpc_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/redis/redistest"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// storedKeys returns the line's keys in Redis, and the events in the registry.
func (f *fixture) storedKeys() []string {
	f.t.Helper()
	keys := redistest.Keys(f.t, f.client, f.key("*"))
	listed, err := f.client.SMembers(f.ctx(), "registry-"+f.event).Result()
	require.NoError(f.t, err)
	return append(keys, listed...)
}

// restart replaces the replica by a new one without cached data.
func (f *fixture) restart() {
	f.t.Helper()
	f.serve(f.client, make(chan struct{}))
}

func TestUnknownEventGetsNoLine(t *testing.T) {
	f := setup(t)
	inside := f.item("u")
	inside.Caller.Tier1 = &commonv1.Tier1{Round: 1, Position: 1}
	for _, ask := range []struct {
		name string
		call func() *queuev1.LineResult
	}{
		{"check", func() *queuev1.LineResult { return f.check(f.item("u")) }},
		{"tier 1", func() *queuev1.LineResult { return f.check(inside) }},
		{"status", func() *queuev1.LineResult { return f.status(f.item("u")) }},
		{"heartbeat", func() *queuev1.LineResult { return f.heartbeat(f.item("u")) }},
		{"made up", func() *queuev1.LineResult { it := f.item("u"); it.Ticket = "AAAA"; return f.status(it) }},
		{"check again", func() *queuev1.LineResult { f.advance(time.Minute); return f.check(f.item("u")) }},
	} {
		p := ask.call().GetProblem()
		require.Equal(t, []string{"EVENT_NOT_FOUND", "not_found"}, []string{p.GetReason(), p.GetKind()}, ask.name)
	}
	_, err := f.visitors.Leave(f.ctx(), &queuev1.LeaveRequest{Caller: &commonv1.Caller{UserId: "u"}, EventId: f.event})
	require.ErrorIs(t, err, errs.ErrEventNotFound)
	_, err = f.admin.GetLine(f.ctx(), &queuev1.GetLineRequest{Caller: f.operator(), EventId: f.event})
	require.ErrorIs(t, err, errs.ErrEventNotFound)
	_, err = f.admin.SetThreshold(f.ctx(), &queuev1.SetThresholdRequest{Caller: f.operator(), EventId: f.event, Threshold: proto.Int64(7)})
	require.ErrorIs(t, err, errs.ErrEventNotFound)
	require.Empty(t, f.tickets.settings, "no threshold is stored for an unknown event")
	require.False(t, f.verify("u", &queuev1.EntryClaims{SlotId: "x", Epoch: 1}).GetActive())
	load, err := f.visitors.GetLoad(f.ctx(), &queuev1.GetLoadRequest{EventId: f.event})
	require.NoError(t, err)
	require.Zero(t, load.GetWaiting())
	f.tick()
	f.worker.CleanLines(f.ctx())
	require.Empty(t, f.storedKeys())
}

// Requests with a made-up id cause one lookup a second and store nothing.
func TestUnknownEventsAreLookedUpOnceASecond(t *testing.T) {
	f := setup(t)
	items := make([]*queuev1.LineItem, 100)
	for i := range items {
		items[i] = f.item(fmt.Sprintf("u-%d", i))
	}
	for range 5 {
		res, err := f.visitors.Check(f.ctx(), &queuev1.LineRequest{Items: items})
		require.NoError(t, err)
		require.Equal(t, "EVENT_NOT_FOUND", res.GetResults()[99].GetProblem().GetReason())
	}
	require.Equal(t, 1, f.tickets.count())
	f.advance(2 * time.Second)
	f.tickets.set(f.event, &ticketv1.LineSettings{})
	require.Equal(t, "active", f.check(items[0]).GetPlace().GetStatus(), "the event has been created")
	require.Equal(t, []string{f.event}, f.cache.KnownLines())
}

func TestUnknownAndKnownEventsInOneCall(t *testing.T) {
	f := setup(t)
	f.open(1)
	other := &queuev1.LineItem{EventId: f.event + "-x", Caller: &commonv1.Caller{UserId: "b"}}
	res, err := f.visitors.Check(f.ctx(), &queuev1.LineRequest{Items: []*queuev1.LineItem{f.item("a"), other, f.item("c")}})
	require.NoError(t, err)
	require.Equal(t, "active", res.GetResults()[0].GetPlace().GetStatus())
	require.Equal(t, "EVENT_NOT_FOUND", res.GetResults()[1].GetProblem().GetReason())
	require.Equal(t, "queued", res.GetResults()[2].GetPlace().GetStatus())
}

func TestPromotionHasLine(t *testing.T) {
	f := setup(t)
	f.tickets.set(f.event, &ticketv1.LineSettings{}) // a promotion has settings, no sale
	require.Equal(t, "none", f.status(f.item("a")).GetPlace().GetStatus())
	f.leave("a", nil)
	require.Empty(t, f.storedKeys(), "reading creates no line")
	require.Equal(t, "active", f.check(f.item("a")).GetPlace().GetStatus())
}

func TestKnownLineWorksWithoutTicket(t *testing.T) {
	f := setup(t)
	f.open(1)
	f.tickets.setDown(true)
	f.restart()
	_, place := f.enter("a")
	require.Nil(t, place.EventTitle)
	waits := f.check(f.item("b")).GetPlace()
	require.Equal(t, "queued", waits.GetStatus())
	require.Nil(t, waits.EventTitle)
	f.leave("b", nil)
	f.wipe()
	require.Equal(t, "queued", f.check(f.item("c")).GetPlace().GetStatus(), "this replica remembers the line")
}

// Redis has lost the line, no replica remembers it, and the ticket service is away. Then only a
// visitor with a queue ticket or an entry token of the line restores it.
func TestWipedLineIsRestoredWithoutTicket(t *testing.T) {
	for name, holder := range map[string]func(f *fixture) *queuev1.LineItem{
		"a waiter": func(f *fixture) *queuev1.LineItem {
			f.open(0)
			it := f.item("first")
			it.Ticket = f.check(it).GetPlace().GetTicket()
			return it
		},
		"a holder": func(f *fixture) *queuev1.LineItem {
			f.open(1)
			it, _ := f.enter("first")
			return it
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t)
			first := holder(f)
			f.advance(time.Second)
			f.tickets.setDown(true)
			f.wipe()
			f.restart()
			late := f.check(f.item("late")).GetProblem()
			require.Equal(t, "UNAVAILABLE", late.GetReason())
			require.Positive(t, late.GetRetryAfterMs())
			require.Equal(t, "none", f.status(f.item("late")).GetPlace().GetStatus())
			f.leave("late", nil)
			_, err := f.client.Del(f.ctx(), "registry-"+f.event).Result()
			require.NoError(t, err)
			require.Empty(t, f.storedKeys())

			require.NotEqual(t, "none", f.status(first).GetPlace().GetStatus())
			require.Equal(t, "queued", f.check(f.item("late")).GetPlace().GetStatus(), "the line is restored")
			if first.GetTicket() != "" {
				require.Equal(t, int64(1), f.status(first).GetPlace().GetPosition())
			}
		})
	}
}

func TestWipedLineOfKnownEventIsRestored(t *testing.T) {
	f := setup(t)
	f.open(0)
	f.wipe()
	f.restart()
	require.Equal(t, "queued", f.check(f.item("a")).GetPlace().GetStatus())
}
