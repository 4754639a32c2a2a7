package rpc_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	tossfake "urr.guru/services/payment/fakes/toss"
	"urr.guru/services/payment/internal/payment"
)

// A refund of a part of such a payment is refused with a reason of its own, before any money moves.
func TestOnlyTheWholeIsRefunded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.paid(30000, 25000)
	b.tickets.OnlyWhole(55000)
	_, err := b.service.AskRefund(t.Context(), payment.RefundRequest{
		PaymentID: uuid.MustParse(p.GetPaymentId()), Cause: payment.ByUser, IdempotencyKey: "k",
		Scope: payment.RefundScope{UserID: user, TicketIDs: []uuid.UUID{uuid.MustParse(b.tickets.Of(p.GetPaymentId())[0].ID)}},
	})
	require.ErrorIs(t, err, errs.ErrOnlyWholeOrder)
	require.Empty(t, b.provider.RefundsOf(p.GetOrderId()))
	b.ask(p, payment.ByOperator, "k2")
	b.untilRefund(p, "OPERATOR", "DONE")
	require.EqualValues(t, 55000, b.get(p).GetRefundedAmount())
}

// The event of a charge says whether the provider can give parts of it back.
func TestConfirmationSaysWhetherPartsCanBeRefunded(t *testing.T) {
	t.Parallel()
	for _, whole := range []bool{true, false} {
		s := setupToss(t, tossfake.Rules{WholeOnly: whole})
		p, _ := s.returned()
		s.becomes(p, "CONFIRMED")
		require.Equal(t, !whole, *s.events(p)[0].PartialRefunds)
	}
	s := setupStripe(t)
	require.True(t, *s.events(s.charged())[0].PartialRefunds)
	b := setup(t)
	p, _ := b.confirmed()
	require.True(t, *b.events(p)[0].PartialRefunds)
}
