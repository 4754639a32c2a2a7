package purchases_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/settlement"
	"urr.guru/services/ticket/internal/ticket"
)

// For each cause and each status of a ticket, a refund is claimed, claimed again, and ended.
func TestRefundsOfEveryTicketStatus(t *testing.T) {
	t.Parallel()
	storetest.ForEachTicketStatus(t, func(t *testing.T, in storetest.TicketInStatus) {
		t.Helper()
		for _, cause := range []refund.Cause{refund.User, refund.Operator} {
			req := in.RefundRequest(in.Payment, cause)
			req.TicketIDs = []uuid.UUID{in.Other, in.Ticket.ID}
			c := in.BeginRefund(t, req)
			require.Equal(t, c, in.BeginRefund(t, req), "the first answer")
			if in.Status != ticket.Valid && (in.Status != ticket.Voided || cause == refund.User) {
				require.Equal(t, refund.Refused, c.Status)
				require.Equal(t, []refund.ExcludedTicket{{TicketID: in.Ticket.ID, Reason: string(in.Status)}}, c.Excluded)
				continue
			}
			fee := map[refund.Cause]int64{refund.User: 0, refund.Operator: 5}[cause]
			require.ElementsMatch(t, []refund.Item{{TicketID: in.Ticket.ID, Amount: 70 + fee}, {TicketID: in.Other, Amount: 70 + fee}}, c.Items)
			require.NoError(t, in.Refunds.Abort(t.Context(), c.ID))
			require.NoError(t, in.Refunds.Abort(t.Context(), c.ID))
			require.Equal(t, in.Ticket, *find(t, in.Service, in.Ticket.ID), "as before")
		}
		require.Equal(t, in.Ticket, *find(t, in.Service, in.Ticket.ID))

		c := in.BeginRefund(t, in.RefundRequest(in.Payment, refund.ByHand))
		require.Equal(t, in.Status == ticket.Valid, len(c.Excluded) == 0)
		require.Contains(t, c.Items, refund.Item{TicketID: in.Other, Amount: 75})
		require.ErrorIs(t, in.Refunds.Abort(t.Context(), c.ID), postgres.ErrContradiction, "the money is gone")
		refundMade := storetest.MadeRefund(c, in.Payment)
		in.Settle(t, refundMade)
		refundMade.Key = uuid.NewString()
		in.Settle(t, refundMade)
		require.Equal(t, ticket.Refunded, find(t, in.Service, in.Other).Status)
		got := find(t, in.Service, in.Ticket.ID)
		if in.Status == ticket.Valid {
			require.Equal(t, ticket.Refunded, got.Status)
			require.Equal(t, reservation.Refunded, in.Find(t, in.Reservation.ID).Status)
			return
		}
		require.Equal(t, in.Ticket, *got, "it ends no ticket of another status")
		releasedBefore := in.Reservation.Released
		require.Equal(t, releasedBefore+1, in.Find(t, in.Reservation.ID).Released)
	})
}

// Money that was given back by hand for named tickets ends those that admit somebody, whatever has
// become of the others.
func TestMoneyByHandForNamedTickets(t *testing.T) {
	t.Parallel()
	storetest.ForEachTicketStatus(t, func(t *testing.T, in storetest.TicketInStatus) {
		t.Helper()
		req := in.RefundRequest(in.Payment, refund.ByHand)
		req.Whole, req.HandLimit = false, 1000
		req.TicketIDs = []uuid.UUID{in.Other, in.Ticket.ID}
		c := in.BeginRefund(t, req)
		require.Equal(t, c, in.BeginRefund(t, req), "the first answer")
		owed := in.Ticket.Owed()
		ended := slices.Contains([]ticket.Status{ticket.Transferred, ticket.Refunded, ticket.Voided}, in.Status)
		if !in.Ticket.Admits() && (!ended || owed == 0) {
			require.Equal(t, refund.Refused, c.Status)
			require.Equal(t, []refund.ExcludedTicket{{TicketID: in.Ticket.ID, Reason: string(in.Status)}}, c.Excluded)
			require.Equal(t, in.Ticket, *find(t, in.Service, in.Ticket.ID))
			return
		}
		require.ElementsMatch(t, []refund.Item{{TicketID: in.Other, Amount: 75}, {TicketID: in.Ticket.ID, Amount: owed}}, c.Items)
		require.ErrorIs(t, in.Refunds.Abort(t.Context(), c.ID), postgres.ErrContradiction, "the money is gone")
		made := storetest.MadeRefund(c, in.Payment)
		in.Settle(t, made)
		made.Key = uuid.NewString()
		in.Settle(t, made)
		require.Equal(t, ticket.Refunded, find(t, in.Service, in.Other).Status)
		got := find(t, in.Service, in.Ticket.ID)
		require.Equal(t, in.Ticket.Paid, got.GivenBack)
		want, released := in.Status, in.Reservation.Released+1
		if in.Ticket.Admits() {
			want, released = ticket.Refunded, released+1
		}
		require.Equal(t, want, got.Status)
		require.Equal(t, released, in.Find(t, in.Reservation.ID).Released)
	})
}

