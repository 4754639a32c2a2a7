package purchases

import (
	"context"

	"github.com/google/uuid"

	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/settlement"
)

// Settled returns what became of payments. Those that were not settled are left out.
func (s *Settlement) Settled(ctx context.Context, payments []uuid.UUID) ([]settlement.Settled, error) {
	rows, err := s.database.Queries().SettledPayments(ctx, payments)
	list := make([]settlement.Settled, len(rows))
	for i, r := range rows {
		list[i] = settlement.Settled{
			PaymentID: r.PaymentID, Rejected: r.Rejected, UserID: r.UserID, Paid: r.Paid, Kept: r.Kept, Currency: r.Currency,
		}
	}
	return list, pkgpostgres.Err(err)
}

// ListSettled returns what became of the payments of up to limit tickets and memberships with ids
// between after and until, and the last of these ids; uuid.Nil: there are no more. Those without a
// payment count for the limit.
func (s *Settlement) ListSettled(ctx context.Context, after, until uuid.UUID, limit int) (list []settlement.Settled, last uuid.UUID, err error) {
	rows, err := s.database.Queries().PaymentsOfSold(ctx, db.PaymentsOfSoldParams{After: after, Until: until, Max: int32(limit)}) //nolint:gosec // a page
	if err != nil {
		return nil, uuid.Nil, pkgpostgres.Err(err)
	}
	var payments []uuid.UUID
	for _, r := range rows {
		if r.PaymentID.Valid {
			payments = append(payments, r.PaymentID.UUID)
		}
	}
	if len(rows) == limit {
		last = rows[limit-1].ID
	}
	list, err = s.Settled(ctx, payments)
	return list, last, err
}
