package rpc_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/faults"
	"urr.guru/pkg/idempotency"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/rpc/paymenttest"
	"urr.guru/services/payment/sandbox"
)

// paid pays for a new hold, and issues a ticket for each price.
func (b *bundle) paid(prices ...int64) (*paymentv1.PrepareResponse, string) {
	b.t.Helper()
	p, ref := b.confirmed()
	b.issue(p, prices...)
	return p, ref
}

// issue issues a ticket for each price, the fee of 1,000 included.
func (b *bundle) issue(p *paymentv1.PrepareResponse, prices ...int64) {
	b.t.Helper()
	tickets := make([]paymenttest.Ticket, len(prices))
	for i, price := range prices {
		tickets[i] = paymenttest.Ticket{ID: uuid.NewString(), Paid: price, Fee: 1000}
	}
	b.tickets.Issue(p.GetPaymentId(), tickets...)
}

// ask requests a refund of tickets of a payment, given by index; without tickets, of all.
func (b *bundle) ask(p *paymentv1.PrepareResponse, cause payment.Cause, key string, tickets ...int) payment.Refund {
	b.t.Helper()
	q := payment.RefundRequest{
		PaymentID: uuid.MustParse(p.GetPaymentId()), Cause: cause, Reason: "asked", Scope: payment.RefundScope{UserID: user}, IdempotencyKey: key,
	}
	for _, i := range tickets {
		q.Scope.TicketIDs = append(q.Scope.TicketIDs, uuid.MustParse(b.tickets.Of(p.GetPaymentId())[i].ID))
	}
	_, r, err := b.service.RequestRefund(b.t.Context(), q)
	require.NoError(b.t, err)
	return r
}

// promise claims all valid tickets for a cancelled event, and delivers the event about it.
func (b *bundle) promise(p *paymentv1.PrepareResponse, eventKey string) uuid.UUID {
	b.t.Helper()
	claim := uuid.New()
	b.deliverPromise(p, eventKey, claim, b.tickets.Walk(p.GetPaymentId(), claim.String()))
	return claim
}

// storedRefund has columns of a row of the table refunds.
type storedRefund struct {
	id, status, reason string
	amount, send       int64
	gen                int
	published          bool
}

// refund returns the only refund of a payment with a cause.
func (b *bundle) refund(p *paymentv1.PrepareResponse, cause string) (r storedRefund) {
	b.t.Helper()
	rows, err := b.pool.Query(b.t.Context(), `SELECT id::text, status, reason, amount, send, gen, published FROM refunds
		WHERE payment_id = $1 AND cause = $2`, uuid.MustParse(p.GetPaymentId()), cause)
	require.NoError(b.t, err)
	n := 0
	for rows.Next() {
		require.NoError(b.t, rows.Scan(&r.id, &r.status, &r.reason, &r.amount, &r.send, &r.gen, &r.published))
		n++
	}
	require.NoError(b.t, rows.Err())
	require.Equal(b.t, 1, n, "refunds of the cause %s", cause)
	return r
}

// untilRefund sweeps once a second until the payment's refund has the status, for at most two
// minutes.
func (b *bundle) untilRefund(p *paymentv1.PrepareResponse, cause, status string) storedRefund {
	b.t.Helper()
	for range 120 {
		b.sweep(time.Second)
		if b.count(`SELECT count(*) FROM refunds WHERE payment_id = $1 AND cause = $2 AND status = $3`,
			uuid.MustParse(p.GetPaymentId()), cause, status) == 1 {
			break
		}
	}
	r := b.refund(p, cause)
	require.Equal(b.t, status, r.status, "reason %s", r.reason)
	return r
}

func (b *bundle) count(sql string, args ...any) (n int64) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), sql, args...).Scan(&n))
	return n
}

// requireBalanced requires that the provider still has the price of the valid tickets and of the
// refunds that are owed, less money given back by hand that no refund uses yet.
func (b *bundle) requireBalanced(p *paymentv1.PrepareResponse) {
	b.t.Helper()
	charge := b.provider.Order(p.GetOrderId())
	b.requireBooks(p, charge.Amount, charge.RefundedAmount)
}

// requireBooks is requireBalanced for a provider that has these amounts.
func (b *bundle) requireBooks(p *paymentv1.PrepareResponse, captured, refunded int64) {
	b.t.Helper()
	var tickets int64
	for _, x := range b.tickets.Of(p.GetPaymentId()) {
		tickets += x.Paid - x.Given
	}
	m := b.tickets.Membership(p.GetPaymentId())
	tickets += m.Paid - m.Given
	owed := b.count(`SELECT coalesce(sum(send), 0)::bigint FROM refunds WHERE payment_id = $1 AND status IN ('PENDING', 'HELD', 'RESOLVED')`,
		uuid.MustParse(p.GetPaymentId()))
	uncounted := b.count(`SELECT hand - hand_used FROM payments WHERE id = $1`, uuid.MustParse(p.GetPaymentId()))
	require.Equal(b.t, captured-refunded, tickets+owed-uncounted,
		"the provider keeps what %d of tickets + %d owed - %d by hand say", tickets, owed, uncounted)
	require.Equal(b.t, refunded, b.count(`SELECT refunded FROM payments WHERE id = $1`, uuid.MustParse(p.GetPaymentId())))
}

