package rpc_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/errs"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/rpc/paymenttest"
)

// half is the price of each of two tickets.
const half = amount / 2

// paidInPart pays for two tickets of the same price, of which a person then gives one back at the
// provider.
func (b *bundle) paidInPart() *paymentv1.PrepareResponse {
	b.t.Helper()
	p, _ := b.paid(half, half)
	b.giveByHand(p, half)
	return p
}

// giveByHand refunds a part of a payment at the provider, and waits until that is recorded.
func (b *bundle) giveByHand(p *paymentv1.PrepareResponse, part int64) {
	b.t.Helper()
	b.provider.RefundManually(p.GetOrderId(), part)
	require.NoError(b.t, b.webhook("charge.refunded", p.GetOrderId()))
	b.untilRefund(p, "BY_HAND", "DONE")
}

// assign says for which tickets, given by index, money by hand was.
func (b *bundle) assign(p *paymentv1.PrepareResponse, key string, tickets ...int) (*paymentv1.Refund, error) {
	in := &paymentv1.AssignByHandRequest{Caller: operator(key), PaymentId: p.GetPaymentId()}
	for _, i := range tickets {
		in.TicketIds = append(in.TicketIds, b.ticketID(p, i))
	}
	return b.operators.AssignByHand(b.t.Context(), in)
}

func (b *bundle) callGoodwill(p *paymentv1.PrepareResponse, key string, n int64) (*paymentv1.Refund, error) {
	return b.operators.AssignByHand(b.t.Context(), &paymentv1.AssignByHandRequest{
		Caller: operator(key), PaymentId: p.GetPaymentId(), Goodwill: proto.Int64(n), Note: "late doors",
	})
}

// resolve ends the held refund with a cause as paid by hand.
func (b *bundle) resolve(p *paymentv1.PrepareResponse, cause string) (*paymentv1.Refund, error) {
	return b.operators.ResolveRefund(b.t.Context(), &paymentv1.ResolveRefundRequest{
		Caller: operator(""), RefundId: b.refund(p, cause).id, PaidOtherwise: proto.Bool(false), Note: "the hotline gave it back",
	})
}

// detail returns the payment as operators see it.
func (b *bundle) detail(p *paymentv1.PrepareResponse) *paymentv1.PaymentDetail {
	b.t.Helper()
	found, err := b.admins.FindPayments(b.t.Context(), &paymentv1.FindPaymentsRequest{
		Caller: operator(""), By: &paymentv1.FindPaymentsRequest_OrderId{OrderId: p.GetOrderId()},
	})
	require.NoError(b.t, err)
	return found.GetPayments()[0]
}

// requireByHand requires how the money by hand of a payment is divided, and that its payer does not
// see more refunds than were made.
func (b *bundle) requireByHand(p *paymentv1.PrepareResponse, used, goodwill, unassigned int64) {
	b.t.Helper()
	d := b.detail(p)
	require.Equal(b.t, []int64{used, goodwill, unassigned}, []int64{d.GetByHandUsed(), d.GetGoodwill(), d.GetUnassigned()}, "used, goodwill, unassigned")
	require.Equal(b.t, d.GetByHand(), used+goodwill+unassigned)
	shown, made := b.get(p), int64(0)
	for _, r := range shown.GetRefunds() {
		if r.GetStatus() == "DONE" {
			made += r.GetAmount()
		}
	}
	require.Equal(b.t, shown.GetRefundedAmount(), made)
}

// apply delivers a payment's events to the ticket service.
func (b *bundle) apply(p *paymentv1.PrepareResponse) {
	b.t.Helper()
	for _, e := range b.events(p) {
		require.Empty(b.t, b.tickets.Apply(e))
	}
}

// The hotline has given one of two tickets back at the provider. Whoever then asks for a refund of
// it is not paid a second time: an operator says first what the money was for.
func TestTicketGivenBackByHandIsNotPaidTwice(t *testing.T) {
	t.Parallel()
	for _, cause := range []string{"USER", "OPERATOR"} {
		t.Run(cause, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.paidInPart()
			b.ask(p, payment.Cause(cause), "k", 0)
			held := b.untilRefund(p, cause, "HELD")
			require.Equal(t, "BY_HAND", held.reason)
			require.False(t, held.published)
			require.Equal(t, half, b.provider.Order(p.GetOrderId()).RefundedAmount, "only by hand")
			require.Equal(t, "REFUNDING", b.tickets.Of(p.GetPaymentId())[0].Status, "nobody else gets it meanwhile")
			b.requireBalanced(p)

			r, err := b.resolve(p, cause)
			require.NoError(t, err)
			require.Equal(t, "DONE", r.GetStatus())
			b.sweep(time.Minute)
			b.apply(p)
			require.Equal(t, "REFUNDED", b.tickets.Of(p.GetPaymentId())[0].Status)
			require.Equal(t, half, b.provider.Order(p.GetOrderId()).RefundedAmount)
			require.Zero(t, b.provider.Calls(paymenttest.Refunds))
			fee := half - r.GetItems()[0].GetAmount()
			b.requireByHand(p, half-fee, 0, fee)
			b.requireBalanced(p)
		})
	}
}

