package payment

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
)

// Payout is the money that a seller gets for a ticket that was passed on. It is refunded from the
// seller's own payment for the ticket.
type Payout struct {
	// EventKey identifies the Kafka event of the transfer, which is processed once.
	EventKey   string
	TransferID uuid.UUID
	// PaymentID is the seller's payment, BuyerPaymentID the buyer's.
	PaymentID, BuyerPaymentID uuid.UUID
	// Item has the id of the seller's ticket, and the amount to pay out.
	Item RefundItem
}

// PayOut stores the refund that pays a seller, once per transfer. It is sent after
// Options.PayoutAfter, and not while the buyer disputes the charge. PayOut fails with ErrNotFound
// when the seller's payment does not exist, and with ErrNotOwed when the ticket service has not promised
// the amount.
func (s *Service) PayOut(ctx context.Context, p Payout) error {
	n := Refund{
		ID: newID(), Cause: TransferPayout, Request: p.TransferID.String(), Reason: string(TransferPayout), Amount: p.Item.Amount,
		Items: []RefundItem{p.Item}, Scope: RefundScope{BuyerPaymentID: &p.BuyerPaymentID}, SendAfter: s.opts.PayoutAfter,
	}
	err := s.owe(ctx, p.EventKey, p.PaymentID, n)
	s.wakeSweeper(Requests)
	return err
}

// buyerDisputes reports whether the refund r pays the seller of a ticket whose buyer disputes the
// charge at the bank, or has won such a dispute.
func (s *Service) buyerDisputes(ctx context.Context, r Refund) (bool, error) {
	if r.Scope.BuyerPaymentID == nil {
		return false, nil
	}
	p, err := s.store.Show(ctx, *r.Scope.BuyerPaymentID)
	if err != nil {
		return false, fmt.Errorf("payment of the buyer: %w", err)
	}
	lost := slices.ContainsFunc(p.Refunds, Refund.tookDispute)
	return lost || !p.Payment.DisputedAt.IsZero(), nil
}
