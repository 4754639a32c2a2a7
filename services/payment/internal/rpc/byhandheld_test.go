package rpc_test

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/testkit"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/rpc/paymenttest"
)

// An operator who has a refund sent that was held for money by hand calls that money goodwill.
func TestRetryOfARefundHeldForMoneyByHand(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.paidInPart()
	b.ask(p, payment.ByUser, "k", 1)
	held := b.untilRefund(p, "USER", "HELD")
	retry := func(shown int64) error {
		_, err := b.operators.RetryRefund(t.Context(), &paymentv1.RetryRefundRequest{
			Caller: operator(""), RefundId: held.id, Unassigned: proto.Int64(shown),
		})
		return err
	}
	err := retry(half - 1) // what the operator saw before more was given back
	require.ErrorIs(t, err, errs.ErrNothingByHand)
	require.Equal(t, strconv.FormatInt(half, 10), errs.From(err).Metadata["unassigned"])
	b.requireByHand(p, 0, 0, half)
	require.NoError(t, retry(half))
	require.Empty(t, b.untilRefund(p, "USER", "DONE").reason)
	require.Equal(t, amount-1000, b.provider.Order(p.GetOrderId()).RefundedAmount)
	b.requireByHand(p, 0, half, 0)
	b.requireBalanced(p)
}

// If money by hand covers only a part of a held refund, the rest is sent. What the provider cannot
// give back any more is covered without a person.
func TestHeldRefundIsPaidByHandInPart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.paidInPart()
	b.ask(p, payment.ByUser, "k")
	held := b.untilRefund(p, "USER", "HELD")
	require.Equal(t, half, held.send, "the provider has no more")
	b.requireByHand(p, half-2000, 0, 2000)
	_, err := b.resolve(p, "USER")
	require.NoError(t, err)
	done := b.untilRefund(p, "USER", "DONE")
	require.Equal(t, half-2000, done.send)
	require.Equal(t, amount-2000, b.provider.Order(p.GetOrderId()).RefundedAmount)
	b.requireByHand(p, half, 0, 0)
	b.requireBalanced(p)
	require.Equal(t, []string{"PAYMENT_CONFIRMED", "PAYMENT_REFUNDED", "PAYMENT_REFUNDED"}, b.eventTypes(p))
	b.apply(p)

	other := b.paidInPart()
	b.ask(other, payment.ByOperator, "k")
	b.untilRefund(other, "OPERATOR", "DONE")
	require.Equal(t, amount, b.provider.Order(other.GetOrderId()).RefundedAmount)
	b.requireByHand(other, half, 0, 0)
	b.requireBalanced(other)
}

// A refund of a call without an answer is looked for before it is held: one that was made is found,
// and one that was not made is not made any more.
func TestRefundInDoubtWhenMoneyByHandComes(t *testing.T) {
	t.Parallel()
	for name, wasMade := range map[string]bool{"made": true, "not made": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p, _ := b.paid(half, half)
			if wasMade {
				b.provider.Lose(paymenttest.Refunds, 1)
			} else {
				b.provider.Delay(paymenttest.Refunds, 1)
			}
			b.ask(p, payment.ByUser, "k", 1)
			b.sweep(0)
			require.Equal(t, "PENDING", b.refund(p, "USER").status)
			const byHand = 20000
			b.provider.RefundManually(p.GetOrderId(), byHand)
			require.NoError(t, b.webhook("charge.refunded", p.GetOrderId()))
			if wasMade {
				b.untilRefund(p, "USER", "DONE")
				require.Equal(t, byHand+half-1000, b.provider.Order(p.GetOrderId()).RefundedAmount)
			} else {
				b.untilRefund(p, "BY_HAND", "DONE")
				require.Equal(t, "PENDING", b.refund(p, "USER").status, "the call may still arrive")
				b.untilRefund(p, "USER", "HELD")
				require.EqualValues(t, byHand, b.provider.Order(p.GetOrderId()).RefundedAmount)
			}
			require.Equal(t, 1, b.provider.Calls(paymenttest.Refunds))
			b.requireBalanced(p)
		})
	}
}

