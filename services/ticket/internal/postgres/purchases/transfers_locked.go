package purchases

import (
	"context"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/outbox"
	"urr.guru/proto/events"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/ticket"
	"urr.guru/services/ticket/internal/transfer"
)

// LockedTransfers has transfers whose rows one transaction has locked.
type LockedTransfers struct{ locked[transfer.Transfer] }

// LockTransfers locks and reads transfers. Missing transfers are left out. Their tickets must be locked
// before, unless the transaction ends only offers that nobody is paying for.
func LockTransfers(ctx context.Context, tx *postgres.Tx, ids []uuid.UUID) (*LockedTransfers, error) {
	if len(ids) == 0 {
		return &LockedTransfers{}, nil
	}
	rows, err := postgres.LockTransfers.Take(ctx, tx, ids)
	return lockedTransfersOf(rows), err
}

// lockedTransfersOf returns transfers whose rows are locked.
func lockedTransfersOf(rows []db.Transfer) *LockedTransfers {
	return &LockedTransfers{lockedOf(rows, toTransfer, func(t *transfer.Transfer) uuid.UUID { return t.ID })}
}

// Save writes the changed transfers and the Kafka events about them. All tickets, also new ones,
// must have been saved.
func (l *LockedTransfers) Save(ctx context.Context, tx *postgres.Tx) error {
	var published []transfer.Event
	var arg db.UpdateTransfersParams
	for _, c := range l.locked {
		t := c.current
		if t.Version == c.before.Version {
			continue
		}
		published = append(published, t.TakeEvents()...)
		arg.TransferIds, arg.Was, arg.Versions = append(arg.TransferIds, t.ID), append(arg.Was, c.before.Version), append(arg.Versions, t.Version)
		arg.Statuses, arg.Reasons = append(arg.Statuses, string(t.Status)), append(arg.Reasons, t.Reason)
		arg.Buyers, arg.Unpaid = append(arg.Buyers, t.Buyer), append(arg.Unpaid, int32(t.UnpaidBuyers)) //nolint:gosec // a small number
		arg.PayUntils, arg.PayEnds = append(arg.PayUntils, postgres.OrEpoch(t.Until)), append(arg.PayEnds, postgres.OrEpoch(t.OriginalEnd))
		arg.PaymentIds, arg.Charging = append(arg.PaymentIds, t.PaymentID), append(arg.Charging, t.Charging)
		arg.Begun = append(arg.Begun, postgres.UUIDArray(t.Begun))
		arg.Opens = append(arg.Opens, int32(t.Opens)) //nolint:gosec // a small number
		arg.NewTickets = append(arg.NewTickets, t.NewTicket)
	}
	if len(arg.TransferIds) > 0 {
		n, err := tx.UpdateTransfers(ctx, arg)
		if err := postgres.ExpectRows(n, len(arg.TransferIds), "transfers", err); err != nil {
			return err
		}
	}
	return insertEvents(ctx, tx, published, transferRecord)
}

// EndOffersOf ends the offers of locked tickets that are no longer VALID.
func EndOffersOf(ctx context.Context, tx *postgres.Tx, locked *LockedTickets, now time.Time) error {
	ended := locked.LeftValid()
	if len(ended) == 0 {
		return nil
	}
	ids, reasons := make([]uuid.UUID, len(ended)), make(map[uuid.UUID]string, len(ended))
	for i, t := range ended {
		ids[i], reasons[t.ID] = t.ID, transfer.ReasonRefunded
		switch t.Status { //nolint:exhaustive // the others are refunds
		case ticket.Used:
			reasons[t.ID] = transfer.ReasonUsed
		case ticket.Voided:
			reasons[t.ID] = transfer.ReasonVoided
		}
	}
	rows, err := postgres.LockOffersOf.Take(ctx, tx, ids)
	if err != nil || len(rows) == 0 {
		return err
	}
	l := lockedTransfersOf(rows)
	for _, c := range l.locked {
		c.current.EndWith(reasons[c.current.TicketID], now)
	}
	return l.Save(ctx, tx)
}

// eventBatch is the most offers of an event that are locked at once.
const eventBatch = 500

// EndOffersOfEvent ends the offers of an event, except those whose buyer may have been charged.
func EndOffersOfEvent(ctx context.Context, tx *postgres.Tx, eventID, reason string, now time.Time) error {
	for {
		rows, err := postgres.LockOffersOfEvent.Take(ctx, tx, db.LockOffersOfEventParams{EventID: eventID, Max: eventBatch})
		if err != nil || len(rows) == 0 {
			return err
		}
		l := lockedTransfersOf(rows)
		for _, c := range l.locked {
			c.current.EndWith(reason, now)
		}
		if err := l.Save(ctx, tx); err != nil || len(rows) < eventBatch {
			return err
		}
	}
}

func transferRecord(e *transfer.Event) outbox.Event {
	return outbox.Event{
		Topic: events.Transfers, Key: e.Transfer.ID.String(), Type: string(e.Type), EntityVersion: e.Transfer.Version, Payload: transferPayload(e),
	}
}

func transferPayload(e *transfer.Event) *eventsv1.TransferEvent {
	t := &e.Transfer
	p := &eventsv1.TransferEvent{
		Type: string(e.Type), TransferId: t.ID.String(), EventId: t.EventID, TicketId: t.TicketID.String(), SellerId: t.Seller,
		BuyerId: t.Buyer, Price: t.Price, Currency: t.Currency, Version: t.Version, OccurredAt: timestamppb.New(e.At),
		PaymentId: orAbsent(e.PaymentID), SellerPaymentId: orAbsent(e.SellerPayment), NewTicketId: orAbsent(t.NewTicket),
	}
	if e.Reason != "" {
		p.Reason = proto.String(e.Reason)
	}
	return p
}

func orAbsent(id uuid.UUID) *string {
	if id == uuid.Nil {
		return nil
	}
	return proto.String(id.String())
}
