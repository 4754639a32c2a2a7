package settlement_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/membership"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/settlement"
	"urr.guru/services/ticket/internal/ticket"
	"urr.guru/services/ticket/internal/transfer"
)

const (
	price        = 140
	maxExtension = time.Hour
)

// purchase is something of one kind that user "u" can pay, in a batch of its own.
type purchase struct {
	batch settlement.Batch
	id    uuid.UUID
	claim func(payment uuid.UUID, now time.Time) error
	abort func(payment uuid.UUID, now time.Time)
	// extend is what the payment service asks for while a payment is not settled.
	extend func(payment uuid.UUID, now time.Time)
	// state has the payment under way, the end of the time to pay, and the ticket's status if any.
	state func() (payment uuid.UUID, until time.Time, tk ticket.Status)
}

// purchases makes a purchase of each kind.
var purchases = map[settlement.Kind]func() purchase{ //nolint:gochecknoglobals // a constant
	settlement.Reservation: func() purchase {
		r := held()
		return purchase{
			batch: *batchOf(r), id: r.ID,
			claim:  func(p uuid.UUID, now time.Time) error { return r.BeginPayment(p, now, maxExtension) },
			abort:  func(p uuid.UUID, now time.Time) { r.AbortPayment(p, now, maxExtension) },
			extend: func(p uuid.UUID, now time.Time) { r.Extend(p, now, maxExtension) },
			state:  func() (uuid.UUID, time.Time, ticket.Status) { return r.PaymentID, r.ExpiresAt, "" },
		}
	},
	settlement.Transfer: func() purchase {
		tk := &ticket.Ticket{ID: uuid.New(), EventID: "e", Status: ticket.Valid, Price: price}
		until := noon.Add(transfer.PayWithin)
		f := &transfer.Transfer{
			ID: uuid.New(), TicketID: tk.ID, EventID: "e", Seller: "v", Buyer: "u", Price: price, Currency: "KRW", Status: transfer.Awaiting,
			Deadline: noon.Add(time.Hour), PayUntil: until, PayEndsAt: until,
		}
		b := batchOf(held(), tk)
		b.Transfer = func(uuid.UUID) *transfer.Transfer { return f }
		return purchase{
			batch: *b, id: f.ID,
			claim: func(p uuid.UUID, now time.Time) error {
				return f.ClaimFor(tk, "u", p, transfer.Terms{Closing: b.Closings["e"], Now: now}, maxExtension, reservation.PayTime{})
			},
			abort:  func(p uuid.UUID, now time.Time) { f.AbortPayment(tk, p, now, maxExtension) },
			extend: func(p uuid.UUID, now time.Time) { f.Extend(p, now, maxExtension) },
			state:  func() (uuid.UUID, time.Time, ticket.Status) { return f.PaymentID, f.PayUntil, tk.Status },
		}
	},
	settlement.Membership: func() purchase {
		m := membership.New("u", &membership.Plan{Price: price, Currency: "KRW", Months: 1}, noon)
		b := batchOf(held())
		b.Membership = func(uuid.UUID) *membership.Membership { return m }
		b.OtherMemberships = func(*membership.Membership) []*membership.Membership { return nil }
		return purchase{
			batch: *b, id: m.ID,
			claim: func(p uuid.UUID, now time.Time) error {
				return m.ClaimFor("u", p, now, maxExtension, reservation.PayTime{})
			},
			abort:  func(p uuid.UUID, now time.Time) { m.AbortPayment(p, now, maxExtension) },
			extend: func(p uuid.UUID, now time.Time) { m.Extend(p, now, maxExtension) },
			state:  func() (uuid.UUID, time.Time, ticket.Status) { return m.PaymentID, m.PayUntil, "" },
		}
	},
}

// eventOf returns the event that a payment of this purchase was confirmed.
func (p *purchase) eventOf(kind settlement.Kind, payment uuid.UUID) settlement.PaymentEvent {
	return settlement.PaymentEvent{
		Kind: kind, ReferenceID: p.id, Payment: reservation.Payment{ID: payment, UserID: "u", EventID: "e", Amount: price, Currency: "KRW"},
	}
}

// confirm applies the event that a payment was confirmed.
func (p *purchase) confirm(t *testing.T, kind settlement.Kind, payment uuid.UUID, now time.Time) {
	t.Helper()
	p.batch.Now = now
	require.NoError(t, p.batch.Apply([]settlement.PaymentEvent{p.eventOf(kind, payment)}))
}

