package settlement_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/notice"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/settlement"
	"urr.guru/services/ticket/internal/ticket"
)

var noon = time.Date(2030, 5, 1, 12, 0, 0, 0, time.UTC)

func held() *reservation.Reservation {
	r := reservation.NewHeld(reservation.Reservation{
		ID: reservation.NewID(), EventID: "e", UserID: "u", Section: "A", Quantity: 2, Amount: 140, Currency: "KRW",
	}, 5*time.Minute, noon)
	r.TakeEvents()
	return r
}

// confirmed returns the event that a payment was confirmed that was begun for a reservation.
func confirmed(r *reservation.Reservation) settlement.PaymentEvent {
	e := settlement.PaymentEvent{Type: purchase.Reservation, ReferenceID: r.ID, Payment: purchase.Payment{ID: uuid.New(), UserID: r.UserID, Amount: r.Amount, Currency: r.Currency}}
	r.Begun = append(r.Begun, e.Payment.ID)
	return e
}

// batchOf returns a batch of one reservation and its tickets.
func batchOf(r *reservation.Reservation, tickets ...*ticket.Ticket) *settlement.Batch {
	b := &settlement.Batch{
		Reservation: func(id uuid.UUID) *reservation.Reservation {
			if id != r.ID {
				return nil
			}
			return r
		},
		Ticket: func(id uuid.UUID) *ticket.Ticket {
			for _, t := range tickets {
				if t.ID == id {
					return t
				}
			}
			return nil
		},
		Claims: make(map[uuid.UUID]*refund.Claim), Ended: make(map[uuid.UUID]string), Now: noon.Add(time.Minute), MaxExtension: time.Hour,
		Closings: map[string]event.AfterSaleTerms{"e": {State: event.Open, ClosesAt: noon.Add(time.Hour), SalesCloseAt: noon.Add(24 * time.Hour)}},
	}
	b.Purchase = func(_ purchase.Type, id uuid.UUID) purchase.Purchase {
		if id != r.ID {
			return nil
		}
		return &reservation.Purchase{Reservation: r, Event: b.Closings[r.EventID].State}
	}
	return b
}

// sold returns a paid reservation, its two tickets, and a refund's claim of the first ticket.
func sold() (r *reservation.Reservation, tickets []*ticket.Ticket, c *refund.Claim) {
	r = held()
	purchase.Settle(&reservation.Purchase{Reservation: r}, confirmed(r).Payment, noon, time.Hour)
	r.TakeEvents()
	c = &refund.Claim{ID: uuid.New(), Cause: refund.User, Status: refund.Begun, BegunAt: noon}
	for _, t := range ticket.Issue(r) {
		tickets = append(tickets, &t)
	}
	c.Items = []refund.Item{{TicketID: tickets[0].ID, Amount: 70}}
	tickets[0].Claim(c.ID, 70)
	return r, tickets, c
}

func refundMade(c *refund.Claim) settlement.PaymentEvent {
	return settlement.PaymentEvent{Refunded: true, Cause: c.Cause, RefundID: c.ID}
}

func TestApplyEndsTheClaimedTickets(t *testing.T) {
	t.Parallel()
	r, tickets, c := sold()
	b := batchOf(r, tickets...)
	b.Claims[c.ID] = c
	tickets[0].Paid, tickets[0].Fee, tickets[0].GivenBack = 70, 10, 65
	require.NoError(t, b.Apply([]settlement.PaymentEvent{refundMade(c), refundMade(c)}))
	require.Equal(t, []ticket.Status{ticket.Refunded, ticket.Valid}, []ticket.Status{tickets[0].Status, tickets[1].Status})
	require.Equal(t, reservation.Confirmed, r.Status)
	require.Equal(t, 1, r.Released)
	require.Equal(t, []reservation.ReturnedPlace{{N: 1, Fee: 5}}, r.ReturnedPlaces())
	require.Equal(t, []uuid.UUID{c.ID}, b.Done, "once")
	events := r.TakeEvents()
	require.Len(t, events, 1)
	require.Equal(t, reservation.EventCancelled, events[0].Type)
	require.Equal(t, 1, events[0].Reservation.Quantity)
	require.Equal(t, reservation.Confirmed, events[0].Reservation.Status)
	require.Equal(t, 2, r.Quantity)
}