// While the ticket service has still to say for which tickets money by hand was, no refund is sent:
// if it refuses, that money may have been for the same tickets.
func TestRefundWaitsForAnAssignment(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]bool{"refused": true, "accepted": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.paidInPart()
			asked, err := b.refundBy(user, p, "k", b.ticketID(p, 1))
			require.NoError(t, err)
			require.Equal(t, "PENDING", asked.GetStatus())
			assigned := 0
			if refused {
				assigned = 1
			}
			b.tickets.Fail("BeginRefund", errs.ErrUnavailable, errs.ErrUnavailable)
			r, err := b.assign(p, "op", assigned)
			require.NoError(t, err)
			require.Equal(t, "REQUESTED", r.GetStatus())
			require.Len(t, b.get(p).GetRefunds(), 2, "what operators say is not the payer's")
			b.requireByHand(p, half, 0, 0)
			b.sweep(0)
			require.Equal(t, "PENDING", b.refund(p, "USER").status)
			require.Zero(t, b.provider.Calls(paymenttest.Refunds))
			if refused {
				b.untilRefund(p, "USER", "HELD")
				require.Zero(t, b.provider.Calls(paymenttest.Refunds))
				b.requireByHand(p, 0, 0, half)
			} else {
				b.untilRefund(p, "USER", "DONE")
				b.requireByHand(p, half, 0, 0)
			}
			b.requireBalanced(p)
		})
	}
}

// All is given back by hand, and the ticket service is slow. What an operator has assigned before
// counts once, and meanwhile nothing more is unassigned.
func TestAssignmentBesideARefundOfAll(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"the operator", "the provider"} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p, _ := b.paid(half, half)
			if first == "the operator" {
				b.giveByHand(p, half)
			}
			b.tickets.Fail("BeginRefund", errs.ErrUnavailable)
			if first == "the operator" {
				r, err := b.assign(p, "before", 0)
				require.NoError(t, err)
				require.Equal(t, "REQUESTED", r.GetStatus())
				b.exec(`UPDATE refunds SET due_at = due_at + interval '1 minute' WHERE status = 'REQUESTED'`)
			}
			b.provider.RefundManually(p.GetOrderId(), amount-b.provider.Order(p.GetOrderId()).RefundedAmount)
			require.NoError(t, b.webhook("charge.refunded", p.GetOrderId()))
			b.sweep(5 * time.Second)
			require.Equal(t, amount, b.detail(p).GetByHand())
			for _, ticket := range b.tickets.Of(p.GetPaymentId()) {
				require.Equal(t, "VALID", ticket.Status, "what was assigned before comes first")
			}
			_, err := b.assign(p, "meanwhile", 0)
			require.ErrorIs(t, err, errs.ErrNothingByHand)
			testkit.Until(t, func() bool {
				b.sweep(time.Minute)
				return b.detail(p).GetByHandUsed() == amount && b.detail(p).GetStatus() == "REFUNDED"
			}, "all tickets have ended")
			b.apply(p)
			for _, ticket := range b.tickets.Of(p.GetPaymentId()) {
				require.Equal(t, "REFUNDED", ticket.Status)
			}
			b.requireByHand(p, amount, 0, 0)
			b.requireBalanced(p)
		})
	}
}

// A payer's own words are no mark of ours: the seller of a ticket is paid although its buyer gave
// another one back because of a "DISPUTE_LOST".
func TestPayersWordsHoldNoPayout(t *testing.T) {
	t.Parallel()
	b := setup(t)
	seller, _ := b.paid(half, half)
	buyer, _ := b.paid(half, half)
	_, err := b.refunds.RefundPayment(t.Context(), &paymentv1.RefundPaymentRequest{
		Caller: caller(user, "k"), PaymentId: buyer.GetPaymentId(), TicketIds: []string{b.ticketID(buyer, 0)}, Reason: "DISPUTE_LOST",
	})
	require.NoError(t, err)
	b.untilRefund(buyer, "USER", "DONE")
	b.tickets.Promise(seller.GetPaymentId(), 1, 20000)
	require.NoError(t, b.service.PayOut(t.Context(), payment.Payout{
		EventKey: "sold", TransferID: uuid.New(), PaymentID: uuid.MustParse(seller.GetPaymentId()), BuyerPaymentID: uuid.MustParse(buyer.GetPaymentId()),
		Item: payment.RefundItem{TicketID: uuid.MustParse(b.ticketID(seller, 1)), Amount: 20000},
	}))
	b.untilRefund(seller, "TRANSFER", "DONE")
}

