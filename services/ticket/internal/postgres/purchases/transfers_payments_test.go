package purchases_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/settlement"
	"urr.guru/services/ticket/internal/ticket"
	"urr.guru/services/ticket/internal/transfer"
)

// Accounts that accept an offer and give it up at once, with or without a payment page, neither end
// nor keep it: each can do so once.
func TestGivingUpAtOnce(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	_, ids := s.buy("a", "A-1-1")
	offered, claim := s.offer("a", ids[0], 70)
	for _, user := range []string{"b", "c", "d"} {
		_, err := s.accept(user, claim)
		require.NoError(t, err)
		_, err = s.Transfers.BeginPayment(t.Context(), user, offered.ID, uuid.New(), purchase.PayTime{Within: 12 * time.Minute, Opens: user == "c"})
		require.Equal(t, user != "c", s.ticket(ids[0]).Status == ticket.Transferring)
		require.NoError(t, err)
		s.Clock.Advance(transfer.GiveUpWithin - time.Millisecond)
		found, err := s.TransferStore.Find(t.Context(), offered.ID)
		require.NoError(t, err)
		if user != "c" {
			require.NoError(t, s.Transfers.AbortPayment(t.Context(), offered.ID, found.PaymentID, purchase.Failure{Declined: true}))
		}
		_, err = s.Transfers.Cancel(t.Context(), user, offered.ID)
		require.NoError(t, err)
		require.Equal(t, transfer.Open, s.status(offered.ID))
		for range 2 {
			_, err = s.accept(user, claim)
			require.ErrorIs(t, err, transfer.ErrGivenUp)
		}
		_, err = s.Transfers.Cancel(t.Context(), user, offered.ID)
		require.ErrorIs(t, err, transfer.ErrNotFound, "it is not the user's any more")
	}
	_, err := s.accept("honest", claim)
	require.NoError(t, err)
	_, err = s.accept("b", claim)
	require.ErrorIs(t, err, transfer.ErrTaken)
	e, err := s.charge(offered, "honest")
	require.NoError(t, err)
	s.Settle(t, e)
	require.Equal(t, transfer.Completed, s.status(offered.ID))

	second, err := s.TransferStore.Find(t.Context(), offered.ID)
	require.NoError(t, err)
	_, claim = s.offer("honest", second.NewTicket, 70)
	_, err = s.accept("b", claim)
	require.NoError(t, err, "another offer")
	s.RequireInvariants(t)
}

// Giving up late keeps others from the ticket as not paying does, and counts as much. Who has run out
// of time may accept the offer again.
func TestGivingUpLate(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	_, ids := s.buy("a", "A-1-1")
	offered, claim := s.offer("a", ids[0], 70)
	_, err := s.accept("b", claim)
	require.NoError(t, err)
	s.Clock.Advance(transfer.GiveUpWithin)
	_, err = s.Transfers.Cancel(t.Context(), "b", offered.ID)
	require.NoError(t, err)
	_, err = s.accept("b", claim)
	require.ErrorIs(t, err, transfer.ErrGivenUp)
	_, err = s.accept("c", claim)
	require.NoError(t, err)
	s.Clock.Advance(transfer.PayWithin)
	require.NoError(t, s.Transfers.ExpireDue(t.Context()))
	require.Equal(t, transfer.Expired, s.status(offered.ID))

	offered, claim = s.offer("a", ids[0], 70)
	for range 2 {
		_, err = s.accept("c", claim)
		require.NoError(t, err)
		s.Clock.Advance(transfer.PayWithin)
		require.NoError(t, s.Transfers.ExpireDue(t.Context()))
	}
	require.Equal(t, transfer.Expired, s.status(offered.ID))
	s.RequireInvariants(t)
}