// A refund without a claim, or with a claim that was aborted or refused, ends nothing.
func TestApplyRefusesRefundsWithoutAClaim(t *testing.T) {
	t.Parallel()
	for _, status := range []refund.Status{"", refund.Aborted, refund.Refused} {
		r, tickets, c := sold()
		b := batchOf(r, tickets...)
		if status != "" {
			b.Claims[c.ID] = c
			c.Status = status
		}
		require.ErrorIs(t, b.Apply([]settlement.PaymentEvent{refundMade(c)}), settlement.ErrUnclaimed, status)
		require.Equal(t, ticket.Refunding, tickets[0].Status)
	}
	r, tickets, c := sold()
	b := batchOf(r, tickets...)
	b.Claims[c.ID] = c
	tickets[0].RefundID = uuid.New()
	require.ErrorIs(t, b.Apply([]settlement.PaymentEvent{refundMade(c)}), ticket.ErrNotClaimed)
}

// The refund of a ticket that was transferred frees no place: the new holder's ticket is for it.
func TestApplyKeepsThePlacesOfTransferredTickets(t *testing.T) {
	t.Parallel()
	r, tickets, c := sold()
	b := batchOf(r, tickets...)
	b.Claims[c.ID] = c
	tickets[0].Status = ticket.Transferred
	require.NoError(t, b.Apply([]settlement.PaymentEvent{refundMade(c)}))
	require.Zero(t, r.Released)
	require.Equal(t, []uuid.UUID{c.ID}, b.Done)
	require.Empty(t, r.TakeEvents(), "no fee was paid")
}

// The payer of tickets hears of a refund, with what comes back for each, and its fees are published,
// although one of the tickets has another holder by then.
func TestRefundsFollowThePayer(t *testing.T) {
	t.Parallel()
	r, tickets, c := sold()
	for i, given := range []int64{110, 80} { // the second one was sold to somebody else for 80
		*tickets[i] = ticket.Ticket{
			ID: tickets[i].ID, ReservationID: r.ID, N: i + 1, EventID: "e", UserID: "payer", Section: "A", Paid: 110, Fee: 10, GivenBack: given, Currency: "KRW",
		}
	}
	c.PaymentID, c.Cause, c.Items = uuid.New(), refund.EventCancelled, []refund.Item{{TicketID: tickets[0].ID, Amount: 110}, {TicketID: tickets[1].ID, Amount: 30}}
	tickets[0].Status, tickets[0].RefundID = ticket.Refunding, c.ID
	tickets[1].Status, tickets[1].GivenBack = ticket.Transferred, 110
	b := batchOf(r, tickets...)
	b.Claims[c.ID] = c
	require.NoError(t, b.Apply([]settlement.PaymentEvent{refundMade(c), refundMade(c)}))
	require.Equal(t, []notice.New{{Type: notice.TicketsRefunded, Entity: r.ID.String(), EventID: "e", Data: &notice.Order{
		ReservationID: r.ID.String(), EventID: "e", UserID: "payer", PaymentID: c.PaymentID.String(), Cause: "EVENT_CANCELLED", Amount: 140, Currency: "KRW",
		Tickets: []notice.Place{{TicketID: tickets[0].ID.String(), Section: "A", Amount: 110}, {TicketID: tickets[1].ID.String(), Section: "A", Amount: 30}},
	}}}, b.Notices)
	published := make(map[int]int64)
	for _, e := range r.TakeEvents() {
		require.Equal(t, reservation.EventCancelled, e.Type)
		published[e.Reservation.Quantity] += e.Reservation.Fee
	}
	require.Equal(t, map[int]int64{0: 10, 1: 10}, published, "without a place, and with one")
	require.Equal(t, 1, r.Released)
}

// Whoever paid for nothing is told so, once, also if the money was given back by hand before.
func TestPayersHearOfRejections(t *testing.T) {
	t.Parallel()
	for ended, told := range map[string]string{
		"": purchase.ReasonHoldExpired, purchase.ReasonRefunded: purchase.ReasonRefunded, purchase.ReasonHoldExpired: "",
	} {
		r := held()
		e := confirmed(r)
		e.Payment.EventID = "e"
		b := batchOf(r)
		b.Now = r.Until
		if ended != "" {
			b.Ended[e.Payment.ID] = ended
		}
		require.NoError(t, b.Apply([]settlement.PaymentEvent{e}))
		if told == "" {
			require.Empty(t, b.Notices, "it comes again")
			continue
		}
		require.Equal(t, []notice.New{{Type: notice.PaymentRejected, Entity: r.ID.String(), EventID: "e", Data: notice.Rejected{
			PaymentID: e.Payment.ID.String(), Kind: "reservation", ReferenceID: r.ID.String(), EventID: "e", UserID: "u", Amount: 140, Currency: "KRW", Reason: told,
		}}}, b.Notices, ended)
	}
}