func find(t *testing.T, svc *storetest.Service, id uuid.UUID) *ticket.Ticket {
	t.Helper()
	found, err := svc.Tickets.FindTicket(t.Context(), id)
	require.NoError(t, err)
	return &found.Ticket
}

// sell puts an event of nine seats, and sells some of them to user u.
func sell(t *testing.T, svc *storetest.Service, seats ...string) (*reservation.Reservation, purchase.Payment) {
	t.Helper()
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 9)))
	return buy(t, svc, "u", seats...)
}

func buy(t *testing.T, svc *storetest.Service, user string, seats ...string) (*reservation.Reservation, purchase.Payment) {
	t.Helper()
	r := svc.MustHoldSeats(t, user, seats...)
	p := storetest.Payment(r)
	svc.Confirm(t, r, p)
	return r, p
}

// begin begins a refund of the given tickets of a payment.
func begin(t *testing.T, svc *storetest.Service, p purchase.Payment, cause refund.Cause, tickets ...uuid.UUID) *refund.Claim {
	t.Helper()
	req := svc.RefundRequest(p, cause)
	req.TicketIDs = tickets
	return svc.BeginRefund(t, req)
}

// A call of the payment service that arrives after its refund was refused or aborted claims
// nothing. Nobody would ever end such a claim.
func TestAnswersAreForGood(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	_, p := sell(t, svc, "A-1-1")
	id := svc.TicketIDs(t, p)[0]
	first, late, aborted := svc.RefundRequest(p, refund.User), svc.RefundRequest(p, refund.User), svc.RefundRequest(p, refund.User)
	require.Equal(t, refund.Begun, svc.BeginRefund(t, first).Status)
	refused := svc.BeginRefund(t, late)
	require.Equal(t, refund.Refused, refused.Status)
	require.NoError(t, svc.Refunds.Abort(t.Context(), late.ID), "payment gives up what was refused")
	require.NoError(t, svc.Refunds.Abort(t.Context(), first.ID))
	require.Equal(t, ticket.Valid, find(t, svc, id).Status)

	require.Equal(t, refused, svc.BeginRefund(t, late), "although the ticket is valid now")
	require.Equal(t, refund.Aborted, svc.BeginRefund(t, first).Status)
	require.NoError(t, svc.Refunds.Abort(t.Context(), aborted.ID), "of a claim that is still on its way")
	require.Equal(t, refund.Aborted, svc.BeginRefund(t, aborted).Status)
	require.Equal(t, ticket.Valid, find(t, svc, id).Status)

	done := svc.Refund(t, p, refund.Operator)
	require.ErrorIs(t, svc.Refunds.Abort(t.Context(), done.ID), postgres.ErrContradiction)
	require.Equal(t, refund.Done, svc.BeginRefund(t, refund.Request{ID: done.ID, PaymentID: p.ID, Cause: refund.Operator}).Status)
	svc.RequireInvariants(t)
}