// An offer to one user ends when that user gives it up, since nobody else may accept it.
func TestGivingUpAnOfferByName(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	_, ids := s.buy("a", "A-1-1")
	named, _, err := s.Transfers.Offer(t.Context(), transfer.Request{TicketID: ids[0], Seller: "a", ToUser: "b", Price: 70}, nil)
	require.NoError(t, err)
	_, err = s.Transfers.Accept(t.Context(), "b", purchase.Contact{}, "", named.ID)
	require.NoError(t, err)
	ended, err := s.Transfers.Cancel(t.Context(), "b", named.ID)
	require.NoError(t, err)
	require.Equal(t, []any{transfer.Expired, transfer.ReasonUnpaid}, []any{ended.Status, ended.Reason})
	s.offer("a", ids[0], 70)
	s.RequireInvariants(t)
}

// If a buyer cancels late or does not pay, the offer is open again. After two such buyers it expires.
func TestBuyersWhoDoNotPay(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	_, ids := s.buy("a", "A-1-1")
	offered, claim := s.offer("a", ids[0], 70)
	_, err := s.accept("b", claim)
	require.NoError(t, err)
	_, err = s.Transfers.Cancel(t.Context(), "c", offered.ID)
	require.ErrorIs(t, err, transfer.ErrNotFound)
	s.Clock.Advance(transfer.GiveUpWithin)
	_, err = s.Transfers.Cancel(t.Context(), "b", offered.ID)
	require.NoError(t, err)
	require.Equal(t, transfer.Open, s.status(offered.ID))
	_, err = s.accept("c", claim)
	require.NoError(t, err)
	e, err := s.charge(offered, "c")
	require.NoError(t, err)
	require.Equal(t, ticket.Transferring, s.ticket(ids[0]).Status)
	s.Clock.Advance(storetest.MaxExtension + transfer.PayWithin)
	require.NoError(t, s.Transfers.ExpireDue(t.Context()))
	require.Equal(t, transfer.Expired, s.status(offered.ID))
	require.Equal(t, ticket.Valid, s.ticket(ids[0]).Status)
	s.Settle(t, e) // a payment that was nevertheless confirmed is rejected
	require.EqualValues(t, 1, s.Count(t, `SELECT count(*) FROM ended_payments WHERE payment_id = $1`, e.Payment.ID))
	require.EqualValues(t, 1, s.Count(t, `SELECT count(*) FROM outbox WHERE type = 'TRANSFER_REJECTED'`))
	s.RequireInvariants(t)
}

// A claim that opens a payment page keeps the ticket VALID. A claim before a charge makes it
// TRANSFERRING. Both can be repeated and aborted.
func TestClaimsOfPayments(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	_, ids := s.buy("a", "A-1-1")
	offered, claim := s.offer("a", ids[0], 70)
	_, err := s.Transfers.Payable(t.Context(), "b", offered.ID)
	require.ErrorIs(t, err, purchase.ErrReferenceNotFound, "not accepted")
	_, err = s.accept("b", claim)
	require.NoError(t, err)
	s.requirePayableWhileLocked(offered, "b")
	payment := uuid.New()
	begin := func(pt purchase.PayTime) (*purchase.Payable, error) {
		return s.Transfers.BeginPayment(t.Context(), "b", offered.ID, payment, pt)
	}
	page := purchase.PayTime{Within: 20 * time.Minute, AtLeast: 3 * time.Minute, Opens: true}
	for range 2 {
		opened, err := begin(page)
		require.NoError(t, err)
		s.RequireFromNow(t, 20*time.Minute, opened.ExpiresAt)
	}
	require.Equal(t, ticket.Valid, s.ticket(ids[0]).Status)
	for range 2 {
		_, err = begin(purchase.PayTime{Within: 10 * time.Minute})
		require.NoError(t, err)
	}
	require.Equal(t, ticket.Transferring, s.ticket(ids[0]).Status)
	_, err = s.Transfers.BeginPayment(t.Context(), "b", offered.ID, uuid.New(), purchase.PayTime{})
	require.ErrorIs(t, err, purchase.ErrPaymentInProgress)
	_, err = s.Transfers.Cancel(t.Context(), "a", offered.ID)
	require.ErrorIs(t, err, purchase.ErrPaymentInProgress)
	s.Clock.Advance(19 * time.Minute)
	underWay := purchase.UnderWay{ReferenceID: offered.ID, PaymentID: payment}
	extended, err := s.Transfers.ExtendPayments(t.Context(), []purchase.UnderWay{underWay, {ReferenceID: offered.ID, PaymentID: uuid.New()}})
	require.NoError(t, err)
	require.Equal(t, []purchase.UnderWay{underWay}, extended)
	found, err := s.TransferStore.Find(t.Context(), offered.ID)
	require.NoError(t, err)
	s.RequireFromNow(t, 3*time.Minute, found.Until)
	for range 2 {
		require.NoError(t, s.Transfers.AbortPayment(t.Context(), offered.ID, payment, purchase.Failure{}))
		require.Equal(t, ticket.Valid, s.ticket(ids[0]).Status)
	}
	payment = uuid.New()
	_, err = begin(page)
	require.NoError(t, err, "the buyer may try again")
	for i := range 2 {
		require.NoError(t, s.Transfers.AbortPayment(t.Context(), offered.ID, payment, purchase.Failure{}))
		payment = uuid.New()
		_, err = begin(page)
		require.Equal(t, i == 0, err == nil, "a hold has three pages")
	}
	s.Clock.Advance(time.Hour)
	require.NoError(t, s.Transfers.AbortPayment(t.Context(), offered.ID, payment, purchase.Failure{}))
	s.RequireInvariants(t)
}

