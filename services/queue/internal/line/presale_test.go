package line_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/queue/internal/line"
)

// The presale and the sale open by the clock, whatever of the three statuses was last reported.
func TestStatusFollowsTheOpenings(t *testing.T) {
	t.Parallel()
	const presale, opens, closes = 100, 200, 300
	for name, c := range map[string]struct {
		reported line.SaleStatus
		want     [4]line.SaleStatus // before the presale, in it, in the sale, after it
	}{
		"scheduled": {line.Scheduled, [4]line.SaleStatus{line.Scheduled, line.Presale, line.OnSale, line.SaleClosed}},
		"presale":   {line.Presale, [4]line.SaleStatus{line.Scheduled, line.Presale, line.OnSale, line.SaleClosed}},
		"on sale":   {line.OnSale, [4]line.SaleStatus{line.Scheduled, line.Presale, line.OnSale, line.SaleClosed}},
		"sold out":  {line.SoldOut, [4]line.SaleStatus{line.Scheduled, line.SoldOut, line.SoldOut, line.SaleClosed}},
		"paused":    {line.SalePaused, [4]line.SaleStatus{line.SalePaused, line.SalePaused, line.SalePaused, line.SaleClosed}},
		"cancelled": {line.Cancelled, [4]line.SaleStatus{line.Cancelled, line.Cancelled, line.Cancelled, line.Cancelled}},
		"unknown":   {line.UnknownSale, [4]line.SaleStatus{line.UnknownSale, line.UnknownSale, line.UnknownSale, line.SaleClosed}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sale := line.Sale{Status: c.reported, PresaleOpensAt: presale, OpensAt: opens, ClosesAt: closes}
			for at, want := range map[int64]line.SaleStatus{
				presale - 1: c.want[0], presale: c.want[1], opens - 1: c.want[1], opens: c.want[2], closes - 1: c.want[2], closes: c.want[3],
			} {
				require.Equal(t, want, sale.StatusAt(at), at)
			}
			sale.PresaleOpensAt = 0
			require.Equal(t, c.want[0] == line.Scheduled, sale.StatusAt(opens-1) == line.Scheduled, "without a presale")
		})
	}
	for _, s := range []line.SaleStatus{line.Scheduled, line.Presale, line.OnSale, line.SalePaused, line.SoldOut, line.SaleClosed, line.Cancelled} {
		require.Equal(t, s, line.ParseSaleStatus(s.String()))
	}
}

// presaleLine is an open line of an event whose presale lasts for another hour.
type presaleLine struct {
	*testEnv
	*replica

	ticket *fakeTicket
	opens  time.Time
}

func newPresaleLine(t *testing.T, threshold int64, entitled ...string) *presaleLine {
	t.Helper()
	w := newTestEnv(t)
	p := &presaleLine{testEnv: w, ticket: &fakeTicket{}, opens: w.clock.Now().Add(time.Hour)}
	p.ticket.threshold = threshold
	p.ticket.setEntitled(entitled...)
	p.ticket.setPresale(w.event, line.Presale, w.clock.Now().Add(-time.Minute), p.opens)
	p.replica = p.opened(p.ticket)
	p.ticket.askedAbout()
	return p
}

func (p *presaleLine) join(users ...string) []line.Place {
	p.t.Helper()
	return p.places(p.service.Check(p.t.Context(), p.requests(users)))
}

func (p *presaleLine) poll(users ...string) []line.Place {
	p.t.Helper()
	return p.places(p.service.Status(p.t.Context(), p.requests(users)))
}

func (p *presaleLine) requests(users []string) []line.PlaceRequest {
	reqs := make([]line.PlaceRequest, len(users))
	for i, user := range users {
		reqs[i] = line.PlaceRequest{EventID: p.event, Visitor: line.Visitor{UserID: user, Email: user + "@example.com"}}
	}
	return reqs
}

func (p *presaleLine) places(answers []line.PlaceAnswer) []line.Place {
	p.t.Helper()
	out := make([]line.Place, len(answers))
	for i, a := range answers {
		require.NoError(p.t, a.Err)
		out[i] = a.Place
	}
	return out
}

// seconds lets n seconds pass, in which the users poll every second and the workers run.
func (p *presaleLine) seconds(n int, users ...string) (last []line.Place) {
	p.t.Helper()
	for range n {
		p.second(p.replica)
		if len(users) > 0 {
			last = p.poll(users...)
		}
		p.worker.AskEntitlements(p.t.Context())
	}
	return last
}