// If a user refunds one ticket, the fee is not refunded. The other ticket is refunded later.
func TestRefundByUserOfOneTicket(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.paid(30000, 25000)
	r := b.ask(p, payment.ByUser, "k1", 0)
	require.Equal(t, payment.RefundRequested, r.Status)
	again := b.ask(p, payment.ByUser, "k1", 0)
	require.Equal(t, r.ID, again.ID, "a repeated request")
	_, _, err := b.service.RequestRefund(t.Context(), payment.RefundRequest{
		PaymentID: uuid.MustParse(p.GetPaymentId()), Cause: payment.ByUser, Scope: payment.RefundScope{UserID: user}, IdempotencyKey: "k1",
	})
	require.ErrorIs(t, err, idempotency.ErrReused)
	done := b.untilRefund(p, "USER", "DONE")
	require.EqualValues(t, 29000, done.send)
	require.Equal(t, "CONFIRMED", b.get(p).GetStatus())
	events := b.events(p)
	require.Len(t, events, 2)
	require.Equal(t, "USER", events[1].GetCause())
	require.Equal(t, r.ID.String(), events[1].GetRefundId())
	require.EqualValues(t, 29000, events[1].GetAmount())
	require.Len(t, events[1].GetItems(), 1)
	require.Equal(t, b.tickets.Of(p.GetPaymentId())[0].ID, events[1].GetItems()[0].GetTicketId())
	refunds := b.provider.RefundsOf(p.GetOrderId())
	require.Len(t, refunds, 1)
	require.Equal(t, r.ID.String(), refunds[0].Reference)
	b.requireBalanced(p)

	b.ask(p, payment.ByOperator, "k2")
	b.untilRefund(p, "OPERATOR", "DONE")
	require.EqualValues(t, 54000, b.get(p).GetRefundedAmount(), "the fee of the first stays")
	b.requireBalanced(p)
}

func TestRefundRequestsAreChecked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.paid(amount)
	id := uuid.MustParse(p.GetPaymentId())
	ask := func(id uuid.UUID, userID, key string) error {
		_, _, err := b.service.RequestRefund(t.Context(), payment.RefundRequest{
			PaymentID: id, Cause: payment.ByUser, Scope: payment.RefundScope{UserID: userID}, IdempotencyKey: key,
		})
		return err
	}
	require.ErrorIs(t, ask(id, "bob", "k"), errs.ErrPaymentNotFound, "of another user")
	require.ErrorIs(t, ask(uuid.New(), user, "k"), errs.ErrPaymentNotFound)
	require.ErrorIs(t, ask(id, user, ""), errs.ErrIdempotencyKeyRequired)
	unpaid, _ := b.prepared()
	require.ErrorIs(t, ask(uuid.MustParse(unpaid.GetPaymentId()), user, "k"), payment.ErrNotRefundable)

	early, _ := b.confirmed() // the ticket service does not know it yet
	_, err := b.service.AskRefund(t.Context(), payment.RefundRequest{
		PaymentID: uuid.MustParse(early.GetPaymentId()), Cause: payment.ByUser, Scope: payment.RefundScope{UserID: user}, IdempotencyKey: "k",
	})
	require.ErrorIs(t, err, payment.ErrTicketsPending)
	require.Positive(t, errs.From(err).RetryAfter)
}

// If the ticket service refuses a refund, it ends before any money moves.
func TestTicketRejectsRefund(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.paid(30000, 25000)
	b.ask(p, payment.ByUser, "k1", 0)
	b.untilRefund(p, "USER", "DONE")
	b.tickets.Use(p.GetPaymentId(), 1)
	b.tickets.Fail("BeginRefund", errs.ErrUnavailable)
	b.tickets.Fail("BeginRefundAnswer", errs.ErrUnavailable)
	r := b.ask(p, payment.ByOperator, "k2", 1)
	rejected := b.untilRefund(p, "OPERATOR", "REJECTED")
	require.Contains(t, rejected.reason, "NOT_REFUNDABLE")
	require.Equal(t, "REFUSED", b.tickets.Claim(r.ID.String()))
	require.Len(t, b.provider.RefundsOf(p.GetOrderId()), 1)
	b.requireBalanced(p)
}

