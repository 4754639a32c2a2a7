// Package kafka consumes the Kafka events of payments: confirmed, refunded and disputed ones.
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
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/settlement"
)

// Group is the Kafka consumer group of this service.
const Group = "ticket-service-group"

// maxBatch is the most payment events of one transaction, so that it does not lock too many seats.
const maxBatch = 200

// Settler applies payment events to reservations and tickets.
type Settler interface {
	// Settle applies each event once, however often it is read. It fails with
	// settlement.ErrUnclaimed for a refund that has not claimed any tickets before, and with
	// settlement.ErrNotBegun for a payment that was not begun for what it pays for.
	Settle(ctx context.Context, group string, events []settlement.PaymentEvent) error
}

// NewConsumer makes the consumer of the topic payment-events.
func NewConsumer(cfg kafka.Config, targets purchase.Targets, s Settler, log *slog.Logger) (*kafka.Consumer, error) {
	return kafka.NewConsumer(cfg, Group, []string{events.Payments}, kafka.Batch(maxBatch, Handle(targets, s)), log)
}

// Handle returns the handler of payment events. Four kinds of records go to the dead-letter topic:
// those that cannot be decoded, payments of a kind that is not sold (no service would refund them),
// refunds that have not claimed any tickets (nobody can know which tickets end), and payments that
// were not begun. The last are not rejected: if the record is not the payment service's, a rejection
// would give back money for which somebody has tickets.
func Handle(targets purchase.Targets, s Settler) func(context.Context, []kafka.Record) error {
	return func(ctx context.Context, recs []kafka.Record) error {
		payments := make([]settlement.PaymentEvent, 0, len(recs))
		for _, rec := range recs {
			e, err := decode(rec, targets)
			if errors.Is(err, errSkipped) {
				continue
			}
			if err != nil {
				return err
			}
			payments = append(payments, e)
		}
		if len(payments) == 0 {
			return nil
		}
		err := s.Settle(ctx, Group, payments)
		if errors.Is(err, settlement.ErrUnclaimed) || errors.Is(err, settlement.ErrNotBegun) {
			return kafka.Poison(err)
		}
		return err
	}
}

// errSkipped means that an event changes nothing here. For a declined payment, the payment service
// has called AbortPayment.
var errSkipped = errors.New("skipped")

func decode(rec kafka.Record, targets purchase.Targets) (settlement.PaymentEvent, error) {
	var p eventsv1.PaymentEvent
	if err := kafka.Decode(rec, &p); err != nil {
		return settlement.PaymentEvent{}, err
	}
	if p.GetType() == events.PaymentDeclined {
		return settlement.PaymentEvent{}, errSkipped
	}
	bad := func(format string, args ...any) (settlement.PaymentEvent, error) {
		return settlement.PaymentEvent{}, kafka.Poison(fmt.Errorf("payment event %s: "+format, append([]any{rec.EventID}, args...)...))
	}
	paidFor := cmp.Or(purchase.Type(p.GetPaymentType()), purchase.Reservation)
	if !targets.Sold(paidFor) {
		return bad("payment type %q is not sold here", paidFor)
	}
	var dispute *settlement.Dispute
	switch p.GetType() {
	case events.PaymentConfirmed, events.PaymentRefunded:
	case events.PaymentDisputed, events.PaymentDisputeClosed:
		dispute = &settlement.Dispute{Open: p.GetType() == events.PaymentDisputed, Version: p.GetVersion()}
	default:
		return bad("type %q is not known", p.GetType())
	}
	payment, err := uuid.Parse(p.GetPaymentId())
	if err != nil {
		return bad("payment id: %w", err)
	}
	reference, err := uuid.Parse(p.GetReferenceId())
	if err != nil {
		return bad("reference id: %w", err)
	}
	refundID, err := uuid.Parse(p.GetRefundId())
	refunded, cause := p.GetType() == events.PaymentRefunded, refund.Cause(p.GetCause())
	if refunded && cause.EndsTickets() && err != nil {
		return bad("refund id: %w", err)
	}
	return settlement.PaymentEvent{
		Key: rec.EventID, Type: paidFor, ReferenceID: reference, Refunded: refunded, Cause: cause, RefundID: refundID, Dispute: dispute,
		Payment: purchase.Payment{
			ID: payment, UserID: p.GetUserId(), EventID: p.GetEventId(), Amount: p.GetAmount(), Currency: p.GetCurrency(),
			WholeOnly: p.PartialRefunds != nil && !p.GetPartialRefunds(),
		},
	}, nil
}