func TestPresaleIsForTheEntitled(t *testing.T) {
	p := newPresaleLine(t, 1, "member", "second@example.com", "third")
	in := p.join("nobody", "member", "second", "third")
	require.Equal(t, [][]string{{"nobody", "member", "second", "third"}}, p.ticket.askedAbout(), "one call for all")
	require.Equal(t, []string{line.StatusQueued, line.StatusActive, line.StatusQueued, line.StatusQueued},
		[]string{in[0].Status, in[1].Status, in[2].Status, in[3].Status})
	for _, place := range in {
		require.Equal(t, line.Presale, place.Sale)
		require.Equal(t, p.opens.UnixMilli(), place.GeneralOpensAt)
	}
	require.Equal(t, []bool{false, true, true}, []bool{in[0].Entitled, in[2].Entitled, in[3].Entitled})
	p.seconds(1)
	polled := p.poll("nobody", "second", "third")
	require.Equal(t, []int64{1, 0, 3}, []int64{polled[0].Position, polled[0].Behind - 2, polled[0].QueueSize})
	require.Equal(t, []int64{1, 1, 2, 2}, []int64{polled[1].Position, polled[1].Behind, polled[1].QueueSize, polled[2].Position},
		"the entitled are a line of their own")
	require.Zero(t, polled[0].EstimatedWait, "one slot, which another one has")
	load, err := p.service.ReadLoad(t.Context(), p.event)
	require.NoError(t, err)
	require.Equal(t, line.LineLoad{Waiting: 2, Active: 1}, load, "tier 1 is to let the entitled through")
	overview, err := p.service.ReadOverview(t.Context(), p.event)
	require.NoError(t, err)
	require.Equal(t, []int64{3, 1}, []int64{overview.Waiting, overview.WaitingGeneral})
	require.Empty(t, overview.Pauses)
	require.Equal(t, []int64{3, 1}, []int64{p.meter.figures.Waiting, p.meter.figures.WaitingGeneral})

	p.clock.Set(p.opens)
	last := p.seconds(2, "nobody", "second", "third")
	require.Equal(t, []int64{1, 2, 3}, []int64{last[0].Position, last[1].Position, last[2].Position}, "in the order of arrival")
	require.Equal(t, line.OnSale, last[0].Sale)
	require.Zero(t, last[0].GeneralOpensAt)
	require.False(t, last[1].Entitled)
	require.Zero(t, p.meter.figures.WaitingGeneral)
	p.ticket.askedAbout()
	p.join("late")
	require.Empty(t, p.ticket.askedAbout(), "nobody needs an entitlement now")
}

// About a user without an entitlement, a line asks again once a minute and at each join.
func TestEntitlementIsAskedAgain(t *testing.T) {
	p := newPresaleLine(t, 1, "inside")
	p.join("inside")
	users := make([]string, 30)
	for i := range users {
		users[i] = fmt.Sprintf("u-%d", i)
	}
	p.join(users...)
	require.Len(t, p.ticket.askedAbout(), 2)
	p.seconds(49, users...)
	require.Empty(t, p.ticket.askedAbout(), "they have just been asked about")
	p.seconds(120, users...)
	calls := p.ticket.askedAbout()
	times := map[string]int{}
	for _, users := range calls {
		for _, u := range users {
			times[u]++
		}
	}
	require.Len(t, times, len(users))
	for user, n := range times {
		require.LessOrEqual(t, n, 2, user)
	}
	require.Greater(t, len(calls), 20, "not all at once")

	require.Equal(t, line.StatusActive, p.join("inside")[0].Status)
	require.False(t, p.poll("u-3")[0].Entitled)
	p.ticket.askedAbout()
	p.ticket.setEntitled("u-3", "u-7")
	again := p.join("u-3")[0]
	require.Equal(t, [][]string{{"u-3"}}, p.ticket.askedAbout())
	require.True(t, again.Entitled)
	require.Equal(t, int64(1), again.Position)
	p.seconds(60, users...)
	p.join("inside")
	p.seconds(60, users...)
	require.True(t, p.poll("u-7")[0].Entitled, "also without joining")
	require.Equal(t, int64(2), p.poll("u-7")[0].Position)
	require.NotContains(t, slices.Concat(p.ticket.askedAbout()...), "u-3", "a yes is kept")
}

// While the ticket service is away, only users known to be entitled enter. Nobody loses a place.
func TestPresaleWhileTicketIsAway(t *testing.T) {
	p := newPresaleLine(t, 5, "known", "a", "b")
	require.Equal(t, line.StatusActive, p.join("known")[0].Status)
	p.ticket.setError(errs.ErrUnavailable)
	joined := p.join("a", "x", "b")
	for _, place := range joined {
		require.Equal(t, line.StatusQueued, place.Status)
		require.False(t, place.Entitled)
	}
	p.seconds(10, "a", "x", "b")
	require.Equal(t, int64(1), p.meter.admitted)
	require.NotEmpty(t, p.ticket.askedAbout())

	p.ticket.setError(nil)
	last := p.seconds(3, "a", "x", "b")
	require.Equal(t, []string{line.StatusActive, line.StatusQueued, line.StatusActive}, []string{last[0].Status, last[1].Status, last[2].Status})
	p.ticket.askedAbout()
	p.seconds(30, "x")
	require.LessOrEqual(t, len(p.ticket.askedAbout()), 1)
}

// checkAt makes a user join from an event's waiting room.
func (p *presaleLine) checkAt(user string, tier1 line.Tier1) line.PlaceAnswer {
	p.t.Helper()
	return p.service.Check(p.t.Context(), []line.PlaceRequest{{EventID: p.event, Visitor: line.Visitor{UserID: user, Tier1: tier1}}})[0]
}

