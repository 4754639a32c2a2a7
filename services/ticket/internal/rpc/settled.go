package rpc

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/google/uuid"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/settlement"
)

// settledPage is the most tickets and memberships whose payments are listed at once.
const settledPage = 1000

// SettledStore finds what became of payments.
type SettledStore interface {
	// Settled returns what became of payments. Those that were not settled are left out.
	Settled(ctx context.Context, payments []uuid.UUID) ([]settlement.Settled, error)
	// ListSettled returns what became of the payments of up to limit tickets and memberships with ids
	// between after and until, and the last of these ids; uuid.Nil: there are no more.
	ListSettled(ctx context.Context, after, until uuid.UUID, limit int) (list []settlement.Settled, last uuid.UUID, err error)
}

func (s *Payables) FindSettled(ctx context.Context, req *ticketv1.FindSettledRequest) (*ticketv1.FindSettledResponse, error) {
	ids := make([]uuid.UUID, len(req.GetPaymentIds()))
	for i, text := range req.GetPaymentIds() {
		var err error
		if ids[i], err = parseID(text); err != nil {
			return nil, err
		}
	}
	list, err := s.settled.Settled(ctx, ids)
	if err != nil {
		return nil, err
	}
	return &ticketv1.FindSettledResponse{Payments: fromSettled(list)}, nil
}

func (s *Payables) ListSettled(ctx context.Context, req *ticketv1.ListSettledRequest) (*ticketv1.ListSettledResponse, error) {
	after := firstIDAt(req.GetFrom().AsTime())
	if req.GetCursor() != "" {
		var err error
		if after, err = parseID(req.GetCursor()); err != nil {
			return nil, err
		}
	}
	list, last, err := s.settled.ListSettled(ctx, after, firstIDAt(req.GetUntil().AsTime()), settledPage)
	if err != nil {
		return nil, err
	}
	out := &ticketv1.ListSettledResponse{Payments: fromSettled(list)}
	if last != uuid.Nil {
		out.NextCursor = last.String()
	}
	return out, nil
}

// firstIDAt returns the smallest UUIDv7 of a time, which need not be one that exists.
func firstIDAt(t time.Time) (id uuid.UUID) {
	binary.BigEndian.PutUint64(id[:], uint64(max(t.UnixMilli(), 0))<<16) //nolint:gosec // not negative
	return id
}

func fromSettled(list []settlement.Settled) []*ticketv1.SettledPayment {
	out := make([]*ticketv1.SettledPayment, len(list))
	for i, p := range list {
		out[i] = &ticketv1.SettledPayment{
			PaymentId: p.PaymentID.String(), RejectedReason: p.Rejected, UserId: p.UserID, Paid: p.Paid, Kept: p.Kept, Currency: p.Currency,
		}
	}
	return out
}