// requirePayableWhileLocked asks whether a buyer may pay, while another transaction has locked the
// rows.
func (s *shop) requirePayableWhileLocked(offered *transfer.View, buyer string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second) // a call that waits for the locks fails
	defer cancel()
	tx, err := s.Pool.Begin(ctx)
	require.NoError(s.t, err)
	_, err = tx.Exec(ctx, `SELECT FROM tickets JOIN transfers USING (ticket_id) WHERE transfer_id = $1 FOR UPDATE`, offered.ID)
	require.NoError(s.t, err)
	payable, err := s.Transfers.Payable(ctx, buyer, offered.ID)
	require.NoError(s.t, err)
	require.Equal(s.t, offered.Price, payable.Amount)
	_, err = s.Transfers.Payable(ctx, "thief", offered.ID)
	require.ErrorIs(s.t, err, purchase.ErrReferenceNotFound)
	require.NoError(s.t, tx.Rollback(ctx))
}

// An offer ends with its ticket, deadline or event, or by its seller, even if accepted but not
// charged. The Kafka event has the id of the open payment, whose page the payment service closes.
func TestWhatEndsOffers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		end    func(s *shop, p purchase.Payment, id uuid.UUID)
	}{
		"its seller": {transfer.ReasonSeller, func(s *shop, _ purchase.Payment, id uuid.UUID) {
			for range 2 {
				_, err := s.Transfers.Cancel(t.Context(), "a", id)
				require.NoError(t, err)
			}
		}},
		"a refund": {transfer.ReasonRefunded, func(s *shop, p purchase.Payment, _ uuid.UUID) { s.Refund(t, p, refund.User) }},
		"the door": {transfer.ReasonUsed, func(s *shop, p purchase.Payment, _ uuid.UUID) {
			s.Clock.Set(storetest.Start.Add(47 * time.Hour))
			require.True(t, s.admit(s.TicketIDs(t, p)[0]))
		}},
		"the deadline": {transfer.ReasonDeadline, func(s *shop, _ purchase.Payment, _ uuid.UUID) {
			s.Clock.Set(storetest.Start.Add(47 * time.Hour))
			require.NoError(t, s.Transfers.ExpireDue(t.Context()))
		}},
		"the end of the event": {transfer.ReasonEventCancelled, func(s *shop, _ purchase.Payment, _ uuid.UUID) {
			require.NoError(t, s.EventStore.Act(t.Context(), "e", event.Cancel, 0))
			require.NoError(t, s.Walker.Walk(t.Context()))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openShop(t)
			p, ids := s.buy("a", "A-1-1")
			offered, claim := s.offer("a", ids[0], 70)
			payment := uuid.New()
			if c.reason != transfer.ReasonDeadline {
				_, err := s.accept("b", claim)
				require.NoError(t, err)
				_, err = s.Transfers.BeginPayment(t.Context(), "b", offered.ID, payment, purchase.PayTime{Within: 12 * time.Minute, Opens: true})
				require.NoError(t, err)
			}
			c.end(s, p, offered.ID)
			ended, err := s.TransferStore.Find(t.Context(), offered.ID)
			require.NoError(t, err)
			require.Equal(t, c.reason, ended.Reason)
			_, err = s.accept("b", claim)
			require.ErrorIs(t, err, transfer.ErrEnded)
			if c.reason != transfer.ReasonDeadline {
				_, err = s.charge(offered, "b")
				require.ErrorIs(t, err, purchase.ErrNotPayable)
				require.EqualValues(t, 1, s.Count(t, `SELECT count(*) FROM outbox
					WHERE type = 'TRANSFER_CANCELLED' AND payload::json->>'paymentId' = $1 AND payload::json->>'reason' = $2`, payment.String(), c.reason))
			}
			s.RequireInvariants(t)
		})
	}
}