// If the provider refuses a user's refund for good, the tickets are valid again.
func TestProviderRefusesRefundByUser(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.paid(30000, 25000)
	b.provider.SetFaults(sandbox.Faults{WholeOnly: true})
	b.tickets.Fail("AbortRefund", errs.ErrUnavailable)
	r := b.ask(p, payment.ByUser, "k1", 0)
	b.untilRefund(p, "USER", "REFUSED")
	for range 5 {
		b.sweep(time.Second)
	}
	require.Equal(t, "ABORTED", b.tickets.Claim(r.ID.String()))
	require.Equal(t, "VALID", b.tickets.Of(p.GetPaymentId())[0].Status)
	require.Zero(t, b.count(`SELECT count(*) FROM refunds WHERE abort_due`))
	require.Equal(t, []string{"PAYMENT_CONFIRMED"}, b.eventTypes(p))
	b.requireBalanced(p)
}

// A compensation that the provider refuses stays owed (HELD) until a person decides.
func TestRefusedCompensationIsHeld(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{true, false} {
		b := setup(t)
		p, _ := b.confirmed()
		b.provider.SetFaults(sandbox.Faults{Refused: 1})
		b.reject(p, "e1")
		held := b.untilRefund(p, "COMPENSATION", "HELD")
		b.sweep(time.Hour)
		require.Equal(t, "HELD", b.refund(p, "COMPENSATION").status)
		b.requireBalanced(p)
		b.provider.SetFaults(sandbox.Faults{})
		id := uuid.MustParse(held.id)
		if again {
			_, err := b.service.RetryRefund(t.Context(), id, nil)
			require.NoError(t, err)
			b.untilRefund(p, "COMPENSATION", "DONE")
			require.Equal(t, "REFUNDED", b.get(p).GetStatus())
		} else {
			_, err := b.service.ResolveRefund(t.Context(), id, false, "bank transfer of 3 May")
			require.NoError(t, err)
			require.Equal(t, "RESOLVED", b.refund(p, "COMPENSATION").status)
		}
		require.Equal(t, []string{"PAYMENT_CONFIRMED", "PAYMENT_REFUNDED"}, b.eventTypes(p))
		_, err := b.service.RetryRefund(t.Context(), id, nil)
		require.ErrorIs(t, err, payment.ErrNotHeld)
		b.requireBalanced(p)
	}
}

// An accepted refund ends its tickets. The provider is asked until it has made the refund.
func TestAcceptedRefundIsAskedFor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.paid(30000, 25000)
	b.provider.SetFaults(sandbox.Faults{Pending: 1, SettleFor: faults.Duration(24 * time.Hour)})
	b.ask(p, payment.ByUser, "k1", 0)
	b.untilRefund(p, "USER", "ACCEPTED")
	require.Equal(t, []string{"PAYMENT_CONFIRMED", "PAYMENT_REFUNDED"}, b.eventTypes(p))
	b.sweep(time.Hour)
	require.Equal(t, "ACCEPTED", b.refund(p, "USER").status)
	require.Equal(t, 1, b.provider.Calls(paymenttest.RefundLists))
	b.provider.SettleRefund(b.provider.RefundsOf(p.GetOrderId())[0].RefundID, sandbox.RefundDone)
	b.sweep(24 * time.Hour)
	require.Equal(t, "DONE", b.refund(p, "USER").status)
	require.Equal(t, []string{"PAYMENT_CONFIRMED", "PAYMENT_REFUNDED"}, b.eventTypes(p), "published once")
	b.requireBalanced(p)
}

// A published refund that fails at the provider days later is HELD. It is never REFUSED, since its
// tickets have ended.
func TestRefundFailsLater(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.paid(amount)
	b.ask(p, payment.ByOperator, "k1")
	b.untilRefund(p, "OPERATOR", "DONE")
	require.Equal(t, "REFUNDED", b.get(p).GetStatus())
	b.clock.Advance(50 * time.Hour)
	b.provider.SettleRefund(b.provider.RefundsOf(p.GetOrderId())[0].RefundID, sandbox.RefundFailed)
	require.NoError(t, b.webhook("refund.failed", p.GetOrderId()))
	b.sweep(0)
	held := b.refund(p, "OPERATOR")
	require.Equal(t, "HELD", held.status)
	require.Equal(t, "FAILED", held.reason)
	require.Equal(t, "CONFIRMED", b.get(p).GetStatus())
	b.requireBalanced(p)

	b.provider.SetFaults(sandbox.Faults{Refused: 1})
	_, err := b.service.RetryRefund(t.Context(), uuid.MustParse(held.id), nil)
	require.NoError(t, err)
	b.untilRefund(p, "OPERATOR", "HELD")
	require.NotEqual(t, "ABORTED", b.tickets.Claim(held.id), "its tickets are gone for good")
	b.provider.SetFaults(sandbox.Faults{})
	_, err = b.service.RetryRefund(t.Context(), uuid.MustParse(held.id), nil)
	require.NoError(t, err)
	b.untilRefund(p, "OPERATOR", "DONE")
	require.Equal(t, []string{"PAYMENT_CONFIRMED", "PAYMENT_REFUNDED"}, b.eventTypes(p))
	b.requireBalanced(p)
}
