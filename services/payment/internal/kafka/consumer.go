// Package kafka consumes Kafka events of reservations, transfers and memberships: payments that the
// ticket service rejects, tickets to refund, sellers to pay, and seats that were given up.
package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/google/uuid"

	"urr.guru/pkg/kafka"
	"urr.guru/proto/events"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	"urr.guru/services/payment/internal/payment"
)

// Refunder refunds and ends payments. Its methods are idempotent. They return payment.ErrNotFound when
// the payment does not exist, and payment.ErrNotOwed when the ticket service has not decided a refund.
type Refunder interface {
	// Compensate refunds a payment that the ticket service has rejected.
	Compensate(ctx context.Context, r payment.Rejection) error
	// RefundPromised stores a refund that the ticket service has decided.
	RefundPromised(ctx context.Context, r payment.PromisedRefund) error
	// PayOut pays the seller of a ticket that was passed on.
	PayOut(ctx context.Context, p payment.Payout) error
	// EndGivenUp ends an uncharged payment whose reservation or transfer was cancelled.
	EndGivenUp(ctx context.Context, eventKey string, paymentID uuid.UUID) error
}

// NewConsumer makes the consumer that passes these events to refunds.
func NewConsumer(cfg kafka.Config, refunds Refunder, log *slog.Logger) (*kafka.Consumer, error) {
	return kafka.NewConsumer(cfg, payment.Group, events.ConsumedBy("payment"), kafka.Each(Handle(refunds)), log)
}

// Handle returns the function that passes one Kafka event to refunds.
func Handle(refunds Refunder) func(context.Context, kafka.Record) error {
	return func(ctx context.Context, rec kafka.Record) error { return handle(ctx, refunds, rec) }
}

func handle(ctx context.Context, refunds Refunder, rec kafka.Record) error {
	switch rec.Type {
	case events.ReservationRejected, events.TicketsRefundDue, events.ReservationCancelled:
	case events.TransferCompleted, events.TransferCancelled, events.TransferRejected:
		return handleTransfer(ctx, refunds, rec)
	case events.MembershipRejected:
		return rejectMembership(ctx, refunds, rec)
	default:
		return nil // most events do not concern the payment service
	}
	var e eventsv1.ReservationEvent
	if err := kafka.Decode(rec, &e); err != nil {
		return err
	}
	if rec.Type == events.ReservationCancelled && e.GetPaymentId() == "" {
		return nil // the reservation had no open payment
	}
	id, err := uuid.Parse(e.GetPaymentId())
	if err != nil {
		return kafka.Poison(fmt.Errorf("%s of reservation %s names no payment: %w", rec.Type, e.GetReservationId(), err))
	}
	switch rec.Type {
	case events.TicketsRefundDue:
		err = refundPromised(ctx, refunds, rec, id, &e)
	case events.ReservationCancelled:
		err = refunds.EndGivenUp(ctx, rec.EventID, id)
	default:
		reason := cmp.Or(e.GetReason(), events.ReservationRejected)
		err = refunds.Compensate(ctx, payment.Rejection{EventKey: rec.EventID, PaymentID: id, Reason: reason})
	}
	return poisonUnfounded(err, rec, id)
}

// poisonUnfounded sends a record about an unknown payment, or a refund that is not owed, to the
// dead-letter topic. A payment is stored before the ticket service learns of it, and a refund is decided
// before its record is written: either is so only after a loss of data, or the ticket service has not
// written the record. A retry would not help; an operator sends a genuine record again.
func poisonUnfounded(err error, rec kafka.Record, id uuid.UUID) error {
	switch {
	case errors.Is(err, payment.ErrNotFound):
		return kafka.Poison(fmt.Errorf("payment %s of %s is not known here: %w", id, rec.Type, err))
	case errors.Is(err, payment.ErrNotOwed):
		return kafka.Poison(fmt.Errorf("payment %s of %s: %w", id, rec.Type, err))
	default:
		return err
	}
}

func handleTransfer(ctx context.Context, refunds Refunder, rec kafka.Record) error {
	var e eventsv1.TransferEvent
	if err := kafka.Decode(rec, &e); err != nil {
		return err
	}
	if e.GetPaymentId() == "" {
		return nil // the transfer is a gift, or had no open payment
	}
	id, err := uuid.Parse(e.GetPaymentId())
	if err != nil {
		return kafka.Poison(fmt.Errorf("%s of transfer %s names no payment: %w", rec.Type, e.GetTransferId(), err))
	}
	switch rec.Type {
	case events.TransferCompleted:
		return payOut(ctx, refunds, rec, id, &e)
	case events.TransferCancelled:
		err = refunds.EndGivenUp(ctx, rec.EventID, id)
	default:
		err = refunds.Compensate(ctx, payment.Rejection{EventKey: rec.EventID, PaymentID: id, Reason: cmp.Or(e.GetReason(), events.TransferRejected)})
	}
	return poisonUnfounded(err, rec, id)
}

func rejectMembership(ctx context.Context, refunds Refunder, rec kafka.Record) error {
	var e eventsv1.MembershipEvent
	if err := kafka.Decode(rec, &e); err != nil {
		return err
	}
	id, err := uuid.Parse(e.GetPaymentId())
	if err != nil {
		return kafka.Poison(fmt.Errorf("%s of membership %s names no payment: %w", rec.Type, e.GetMembershipId(), err))
	}
	err = refunds.Compensate(ctx, payment.Rejection{EventKey: rec.EventID, PaymentID: id, Reason: cmp.Or(e.GetReason(), rec.Type)})
	return poisonUnfounded(err, rec, id)
}

func payOut(ctx context.Context, refunds Refunder, rec kafka.Record, buyer uuid.UUID, e *eventsv1.TransferEvent) error {
	p := payment.Payout{EventKey: rec.EventID, BuyerPaymentID: buyer, Item: payment.RefundItem{Amount: e.GetPrice()}}
	var errs [3]error
	p.TransferID, errs[0] = uuid.Parse(e.GetTransferId())
	p.PaymentID, errs[1] = uuid.Parse(e.GetSellerPaymentId())
	p.Item.TicketID, errs[2] = uuid.Parse(e.GetTicketId())
	if err := errors.Join(errs[:]...); err != nil {
		return kafka.Poison(fmt.Errorf("transfer %q that is to be paid out: %w", e.GetTransferId(), err))
	}
	return poisonUnfounded(refunds.PayOut(ctx, p), rec, p.PaymentID)
}

func refundPromised(ctx context.Context, refunds Refunder, rec kafka.Record, paymentID uuid.UUID, e *eventsv1.ReservationEvent) error {
	claimID, err := uuid.Parse(e.GetClaimId())
	r := payment.PromisedRefund{EventKey: rec.EventID, ClaimID: claimID, PaymentID: paymentID, Cause: payment.Cause(e.GetCause())}
	if err == nil && r.Cause != payment.EventCancelled {
		err = fmt.Errorf("cause %q", e.GetCause())
	}
	for _, item := range e.GetItems() {
		id, itemErr := uuid.Parse(item.GetTicketId())
		if itemErr == nil && item.GetAmount() < 0 {
			itemErr = fmt.Errorf("amount %d", item.GetAmount())
		}
		err = errors.Join(err, itemErr)
		r.Items = append(r.Items, payment.RefundItem{TicketID: id, Amount: item.GetAmount()})
	}
	if err != nil {
		return kafka.Poison(fmt.Errorf("refund of payment %s that is due: %w", paymentID, err))
	}
	return refunds.RefundPromised(ctx, r)
}