// An operator says that the money was for a ticket: the ticket ends, no money moves, and what is
// left can be refunded as ever.
func TestMoneyByHandForATicket(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.paidInPart()
	b.tickets.Use(p.GetPaymentId(), 0)
	r, err := b.assign(p, "k", 0)
	require.NoError(t, err)
	require.Equal(t, "DONE", r.GetStatus())
	require.Zero(t, r.GetAmount(), "the refund by hand has it")
	require.Equal(t, half, r.GetItems()[0].GetAmount())
	again, err := b.assign(p, "k", 0)
	require.NoError(t, err)
	require.True(t, proto.Equal(r, again), "a repeated request: %v", again)
	_, err = b.assign(p, "k", 1)
	require.ErrorIs(t, err, errs.ErrIdempotencyKeyReused)
	_, err = b.assign(p, "k2", 1)
	require.ErrorIs(t, err, errs.ErrNothingByHand)
	require.Equal(t, "0", errs.From(err).Metadata["unassigned"])
	b.requireByHand(p, half, 0, 0)
	b.requireBalanced(p)

	events := b.events(p)
	last := events[len(events)-1]
	require.Equal(t, []string{"PAYMENT_REFUNDED", "BY_HAND", r.GetRefundId()}, []string{last.GetType(), last.GetCause(), last.GetRefundId()})
	require.Zero(t, last.GetAmount(), "the figures have counted it")
	require.Len(t, last.GetItems(), 1)
	b.apply(p)
	require.Equal(t, "REFUNDED", b.tickets.Of(p.GetPaymentId())[0].Status)
	_, err = b.refundBy(user, p, "again", b.ticketID(p, 0))
	require.ErrorIs(t, err, errs.ErrNotRefundable)

	b.ask(p, payment.ByUser, "other", 1)
	b.untilRefund(p, "USER", "DONE")
	require.Equal(t, amount-1000, b.provider.Order(p.GetOrderId()).RefundedAmount, "the fee of the other one stays")
	b.requireBalanced(p)
	code, out := b.reconcile()
	require.Zero(t, code, out)
}

// Money by hand is divided among the named tickets, at most what was paid for them. What is left
// counts for nothing, and can be assigned later: also to a ticket whose fee the shop has kept.
func TestMoneyByHandIsDivided(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.paid(20000, 25000, 10000)
	b.ask(p, payment.ByUser, "user", 2)
	b.untilRefund(p, "USER", "DONE")
	b.apply(p)
	b.giveByHand(p, 45500)
	r, err := b.assign(p, "k1", 0)
	require.NoError(t, err)
	require.EqualValues(t, 20000, r.GetItems()[0].GetAmount())
	b.requireByHand(p, 20000, 0, 25500)
	r, err = b.assign(p, "k2", 1, 2)
	require.NoError(t, err)
	var sum int64
	for _, item := range r.GetItems() {
		sum += item.GetAmount()
	}
	require.EqualValues(t, 25500, sum, "more was not given by hand")
	b.requireByHand(p, 45500, 0, 0)
	b.requireBalanced(p)
	b.apply(p)
	for _, x := range b.tickets.Of(p.GetPaymentId()) {
		require.Equal(t, "REFUNDED", x.Status)
		require.LessOrEqual(t, x.Given, x.Paid)
	}
}

// If the ticket service refuses, the money counts for nothing again.
func TestRefusedAssignmentOfMoneyByHand(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.paidInPart()
	unknown := uuid.NewString()
	for range 2 {
		_, err := b.operators.AssignByHand(t.Context(), &paymentv1.AssignByHandRequest{
			Caller: operator("k"), PaymentId: p.GetPaymentId(), TicketIds: []string{b.ticketID(p, 0), unknown},
		})
		require.ErrorIs(t, err, errs.ErrNotRefundable)
		require.Equal(t, unknown, errs.From(err).Metadata["ticketIds"])
		require.Equal(t, "NOT_YOURS", errs.From(err).Metadata["ticketReasons"])
	}
	_, err := b.assign(p, "both", 0, 1)
	require.Equal(t, "NOT_COVERED", errs.From(err).Metadata["ticketReasons"], "it would end for nothing")
	b.requireByHand(p, 0, 0, half)
	b.requireBalanced(p)
	require.Equal(t, "VALID", b.tickets.Of(p.GetPaymentId())[0].Status)
	require.Len(t, b.get(p).GetRefunds(), 1, "payers do not see what operators tried")

	membership, id := b.joined()
	b.giveByHand(membership, 1000)
	_, err = b.operators.AssignByHand(t.Context(), &paymentv1.AssignByHandRequest{
		Caller: operator("k"), PaymentId: membership.GetPaymentId(), TicketIds: []string{unknown},
	})
	require.ErrorIs(t, err, errs.ErrNotRefundable, "it has no tickets")
	_, err = b.refundMembership(id, "k")
	require.NoError(t, err)
	b.untilRefund(membership, "OPERATOR", "DONE") // the provider has less than its price
	require.Equal(t, amount, b.provider.Order(membership.GetOrderId()).RefundedAmount)
	b.requireBalanced(membership)
}