// A seller's money is held too. What the shop owes without a request is not.
func TestWhichRefundsWaitForMoneyByHand(t *testing.T) {
	t.Parallel()
	b := setup(t)
	seller := b.paidInPart()
	b.tickets.Promise(seller.GetPaymentId(), 1, 20000)
	require.NoError(t, b.service.PayOut(t.Context(), payment.Payout{
		EventKey: "sold", TransferID: uuid.New(), PaymentID: uuid.MustParse(seller.GetPaymentId()), BuyerPaymentID: uuid.MustParse(b.paidInPart().GetPaymentId()),
		Item: payment.RefundItem{TicketID: uuid.MustParse(b.ticketID(seller, 1)), Amount: 20000},
	}))
	require.Equal(t, "BY_HAND", b.untilRefund(seller, "TRANSFER", "HELD").reason)

	cancelled := b.paidInPart()
	b.promise(cancelled, "cancelled")
	b.untilRefund(cancelled, "EVENT_CANCELLED", "DONE")
	rejected, _ := b.confirmed()
	b.giveByHand(rejected, half)
	b.reject(rejected, "rejected")
	b.untilRefund(rejected, "COMPENSATION", "DONE")
	for _, p := range []*paymentv1.PrepareResponse{cancelled, rejected} {
		require.Equal(t, amount, b.provider.Order(p.GetOrderId()).RefundedAmount)
		b.requireByHand(p, half, 0, 0)
		b.requireBalanced(p)
	}
}

// byHandAct is an act that wants money by hand of a payment.
type byHandAct func(b *bundle, p *paymentv1.PrepareResponse) error

// Operators, and a refund that the provider finds too large, want the same money by hand at once.
// It is used once, and all sums agree.
func TestRacesForMoneyByHand(t *testing.T) {
	t.Parallel()
	assign := func(i int) byHandAct {
		return func(b *bundle, p *paymentv1.PrepareResponse) error {
			_, err := b.assign(p, fmt.Sprint("k", i), i)
			return err
		}
	}
	for name, acts := range map[string][]byHandAct{
		"two assignments": {assign(0), assign(1)},
		"goodwill": {assign(0), func(b *bundle, p *paymentv1.PrepareResponse) error {
			_, err := b.callGoodwill(p, "k", half)
			return err
		}},
		"held and too large": {assign(0), func(b *bundle, p *paymentv1.PrepareResponse) error {
			_, err := b.resolve(p, "USER")
			return err
		}, func(b *bundle, p *paymentv1.PrepareResponse) error {
			b.promise(p, p.GetOrderId())
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			for range raceRuns {
				p := b.paidInPart()
				if len(acts) == 3 {
					b.provider.RefundManually(p.GetOrderId(), 12500)
					require.NoError(t, b.webhook("charge.refunded", p.GetOrderId()))
					b.sweep(5 * time.Second)
					b.ask(p, payment.ByUser, "k", 1)
					require.EqualValues(t, 15000, b.untilRefund(p, "USER", "HELD").send, "the provider has no more")
				}
				refusals := b.atOnce(p, acts)
				if len(acts) == 2 {
					require.Len(t, refusals, 1, "the first one got all of it")
				}
				for range 5 {
					b.sweep(time.Second)
				}
				d := b.detail(p)
				require.LessOrEqual(t, d.GetByHandUsed()+d.GetGoodwill(), d.GetByHand())
				b.requireBalanced(p)
			}
		})
	}
}

// atOnce does acts at once, beside the sweeper, and returns the refusals.
func (b *bundle) atOnce(p *paymentv1.PrepareResponse, acts []byHandAct) (refusals []error) {
	b.t.Helper()
	var all sync.WaitGroup
	results := make([]error, len(acts))
	for i, act := range acts {
		all.Go(func() { results[i] = act(b, p) })
	}
	all.Go(func() { b.service.SweepOnce(b.t.Context()) })
	all.Wait()
	for _, err := range results {
		if err == nil {
			continue
		}
		refusals = append(refusals, err)
		if !errors.Is(err, errs.ErrNothingByHand) && !errors.Is(err, errs.ErrRefundNotPaid) && !errors.Is(err, errs.ErrNotRefundable) {
			b.t.Error(err)
		}
	}
	return refusals
}