// While the ticket service is away, nobody is sent back to a room: all may be entitled.
func TestEntitledWaitForTicketBesideARoom(t *testing.T) {
	p := newPresaleLine(t, 5, "member")
	room := line.Tier1{Required: true}
	p.ticket.setError(errs.ErrUnavailable)
	for _, user := range []string{"member", "nobody"} {
		err := errs.From(p.checkAt(user, room).Err)
		require.Equal(t, errs.ErrEntitlementUnknown.Reason, err.Reason)
		require.Positive(t, err.RetryAfter)
	}
	p.ticket.setError(nil)
	require.Equal(t, line.StatusActive, p.checkAt("member", room).Place.Status)
	require.ErrorIs(t, p.checkAt("nobody", room).Err, line.ErrPassRequired)
}

// A room gets a user without an entitlement back. However often the user comes without a position, the
// ticket service is asked once a minute.
func TestNoIsKeptBesideARoom(t *testing.T) {
	p := newPresaleLine(t, 5, "member")
	room := line.Tier1{Required: true}
	require.Equal(t, line.StatusActive, p.checkAt("member", room).Place.Status)
	require.ErrorIs(t, p.checkAt("new", room).Err, line.ErrPassRequired)
	p.ticket.askedAbout()
	p.ticket.setEntitled("member", "new")
	p.seconds(59)
	require.ErrorIs(t, p.checkAt("new", room).Err, line.ErrPassRequired)
	require.Empty(t, p.ticket.askedAbout())
	p.seconds(1)
	require.Equal(t, line.StatusActive, p.checkAt("new", room).Place.Status)
	require.Equal(t, [][]string{{"new"}}, p.ticket.askedAbout())

	p.clock.Set(p.opens)
	require.ErrorIs(t, p.checkAt("late member", room).Err, line.ErrPassRequired, "the room is required of all again")
	require.Empty(t, p.ticket.askedAbout())
}

// A "no" that one replica has kept does not undo the later "yes" of another.
func TestKeptNoLeavesAWaiterEntitled(t *testing.T) {
	p := newPresaleLine(t, 1, "inside")
	room := line.Tier1{Required: true}
	p.join("inside")
	other := &presaleLine{testEnv: p.testEnv, replica: p.replicaAsking(p.ticket)}
	other.poll("nobody")
	p.second(other.replica) // it learns of the presale
	require.ErrorIs(t, p.checkAt("new", room).Err, line.ErrPassRequired)
	p.ticket.setEntitled("inside", "new")
	require.True(t, other.checkAt("new", room).Place.Entitled)
	require.True(t, p.checkAt("new", room).Place.Entitled)
}

// The ticket service is also asked about visitors who come before the presale, or before the
// replica knows the sale.
func TestEntitlementOfEarlyVisitors(t *testing.T) {
	w := newTestEnv(t)
	p := &presaleLine{testEnv: w, ticket: &fakeTicket{}}
	p.ticket.threshold = 5
	p.ticket.setEntitled("first", "third")
	presale := w.clock.Now().Add(30 * time.Second)
	p.ticket.setPresale(w.event, line.Scheduled, presale, presale.Add(time.Hour))
	p.replica = p.replicaAsking(p.ticket)
	p.join("first")
	first := p.seconds(1, "first")[0]
	require.False(t, first.Entitled, "the answer is for the next poll")
	second, third := p.join("second")[0], p.join("third")[0]
	require.Equal(t, line.Scheduled, second.Sale)
	require.True(t, third.Entitled)
	require.InDelta(t, 30+5, third.EstimatedWait, 2, "until the presale")
	require.InDelta(t, 3630+5, second.EstimatedWait, 2, "until the sale")
	require.True(t, p.poll("first")[0].Entitled)

	p.clock.Set(presale)
	last := p.seconds(2, "first", "second", "third")
	require.Equal(t, []string{line.StatusActive, line.StatusQueued, line.StatusActive}, []string{last[0].Status, last[1].Status, last[2].Status})
}

// Heartbeats ask nothing about users: they lack the e-mail and claims, which may entitle a user.
func TestHeartbeatsAskNothingOfTicket(t *testing.T) {
	p := newPresaleLine(t, 1, "inside")
	p.join("inside", "waits")
	p.ticket.askedAbout()
	for range 61 {
		p.second(p.replica)
		p.service.Heartbeat(t.Context(), p.requests([]string{"inside", "waits", "unknown"}))
		p.worker.AskEntitlements(t.Context())
	}
	require.Empty(t, p.ticket.askedAbout())
}

func TestLineWithoutPresaleAsksNobody(t *testing.T) {
	w, tickets := newSaleEnv(t, line.OnSale)
	r := w.opened(tickets)
	require.NoError(t, r.check(t.Context(), w.event, "a").Err)
	w.second(r)
	r.status(t.Context(), w.event, "a")
	r.worker.AskEntitlements(t.Context())
	require.Empty(t, tickets.askedAbout())
}