func TestRequestsToAssignMoneyByHandAreChecked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.paidInPart()
	id := []string{b.ticketID(p, 0)}
	for name, in := range map[string]*paymentv1.AssignByHandRequest{
		"neither":       {},
		"both":          {TicketIds: id, Goodwill: proto.Int64(1), Note: "both"},
		"without note":  {Goodwill: proto.Int64(1)},
		"nothing":       {Goodwill: proto.Int64(0), Note: "nothing"},
		"a ticket more": {TicketIds: append(id, id...)},
	} {
		in.Caller, in.PaymentId = operator("k"), p.GetPaymentId()
		_, err := b.operators.AssignByHand(t.Context(), in)
		require.ErrorIs(t, err, errs.ErrInvalidRequest, name)
	}
	_, err := b.operators.AssignByHand(t.Context(), &paymentv1.AssignByHandRequest{Caller: caller(user, "k"), PaymentId: p.GetPaymentId(), TicketIds: id})
	require.ErrorIs(t, err, errs.ErrRoleRequired)
	_, err = b.assign(p, "", 0)
	require.ErrorIs(t, err, errs.ErrIdempotencyKeyRequired)
	_, err = b.operators.AssignByHand(t.Context(), &paymentv1.AssignByHandRequest{Caller: operator("k"), PaymentId: uuid.NewString(), TicketIds: id})
	require.ErrorIs(t, err, errs.ErrPaymentNotFound)
	for name, in := range map[string]*paymentv1.AssignByHandRequest{
		"tickets":  {TicketIds: id},
		"goodwill": {Goodwill: proto.Int64(half), Note: "late doors"},
	} {
		in.Caller, in.PaymentId, in.Unassigned = operator(name), p.GetPaymentId(), proto.Int64(half+1)
		_, err = b.operators.AssignByHand(t.Context(), in)
		require.ErrorIs(t, err, errs.ErrNothingByHand, name)
		b.requireByHand(p, 0, 0, half)
	}
	_, err = b.operators.AssignByHand(t.Context(), &paymentv1.AssignByHandRequest{
		Caller: operator("as shown"), PaymentId: p.GetPaymentId(), TicketIds: id, Unassigned: proto.Int64(half),
	})
	require.NoError(t, err)
	b.requireByHand(p, half, 0, 0)
}

// Goodwill counts for no refund, until the provider finds a refund too large.
func TestGoodwill(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.paid(half, half)
	b.giveByHand(p, 3000)
	_, err := b.callGoodwill(p, "k0", 3001)
	require.ErrorIs(t, err, errs.ErrNothingByHand)
	require.Equal(t, "3000", errs.From(err).Metadata["unassigned"])
	for range 2 {
		r, err := b.callGoodwill(p, "k1", 1000)
		require.NoError(t, err)
		require.Equal(t, "DONE", r.GetStatus())
		require.EqualValues(t, 1000, r.GetAmount())
	}
	_, err = b.callGoodwill(p, "k1", 2000)
	require.ErrorIs(t, err, errs.ErrIdempotencyKeyReused)
	b.requireByHand(p, 0, 1000, 2000)
	_, err = b.callGoodwill(p, "k2", 2000)
	require.NoError(t, err)
	b.requireByHand(p, 0, 3000, 0)
	b.requireBalanced(p)
	require.Len(t, b.get(p).GetRefunds(), 1, "its payer sees the refund by hand")
	require.Equal(t, "late doors", b.detail(p).GetRefunds()[1].GetReason())
	require.Equal(t, []string{"PAYMENT_CONFIRMED", "PAYMENT_REFUNDED"}, b.eventTypes(p))

	b.ask(p, payment.ByUser, "one", 0)
	b.untilRefund(p, "USER", "DONE")
	b.requireByHand(p, 0, 3000, 0)
	b.ask(p, payment.ByOperator, "all", 1)
	b.untilRefund(p, "OPERATOR", "DONE")
	require.Equal(t, amount, b.provider.Order(p.GetOrderId()).RefundedAmount)
	b.requireByHand(p, 2000, 1000, 0) // 1000 is the fee of the first ticket
	b.requireBalanced(p)
	code, out := b.reconcile()
	require.Zero(t, code, out)
}