// Refused and aborted claims are deleted once calls about them are too old to claim anything.
func TestOldRefusalsAreDeleted(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	_, p := sell(t, svc, "A-1-1")
	first, refused, aborted := svc.RefundRequest(p, refund.User), svc.RefundRequest(p, refund.User), svc.RefundRequest(p, refund.User)
	require.Equal(t, refund.Begun, svc.BeginRefund(t, first).Status)
	require.Equal(t, refund.Refused, svc.BeginRefund(t, refused).Status)
	require.NoError(t, svc.Refunds.Abort(t.Context(), first.ID))
	require.NoError(t, svc.Refunds.Abort(t.Context(), aborted.ID))
	svc.Refund(t, p, refund.Operator)
	claims := func() int64 { return svc.Count(t, `SELECT count(*) FROM refund_claims`) }
	svc.Clock.Advance(30*24*time.Hour - time.Minute)
	require.NoError(t, svc.Refunds.Prune(t.Context()))
	require.EqualValues(t, 4, claims())
	svc.Clock.Advance(time.Hour)
	require.NoError(t, svc.Refunds.Prune(t.Context()))
	require.EqualValues(t, 1, claims(), "that of the refund that was made")
	for _, late := range []refund.Request{first, refused, aborted} {
		require.Equal(t, refund.ReasonTooOld, svc.BeginRefund(t, late).Reason)
	}
	svc.RequireInvariants(t)
}

// Every call and event is tried on a claim in every status.
func TestClaimsInEveryStatus(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 5, 2)))
	for n, status := range []refund.Status{"", refund.Begun, refund.Done, refund.Aborted, refund.Refused} {
		_, p := buy(t, svc, "user-"+string(status), fmt.Sprintf("A-%d-1", n+1), fmt.Sprintf("A-%d-2", n+1))
		id := svc.TicketIDs(t, p)[0]
		req := svc.RefundRequest(p, refund.Operator)
		req.TicketIDs = []uuid.UUID{id}
		if status == refund.Refused {
			req.TicketIDs = append(req.TicketIDs, uuid.New())
		}
		var c *refund.Claim
		if status != "" {
			c = svc.BeginRefund(t, req)
		}
		refundMade := storetest.MadeRefund(&refund.Claim{ID: req.ID, Cause: refund.Operator}, p)
		end := func() error {
			refundMade.Key = uuid.NewString()
			return svc.Settlement.Settle(t.Context(), storetest.Group, []settlement.PaymentEvent{refundMade})
		}
		switch status {
		case refund.Done:
			require.NoError(t, end())
			require.NoError(t, end(), "once")
			require.ErrorIs(t, svc.Refunds.Abort(t.Context(), req.ID), postgres.ErrContradiction)
			require.Equal(t, ticket.Refunded, find(t, svc, id).Status)
		case refund.Begun:
			require.Equal(t, c, svc.BeginRefund(t, req))
			require.Equal(t, ticket.Refunding, find(t, svc, id).Status)
		case refund.Aborted:
			require.NoError(t, svc.Refunds.Abort(t.Context(), req.ID))
			fallthrough
		default:
			require.ErrorIs(t, end(), settlement.ErrUnclaimed)
			require.NoError(t, svc.Refunds.Abort(t.Context(), req.ID))
			require.ErrorIs(t, end(), settlement.ErrUnclaimed)
			require.Equal(t, ticket.Valid, find(t, svc, id).Status)
			require.NotEqual(t, refund.Begun, svc.BeginRefund(t, req).Status)
		}
		if status != "" {
			require.Equal(t, status, svc.BeginRefund(t, req).Status, "it stays")
		}
	}
	svc.RequireInvariants(t)
}