// Payments that do not match their transfer change nothing. The right one is settled nevertheless.
func TestTransferPaymentsThatWereNotBegun(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*settlement.PaymentEvent){
		"another amount":    func(e *settlement.PaymentEvent) { e.Payment.Amount-- },
		"another currency":  func(e *settlement.PaymentEvent) { e.Payment.Currency = "USD" },
		"another buyer":     func(e *settlement.PaymentEvent) { e.Payment.UserID = "c" },
		"no such transfer":  func(e *settlement.PaymentEvent) { e.ReferenceID = uuid.New() },
		"another's payment": func(e *settlement.PaymentEvent) { e.Payment.ID = uuid.New() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openShop(t)
			_, ids := s.buy("a", "A-1-1")
			offered, claim := s.offer("a", ids[0], 70)
			_, err := s.accept("b", claim)
			require.NoError(t, err)
			e, err := s.charge(offered, "b")
			require.NoError(t, err)
			right := e
			change(&e)
			require.ErrorIs(t, s.Settlement.Settle(t.Context(), storetest.Group, []settlement.PaymentEvent{e}), settlement.ErrNotBegun)
			require.Zero(t, s.Count(t, `SELECT count(*) FROM outbox WHERE type = 'TRANSFER_REJECTED'`))
			s.Settle(t, right)
			require.Equal(t, transfer.Completed, s.status(offered.ID))
			s.RequireInvariants(t)
		})
	}
}

// After a cancellation each holder gets back what they paid, less what a buyer has paid them.
func TestCancelledEventPaysEveryHolder(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	_, ids := s.buy("a", "A-1-1", "A-1-2", "A-1-3")
	s.pass("a", "b", ids[0], 50)
	s.pass("a", "b", ids[1], 0)
	offered, claim := s.offer("a", ids[2], 60)
	_, err := s.accept("c", claim)
	require.NoError(t, err)
	e, err := s.charge(offered, "c")
	require.NoError(t, err)
	require.NoError(t, s.EventStore.Act(t.Context(), "e", event.Cancel, 0))
	require.NoError(t, s.Walker.Walk(t.Context()))
	s.Settle(t, e) // the refunds have begun: c gets the money back, and a that of the ticket
	for range 3 {
		s.Clock.Advance(time.Hour)
		require.NoError(t, s.Walker.Walk(t.Context()))
	}
	require.EqualValues(t, 20+70+70, s.Count(t, `SELECT sum(i.amount) FROM refund_claims c, unnest(c.amounts) AS i (amount), tickets k
		WHERE k.ticket_id = c.ticket_ids[1] AND k.user_id = 'a'`))
	require.EqualValues(t, 50, s.Count(t, `SELECT sum(i.amount) FROM refund_claims c, unnest(c.amounts) AS i (amount), tickets k
		WHERE k.ticket_id = c.ticket_ids[1] AND k.user_id = 'b'`))
	require.EqualValues(t, 1, s.Count(t, `SELECT count(*) FROM outbox WHERE type = 'TRANSFER_REJECTED'`))
	s.RequireInvariants(t)
}