// A rejected payment that was under way is over at once: its purchase is as after a declined
// payment, can be paid by another one, and is not extended for the rejected one.
func TestRejectedPaymentsGiveEverythingBack(t *testing.T) {
	t.Parallel()
	for kind, begin := range purchases {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			declined, rejected, payment := begin(), begin(), uuid.New()
			_, end, status := rejected.state()
			late := end.Add(-time.Minute)
			require.NoError(t, rejected.claim(payment, late))
			rejected.batch.Ended[payment] = reservation.ReasonRefunded // before it was heard of
			rejected.confirm(t, kind, payment, late)

			require.NoError(t, declined.claim(payment, late))
			declined.abort(payment, late)
			wantPayment, wantUntil, wantStatus := declined.state()
			gotPayment, until, gotStatus := rejected.state()
			require.Equal(t, []any{wantPayment, wantUntil, wantStatus}, []any{gotPayment, until, gotStatus})
			require.Equal(t, []any{uuid.Nil, late.Add(reservation.RetryWithin), status}, []any{gotPayment, until, gotStatus})

			rejected.extend(payment, until.Add(-time.Second))
			_, after, _ := rejected.state()
			require.Equal(t, until, after, "its claim is over")
			second := uuid.New()
			require.NoError(t, rejected.claim(second, late))
			rejected.confirm(t, kind, payment, late) // the event comes again
			got, _, _ := rejected.state()
			require.Equal(t, second, got)
			rejected.confirm(t, kind, second, late)
			require.Empty(t, rejected.batch.Ended[second])
		})
	}
}

// A rejected payment that is not under way any more changes nothing for the one that is. Its payer is
// told.
func TestRejectedPaymentsLeaveOthersAlone(t *testing.T) {
	t.Parallel()
	for kind, begin := range purchases {
		p, first, underWay := begin(), uuid.New(), uuid.New()
		require.NoError(t, p.claim(first, noon))
		p.abort(first, noon)
		require.NoError(t, p.claim(underWay, noon))
		before, until, status := p.state()
		p.batch.Ended[first] = reservation.ReasonRefunded
		p.confirm(t, kind, first, noon)
		after, untilAfter, statusAfter := p.state()
		require.Equal(t, []any{before, until, status}, []any{after, untilAfter, statusAfter}, kind)
		require.Len(t, p.batch.Notices, 1)
	}
}

// Only a payment that was begun for this purchase, by this user, with its amount, settles it. Any other
// record changes nothing, and gives nothing back: whoever has written it is not the payment service.
func TestPaymentsThatWereNotBegunChangeNothing(t *testing.T) {
	t.Parallel()
	for name, forge := range map[string]func(e *settlement.PaymentEvent){
		"another payment": func(e *settlement.PaymentEvent) { e.Payment.ID = uuid.New() },
		"no payment":      func(e *settlement.PaymentEvent) { e.Payment.ID = uuid.Nil },
		"another user":    func(e *settlement.PaymentEvent) { e.Payment.UserID = "thief" },
		"another amount":  func(e *settlement.PaymentEvent) { e.Payment.Amount = 1 },
		"currency":        func(e *settlement.PaymentEvent) { e.Payment.Currency = "USD" },
	} {
		for kind, begin := range purchases {
			for _, underWay := range []bool{false, true} {
				p, payment := begin(), uuid.New()
				if underWay {
					require.NoError(t, p.claim(payment, noon))
				}
				payment0, until, status := p.state()
				e := p.eventOf(kind, payment)
				forge(&e)
				require.ErrorIs(t, p.batch.Apply([]settlement.PaymentEvent{e}), settlement.ErrNotBegun, "%s %s", kind, name)
				payment1, untilAfter, statusAfter := p.state()
				require.Equal(t, []any{payment0, until, status}, []any{payment1, untilAfter, statusAfter}, "%s %s", kind, name)
				require.Empty(t, p.batch.NewlyEnded, "%s %s", kind, name)
				require.Empty(t, p.batch.Notices, "%s %s", kind, name)
			}
		}
	}
}

// Each payment that was begun counts, also when it was given up since, and when the time to pay is over.
func TestEarlierPaymentsThatWereBegunAreSettled(t *testing.T) {
	t.Parallel()
	for kind, begin := range purchases {
		p, first := begin(), uuid.New()
		require.NoError(t, p.claim(first, noon))
		p.abort(first, noon)
		p.confirm(t, kind, first, noon)
		require.Empty(t, p.batch.NewlyEnded, kind)

		p = begin()
		require.NoError(t, p.claim(first, noon))
		p.abort(first, noon)
		_, end, _ := p.state()
		p.confirm(t, kind, first, end.Add(time.Hour))
		if kind != settlement.Transfer { // whose buyer may still pay until the sweeper ends the time
			require.NotEmpty(t, p.batch.NewlyEnded[first], "%s: the money goes back", kind)
		}
	}
}