// A refund ends the tickets that it has claimed, and no other tickets of its payment.
func TestOnlyClaimedTicketsEnd(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	r, p := sell(t, svc, "A-1-1", "A-1-2", "A-1-3")
	ids := svc.TicketIDs(t, p)
	svc.Settle(t, storetest.MadeRefund(begin(t, svc, p, refund.User, ids[1]), p))
	require.Equal(t, reservation.Confirmed, svc.Find(t, r.ID).Status)
	require.Equal(t, 1, svc.Find(t, r.ID).Released)
	require.Equal(t, ticket.Valid, find(t, svc, ids[0]).Status)
	last := svc.OutboxEvents(t, r.ID)[2]
	require.Equal(t, []any{"RESERVATION_CANCELLED", "CONFIRMED", "REFUNDED", int64(1), []string{"A-1-2"}},
		[]any{last.Type, last.Status, last.Reason, last.Quantity, last.SeatIDs})
	_, err := svc.HoldSeats(t.Context(), "v", "A-1-1")
	require.ErrorIs(t, err, reservation.ErrSeatTaken)
	next, second := buy(t, svc, "v", "A-1-2")
	svc.RequireInvariants(t)

	svc.Refund(t, p, refund.Operator) // the two remaining tickets, but not that of user v
	require.Equal(t, reservation.Refunded, svc.Find(t, r.ID).Status)
	require.Equal(t, reservation.Confirmed, svc.Find(t, next.ID).Status)
	require.Equal(t, ticket.Valid, find(t, svc, svc.TicketIDs(t, second)[0]).Status)
	require.Equal(t, refund.Refused, begin(t, svc, p, refund.Operator).Status, "nothing is left")
	svc.RequireInvariants(t)
}

// A ticket is refunded once, by what was paid for it, even if a provider reports that more money
// was given back.
func TestTicketsGiveBackWhatWasPaid(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	_, p := sell(t, svc, "A-1-1", "A-1-2")
	operator := svc.BeginRefund(t, svc.RefundRequest(p, refund.Operator))
	byHand := svc.BeginRefund(t, svc.RefundRequest(p, refund.ByHand))
	require.Empty(t, byHand.Items, "all of it is promised already")
	doubled := p
	doubled.Amount *= 2
	for _, c := range []*refund.Claim{byHand, operator, byHand} {
		svc.Settle(t, storetest.MadeRefund(c, doubled))
	}
	require.EqualValues(t, 140, svc.Count(t, `SELECT sum(given) FROM tickets`))
	svc.RequireInvariants(t)
}

// A place counts for the user's limit until the refund of its ticket is made.
func TestPlacesGivenBackDoNotCountForTheLimit(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	_, p := sell(t, svc, "A-1-1", "A-1-2", "A-1-3", "A-1-4")
	_, err := svc.HoldSeats(t.Context(), "u", "A-1-5")
	require.ErrorIs(t, err, reservation.ErrLimitExceeded)
	c := begin(t, svc, p, refund.User, svc.TicketIDs(t, p)[:2]...)
	_, err = svc.HoldSeats(t.Context(), "u", "A-1-5")
	require.ErrorIs(t, err, reservation.ErrLimitExceeded, "they may become valid again")
	svc.Settle(t, storetest.MadeRefund(c, p))
	svc.MustHoldSeats(t, "u", "A-1-1", "A-1-5")
	_, err = svc.HoldSeats(t.Context(), "u", "A-1-6")
	require.ErrorIs(t, err, reservation.ErrLimitExceeded)
	svc.RequireInvariants(t)
}

// closesAt is when refunds of storetest's events end.
var closesAt = storetest.Start.Add(47 * time.Hour)

