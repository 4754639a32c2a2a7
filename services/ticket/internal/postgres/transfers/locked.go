package transfers

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/outbox"
	"urr.guru/proto/events"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/postgres/tickets"
	"urr.guru/services/ticket/internal/ticket"
	"urr.guru/services/ticket/internal/transfer"
)

// Locked has transfers whose rows one transaction has locked.
type Locked struct{ changes []transferChange }

// transferChange is a locked transfer and the version that was read.
type transferChange struct {
	version int64
	current *transfer.Transfer
}

// Lock locks and reads transfers. Missing transfers are left out. Their tickets must be locked
// before, unless the transaction ends only offers that nobody is paying for.
func Lock(ctx context.Context, tx *postgres.Tx, ids []uuid.UUID) (*Locked, error) {
	if len(ids) == 0 {
		return &Locked{}, nil
	}
	rows, err := postgres.LockTransfers.Take(ctx, tx, ids)
	return fromRows(rows), err
}

// fromRows returns transfers whose rows are locked.
func fromRows(rows []db.Transfer) *Locked {
	l := &Locked{changes: make([]transferChange, len(rows))}
	for i, r := range rows {
		t := toTransfer(r)
		l.changes[i] = transferChange{version: t.Version, current: &t}
	}
	return l
}

// Find returns the transfer with this id, or nil if it is not locked.
func (l *Locked) Find(id uuid.UUID) *transfer.Transfer {
	for _, c := range l.changes {
		if c.current.ID == id {
			return c.current
		}
	}
	return nil
}

// Save writes the changed transfers and the Kafka events about them. All tickets, also new ones,
// must have been saved.
func (l *Locked) Save(ctx context.Context, tx *postgres.Tx) error {
	var published []transfer.Event
	var arg db.UpdateTransfersParams
	for _, c := range l.changes {
		t := c.current
		if t.Version == c.version {
			continue
		}
		published = append(published, t.TakeEvents()...)
		arg.TransferIds, arg.Was, arg.Versions = append(arg.TransferIds, t.ID), append(arg.Was, c.version), append(arg.Versions, t.Version)
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
	return insertEvents(ctx, tx, published)
}

// EndOffersOf ends the offers of locked tickets that are no longer VALID.
func EndOffersOf(ctx context.Context, tx *postgres.Tx, locked *tickets.Locked, now time.Time) error {
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
	l := fromRows(rows)
	for _, c := range l.changes {
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
		l := fromRows(rows)
		for _, c := range l.changes {
			c.current.EndWith(reason, now)
		}
		if err := l.Save(ctx, tx); err != nil || len(rows) < eventBatch {
			return err
		}
	}
}

func insertEvents(ctx context.Context, tx pgx.Tx, list []transfer.Event) error {
	if len(list) == 0 {
		return nil
	}
	out := make([]outbox.Event, len(list))
	for i := range list {
		e := &list[i]
		out[i] = outbox.Event{
			Topic: events.Transfers, Key: e.Transfer.ID.String(), Type: string(e.Type), EntityVersion: e.Transfer.Version, Payload: payload(e),
		}
	}
	return outbox.Insert(ctx, tx, postgres.EventSource, out...)
}

func payload(e *transfer.Event) *eventsv1.TransferEvent {
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
