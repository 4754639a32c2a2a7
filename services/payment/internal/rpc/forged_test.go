package rpc_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/internal/payment"
)

func (b *bundle) requireNoRefunds(p *paymentv1.PrepareResponse) {
	b.t.Helper()
	for range 3 {
		b.sweep(time.Minute)
	}
	require.Zero(b.t, b.count(`SELECT count(*) FROM refunds WHERE payment_id = $1`, uuid.MustParse(p.GetPaymentId())))
	require.Zero(b.t, b.provider.Order(p.GetOrderId()).RefundedAmount)
	require.Equal(b.t, "CONFIRMED", b.get(p).GetStatus())
}

// payout returns what the sale of a ticket of the seller's payment makes, to a buyer with a payment.
func (b *bundle) payout(seller *paymentv1.PrepareResponse, amount int64) payment.Payout {
	b.t.Helper()
	buyer, _ := b.paid(half, half)
	return payment.Payout{
		EventKey: uuid.NewString(), TransferID: uuid.New(), PaymentID: uuid.MustParse(seller.GetPaymentId()),
		BuyerPaymentID: uuid.MustParse(buyer.GetPaymentId()), Item: payment.RefundItem{TicketID: uuid.MustParse(b.ticketID(seller, 0)), Amount: amount},
	}
}

// Whoever can write records cannot give a payment back that ticket has not rejected: its tickets are
// valid, or will be.
func TestForgedRejections(t *testing.T) {
	t.Parallel()
	b := setup(t)
	settled, _ := b.paid(half, half)
	underWay, _ := b.confirmed()
	for _, p := range []*paymentv1.PrepareResponse{settled, underWay} {
		r := payment.Rejection{EventKey: "forged" + p.GetPaymentId(), PaymentID: uuid.MustParse(p.GetPaymentId()), Reason: "HOLD_EXPIRED"}
		require.ErrorIs(t, b.service.Compensate(t.Context(), r), payment.ErrNotOwed)
		b.requireNoRefunds(p)
	}
	b.reject(underWay, "genuine")
	b.untilRefund(underWay, "COMPENSATION", "DONE")
	b.reject(underWay, "genuine again")
}

// While ticket does not answer, nothing is known: the rejection is not processed, and is tried again.
func TestRejectionsWaitForTicket(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.confirmed()
	b.tickets.Reject(p.GetPaymentId())
	b.tickets.Fail("Settled", errs.ErrUnavailable, errs.ErrUnavailable, errs.ErrUnavailable, errs.ErrUnavailable, errs.ErrUnavailable)
	r := payment.Rejection{EventKey: "e", PaymentID: uuid.MustParse(p.GetPaymentId()), Reason: "HOLD_EXPIRED"}
	err := b.service.Compensate(t.Context(), r)
	require.ErrorIs(t, err, errs.ErrUnavailable)
	require.NotErrorIs(t, err, payment.ErrNotOwed)
	b.requireNoRefunds(p)
	b.tickets.Fail("Settled")
	require.NoError(t, b.service.Compensate(t.Context(), r))
	b.untilRefund(p, "COMPENSATION", "DONE")
}

// A seller gets what ticket has promised for a sold ticket, and nothing that only a record says.
func TestForgedPayouts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	seller, _ := b.paid(half, half)
	for _, amount := range []int64{999999999, amount, 1} {
		require.ErrorIs(t, b.service.PayOut(t.Context(), b.payout(seller, amount)), payment.ErrNotOwed)
		require.ErrorIs(t, b.service.RefundPromised(t.Context(), payment.PromisedRefund{
			EventKey: uuid.NewString(), ClaimID: uuid.New(), PaymentID: uuid.MustParse(seller.GetPaymentId()), Cause: payment.EventCancelled,
			Items: []payment.RefundItem{{TicketID: uuid.MustParse(b.ticketID(seller, 0)), Amount: amount}},
		}), payment.ErrNotOwed)
	}
	b.requireNoRefunds(seller)
	unsettled, _ := b.confirmed()
	stray := b.payout(seller, 1)
	stray.PaymentID = uuid.MustParse(unsettled.GetPaymentId())
	require.ErrorIs(t, b.service.PayOut(t.Context(), stray), payment.ErrNotOwed)
	b.requireNoRefunds(unsettled)

	b.tickets.Promise(seller.GetPaymentId(), 0, 20000)
	sale := b.payout(seller, 20000)
	require.NoError(t, b.service.PayOut(t.Context(), sale))
	sale.EventKey = "again"
	require.NoError(t, b.service.PayOut(t.Context(), sale), "the record comes again")
	sale.EventKey, sale.Item.Amount = "forged", 20001
	require.ErrorIs(t, b.service.PayOut(t.Context(), sale), payment.ErrNotOwed, "the same sale at another price")
	b.untilRefund(seller, "TRANSFER", "DONE")
	require.ErrorIs(t, b.service.PayOut(t.Context(), b.payout(seller, 20000)), payment.ErrNotOwed, "another sale of the same ticket")
	b.requireBalanced(seller)
}