// Places given back after the close are not sold again, since a door with an offline list would
// then admit two people to one place.
func TestPlacesGivenBackAfterTheClose(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]event.Event{
		"seats":             storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 4)),
		"general admission": storetest.Spec("e", event.General, storetest.Admissions("A", 70, 4)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			svc := storetest.New(t)
			spec.SalesCloseAt = spec.StartsAt
			svc.Put(t, spec)
			r, err := svc.HoldBest(t.Context(), "u", 3)
			require.NoError(t, err)
			p := storetest.Payment(r)
			svc.Confirm(t, r, p)
			ids := svc.TicketIDs(t, p)
			svc.Clock.Set(closesAt.Add(-time.Minute))
			early := begin(t, svc, p, refund.User, ids[0])
			svc.Clock.Set(closesAt)
			require.Equal(t, refund.Refused, begin(t, svc, p, refund.User, ids[1]).Status, "users are too late")
			require.Empty(t, svc.BeginRefund(t, svc.RefundRequest(p, refund.ByHand)).Items, "nobody says which ticket the money was for")
			late := begin(t, svc, p, refund.Operator, ids[1])
			_, err = svc.EventStore.Snapshot(t.Context(), "e")
			require.NoError(t, err)
			svc.Settle(t, storetest.MadeRefund(late, p), storetest.MadeRefund(early, p))
			svc.RequireInvariants(t)
			require.EqualValues(t, 1, svc.Count(t, `SELECT house FROM sections`))

			for _, replica := range []*storetest.Service{svc, svc.Replica(t)} { // with a cache, and without
				snap, err := replica.EventStore.Snapshot(t.Context(), "e")
				require.NoError(t, err)
				require.EqualValues(t, 2, snap.TotalFree())
				require.Equal(t, event.StatusOnSale, snap.Status())
			}
			_, err = svc.HoldBest(t.Context(), "v", 3)
			require.ErrorIs(t, err, reservation.ErrSoldOut)
			for range 2 {
				next, err := svc.HoldBest(t.Context(), "v", 1)
				require.NoError(t, err)
				svc.Confirm(t, next, storetest.Payment(next))
			}
			statuses, _, err := svc.Replica(t).Events.SaleStatuses(t.Context(), []string{"e"})
			require.NoError(t, err)
			require.Equal(t, event.StatusSoldOut, statuses["e"].Status, "the organiser's place is not for sale")
			snap, err := svc.Replica(t).EventStore.Snapshot(t.Context(), "e")
			require.NoError(t, err)
			require.Equal(t, event.StatusSoldOut, snap.Status())
			svc.RequireInvariants(t)
		})
	}
}

// Users' refunds end at the times that the event sets or, without these, an hour before the start.
func TestTimesOfRefunds(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	_, p := sell(t, svc, "A-1-1")
	set := func(sql string, args ...any) {
		t.Helper()
		_, err := svc.Pool.Exec(t.Context(), `UPDATE events SET `+sql, args...)
		require.NoError(t, err)
	}
	refusal := func(cause refund.Cause) string {
		t.Helper()
		c := svc.BeginRefund(t, svc.RefundRequest(p, cause))
		require.NoError(t, svc.Refunds.Abort(t.Context(), c.ID))
		return c.Reason
	}
	svc.Clock.Set(closesAt)
	require.Equal(t, "NOT_REFUNDABLE", refusal(refund.User), "an hour before the start")
	require.Empty(t, refusal(refund.Operator))
	set(`doors_at = $1`, closesAt.Add(time.Minute))
	require.Empty(t, refusal(refund.User), "until doors open")
	set(`closes_at = $1`, closesAt)
	require.Equal(t, "NOT_REFUNDABLE", refusal(refund.User), "as set")
	set(`closes_at = $1, refund_until = $2`, closesAt.Add(2*time.Minute), closesAt.Add(time.Minute))
	require.Empty(t, refusal(refund.User))
	svc.Clock.Set(closesAt.Add(time.Minute))
	require.Equal(t, "NOT_REFUNDABLE", refusal(refund.User))
	set(`refund_until = NULL, user_refunds = false`)
	require.Equal(t, "NOT_REFUNDABLE", refusal(refund.User))
	for _, state := range []string{"CANCELLED", "ENDED"} {
		set(`state = $1`, state)
		require.Equal(t, "EVENT_CANCELLED", refusal(refund.Operator), "everybody gets everything back")
	}
}