// Places whose refund began after ClosesAt are not sold again, since doors may have lists by then.
func TestPlacesGivenBackAfterTheClose(t *testing.T) {
	t.Parallel()
	for begun, house := range map[time.Duration]bool{59 * time.Minute: false, time.Hour: true} {
		r, tickets, c := sold()
		c.BegunAt = noon.Add(begun)
		b := batchOf(r, tickets...)
		b.Claims[c.ID], b.Now = c, noon.Add(2*time.Hour)
		require.NoError(t, b.Apply([]settlement.PaymentEvent{refundMade(c)}))
		require.Equal(t, []reservation.ReturnedPlace{{N: 1, House: house}}, r.ReturnedPlaces(), begun)
	}
}

// Whose the place becomes follows the event's setting and the end of the sale. While it waits to be
// sold again, it counts for its user, if that user gave it back. In a scarce section it always waits.
func TestWhereGivenBackPlacesGo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change                func(closing *event.AfterSaleTerms, b *settlement.Batch, c *refund.Claim)
		house, waits, counted bool
	}{
		"at once": {func(*event.AfterSaleTerms, *settlement.Batch, *refund.Claim) {}, false, false, false},
		"later": {func(closing *event.AfterSaleTerms, _ *settlement.Batch, _ *refund.Claim) {
			closing.ReturnWithin = time.Minute
		}, false, true, true},
		"by an operator": {func(closing *event.AfterSaleTerms, _ *settlement.Batch, c *refund.Claim) {
			closing.ReturnWithin, c.Cause = time.Minute, refund.Operator
		}, false, true, false},
		"scarce": {func(_ *event.AfterSaleTerms, b *settlement.Batch, _ *refund.Claim) {
			b.Scarce = map[settlement.Section]bool{{EventID: "e", Name: "A"}: true}
		}, false, true, true},
		"the house": {func(closing *event.AfterSaleTerms, _ *settlement.Batch, _ *refund.Claim) {
			closing.ReturnsTo = event.ReturnsToHouse
		}, true, false, false},
		"the end": {func(closing *event.AfterSaleTerms, _ *settlement.Batch, c *refund.Claim) {
			closing.SalesCloseAt = c.BegunAt
		}, true, false, false},
	} {
		r, tickets, claim := sold()
		for _, tk := range tickets {
			tk.UserID, tk.Section = "u", "A"
		}
		b := batchOf(r, tickets...)
		b.Claims[claim.ID], claim.Cause = claim, refund.User
		closing := b.Closings["e"]
		c.change(&closing, b, claim)
		b.Closings["e"] = closing
		require.NoError(t, b.Apply([]settlement.PaymentEvent{refundMade(claim)}), name)
		place := r.ReturnedPlaces()[0]
		require.Equal(t, []bool{c.house, c.waits, c.counted}, []bool{place.House, !place.ReleaseAt.IsZero(), place.Giver == "u"}, name)
	}
}

// A rejection of a payment is final, even if what it paid for could be paid again.
func TestApplyRejectsForGood(t *testing.T) {
	t.Parallel()
	r := held()
	rejected := confirmed(r)
	b := batchOf(r)
	b.Ended[rejected.Payment.ID] = purchase.ReasonHoldExpired
	require.NoError(t, b.Apply([]settlement.PaymentEvent{rejected}))
	require.Equal(t, reservation.Held, r.Status)
	require.Empty(t, b.NewlyEnded, "the first reason stays")
	events := r.TakeEvents()
	require.Len(t, events, 1)
	require.Equal(t, purchase.ReasonHoldExpired, events[0].Reason)
}

// A cancellation can be undone, so payments of a CANCELLED event confirm their reservations. Once
// its refunds have begun (ENDED), payments are rejected.
func TestPaymentsOfACancelledEvent(t *testing.T) {
	t.Parallel()
	for state, want := range map[event.State]reservation.Status{
		event.Open: reservation.Confirmed, event.Paused: reservation.Confirmed, event.Cancelled: reservation.Confirmed, event.Ended: reservation.Rejected,
	} {
		r := held()
		e := confirmed(r)
		require.NoError(t, purchase.Begin(&reservation.Purchase{Reservation: r}, "u", e.Payment.ID, purchase.PayTime{}, noon, time.Hour))
		b := batchOf(r)
		b.Closings["e"] = event.AfterSaleTerms{State: state}
		require.NoError(t, b.Apply([]settlement.PaymentEvent{e, e}))
		require.Equal(t, want, r.Status, state)
		require.Equal(t, want == reservation.Rejected, b.NewlyEnded[e.Payment.ID] == reservation.ReasonCancelled, state)
		var types []reservation.EventType
		for _, e := range r.TakeEvents() {
			types = append(types, e.Type)
		}
		if want == reservation.Rejected {
			require.Equal(t, []reservation.EventType{reservation.EventCancelled, reservation.EventPaymentRejected}, types)
		} else {
			require.Equal(t, []reservation.EventType{reservation.EventConfirmed}, types)
		}
	}
}