// Terms that an operator has changed between a request and its decision still count for the request,
// if they are better; they are kept as long as requests are decided on.
func TestTermsThatChangeBeforeTheDecision(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	spec := storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 9))
	put := func(percent int32) {
		t.Helper()
		spec.CancellationFees = &event.CancellationFees{{Until: spec.StartsAt, Percent: percent}}
		svc.Put(t, spec)
	}
	put(10)
	_, p := buy(t, svc, "u", "A-1-1")
	amount := func(req refund.Request) int64 {
		t.Helper()
		req.ID = uuid.New()
		c := svc.BeginRefund(t, req)
		require.Equal(t, refund.Begun, c.Status)
		require.NoError(t, svc.Refunds.Abort(t.Context(), c.ID))
		return c.Items[0].Amount
	}
	asked := svc.RefundRequest(p, refund.User)
	svc.Clock.Advance(time.Minute)
	put(50)
	put(50) // changes nothing
	svc.Clock.Advance(time.Minute)
	later := svc.RefundRequest(p, refund.User)
	require.Equal(t, []int64{63, 35}, []int64{amount(asked), amount(later)})
	put(0)
	require.Equal(t, []int64{70, 70}, []int64{amount(asked), amount(later)})
	put(30)
	require.Equal(t, []int64{70, 70}, []int64{amount(asked), amount(later)})
	svc.Clock.Advance(time.Second)
	require.EqualValues(t, 49, amount(svc.RefundRequest(p, refund.User)))

	spec.UserRefunds = &event.UserRefunds{None: true}
	put(30)
	require.EqualValues(t, 70, amount(asked), "there are no refunds any more")
	require.EqualValues(t, 4, svc.Count(t, `SELECT count(*) FROM former_terms`))
	spec.StartsAt = spec.StartsAt.Add(30 * 24 * time.Hour)
	_, err := svc.Events.Postpone(t.Context(), "e", event.Postponement{StartsAt: spec.StartsAt})
	require.NoError(t, err)
	require.EqualValues(t, 5, svc.Count(t, `SELECT count(*) FROM former_terms`))
	svc.Clock.Advance(refund.AskedWithin)
	put(20)
	require.EqualValues(t, 1, svc.Count(t, `SELECT count(*) FROM former_terms`), "no request is as old")
	svc.RequireInvariants(t)
}

// A refusal because of the shown amount is stored with the present amount, as every answer.
func TestShownAmountsAreAnsweredOnce(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	_, p := sell(t, svc, "A-1-1", "A-1-2")
	req := svc.RefundRequest(p, refund.User)
	req.Shown = new(int64(141))
	for range 2 {
		c := svc.BeginRefund(t, req)
		require.Equal(t, []any{refund.Refused, refund.ReasonAmountChanged, int64(140)}, []any{c.Status, c.Reason, c.PresentAmount})
		require.Empty(t, c.Items)
	}
	req.ID, req.Shown = uuid.New(), new(int64(140))
	require.Len(t, svc.BeginRefund(t, req).Items, 2)
	svc.RequireInvariants(t)
}

// Once the refunds of a cancelled event have begun, a later payment buys nothing.
func TestPaidAfterTheEventEnded(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]reservation.Status{"CANCELLED": reservation.Confirmed, "ENDED": reservation.Rejected} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			svc := storetest.New(t)
			svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 9)))
			r := svc.MustHoldSeats(t, "u", "A-1-1")
			p := svc.BeginPayment(t, r)
			_, err := svc.Pool.Exec(t.Context(), `UPDATE events SET state = $1`, state)
			require.NoError(t, err)
			svc.Confirm(t, r, p)
			require.Equal(t, want, svc.Find(t, r.ID).Status)
			if want == reservation.Rejected {
				require.Equal(t, []string{"RESERVATION_CREATED", "RESERVATION_CANCELLED", "RESERVATION_REJECTED"}, svc.EventTypes(t, r.ID))
				require.EqualValues(t, 9, svc.Count(t, `SELECT count(*) FROM seats WHERE status = 'FREE'`))
			}
			svc.RequireInvariants(t)
		})
	}
}

// A rejected payment never buys anything, even if the inbox has deleted its event and the
// reservation can still be paid.
func TestRejectionsAreForGood(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 9)))
	r := svc.MustHoldSeats(t, "u", "A-1-1")
	p := storetest.Payment(r)
	_, err := svc.Pool.Exec(t.Context(), `INSERT INTO ended_payments (payment_id, why) VALUES ($1, 'HOLD_EXPIRED')`, p.ID)
	require.NoError(t, err)
	svc.Settle(t, settlement.PaymentEvent{Key: uuid.NewString(), Type: purchase.Reservation, ReferenceID: r.ID, Payment: p})
	require.Equal(t, reservation.Held, svc.Find(t, r.ID).Status, "its money is on the way back")
	events := svc.OutboxEvents(t, r.ID)
	require.Len(t, events, 2)
	require.Equal(t, "HOLD_EXPIRED", events[1].Reason)
	svc.Confirm(t, r, storetest.Payment(r))
	require.Equal(t, reservation.Confirmed, svc.Find(t, r.ID).Status)
	svc.RequireInvariants(t)
}
