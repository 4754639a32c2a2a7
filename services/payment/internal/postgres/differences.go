package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/postgres"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres/db"
	"urr.guru/services/payment/internal/reconcile"
)

var (
	_ reconcile.TicketPayments  = (*Store)(nil)
	_ reconcile.DifferenceStore = (*Store)(nil)
	_ reconcile.DifferenceAdmin = (*Store)(nil)
)

func (s *Store) ByOrderIDs(ctx context.Context, provider string, orders []string) (map[string]reconcile.PaymentWithRefunds, error) {
	rows, err := s.reads.PaymentsByOrderIDs(ctx, db.PaymentsByOrderIDsParams{Provider: provider, Orders: orders})
	if err != nil {
		return nil, postgres.Err(err)
	}
	byID, err := s.withRefunds(ctx, rows)
	byOrder := make(map[string]reconcile.PaymentWithRefunds, len(byID))
	for _, p := range byID {
		byOrder[p.Payment.OrderID] = p
	}
	return byOrder, err
}

func (s *Store) ByIDs(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]reconcile.PaymentWithRefunds, error) {
	rows, err := s.reads.PaymentsByIDs(ctx, ids)
	if err != nil {
		return nil, postgres.Err(err)
	}
	return s.withRefunds(ctx, rows)
}

// withRefunds returns payments with their refunds, by id.
func (s *Store) withRefunds(ctx context.Context, rows []db.Payment) (map[uuid.UUID]reconcile.PaymentWithRefunds, error) {
	found, ids := make(map[uuid.UUID]reconcile.PaymentWithRefunds, len(rows)), make([]uuid.UUID, len(rows))
	for i, row := range rows {
		found[row.ID], ids[i] = reconcile.PaymentWithRefunds{Payment: toPayment(row)}, row.ID
	}
	refunds, err := s.reads.RefundsOfPayments(ctx, ids)
	if err != nil {
		return nil, postgres.Err(err)
	}
	for _, row := range refunds {
		r, err := toRefund(row.Refund)
		if err != nil {
			return nil, err
		}
		here := found[r.PaymentID]
		here.Refunds = append(here.Refunds, r)
		found[r.PaymentID] = here
	}
	return found, nil
}

func (s *Store) ListMovements(
	ctx context.Context, kind payment.LedgerKind, provider string, to time.Time, after reconcile.Mark, limit int,
) (page []reconcile.Movement, err error) {
	q := db.CapturedBetweenParams{Provider: provider, Mode: string(s.opts.Mode), Until: to, After: after.At, AfterID: after.ID, Max: int32(limit)} //nolint:gosec // a page
	if kind == payment.LedgerCapture {
		rows, err := s.reads.CapturedBetween(ctx, q)
		for _, row := range rows {
			page = append(page, reconcile.Movement{Mark: reconcile.Mark{At: row.At, ID: row.ID}, OrderID: row.OrderID, EntryID: row.ChargeID})
		}
		return page, postgres.Err(err)
	}
	rows, err := s.reads.GivenBetween(ctx, db.GivenBetweenParams(q))
	for _, row := range rows {
		page = append(page, reconcile.Movement{Mark: reconcile.Mark{At: row.At, ID: row.ID}, OrderID: row.OrderID, EntryID: row.ProviderID})
	}
	return page, postgres.Err(err)
}

// Unserved returns the names of the providers that have captured payments or unclosed differences,
// and are not among those configured. The ticket service is none.
func (s *Store) Unserved(ctx context.Context, configured []string) ([]string, error) {
	names, err := s.reads.UnservedProviders(ctx, append([]string{reconcile.Ticket}, configured...))
	return names, postgres.Err(err)
}

func (s *Store) Now(ctx context.Context) (time.Time, error) {
	now, err := s.q.Clock(ctx, s.now())
	return now, postgres.Err(err)
}

func (s *Store) Unclosed(ctx context.Context, provider string) ([]reconcile.Difference, error) {
	rows, err := s.q.UnclosedDifferences(ctx, provider)
	list := make([]reconcile.Difference, len(rows))
	for i, row := range rows {
		list[i] = toDifference(row.Difference).Difference
	}
	return list, postgres.Err(err)
}

func (s *Store) Record(ctx context.Context, c reconcile.Comparison) (statuses []reconcile.Status, gone []reconcile.Difference, err error) {
	err = s.inTx(ctx, func(ctx context.Context, _ pgx.Tx, q *db.Queries) error {
		statuses, gone = nil, nil
		for _, d := range c.Found {
			status, err := recordDifference(ctx, q, c, d)
			if err != nil {
				return err
			}
			statuses = append(statuses, status)
		}
		rows, err := q.CloseGone(ctx, db.CloseGoneParams{Provider: c.Provider, OrderID: c.OrderID, At: c.At})
		for _, row := range rows {
			gone = append(gone, toDifference(row.Difference).Difference)
		}
		return err
	})
	return statuses, gone, err
}

func recordDifference(ctx context.Context, q *db.Queries, c reconcile.Comparison, d reconcile.Difference) (reconcile.Status, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", err
	}
	status := reconcile.Open
	if d.Moves {
		status = reconcile.Watched
	}
	if err := q.RecordDifference(ctx, db.RecordDifferenceParams{
		ID: id, Provider: c.Provider, Kind: string(d.Kind), OrderID: c.OrderID, EntryID: d.EntryID,
		PaymentID: uuid.NullUUID{UUID: d.PaymentID, Valid: d.PaymentID != uuid.Nil}, Ours: d.Ours, Theirs: d.Theirs, Amount: d.Amount,
		Currency: d.Currency, Status: string(status), Day: c.Day, At: c.At, MovesSeconds: reconcile.MovesFor.Seconds(),
	}); err != nil {
		return "", err
	}
	stored, err := q.StatusOfDifference(ctx, db.StatusOfDifferenceParams{
		Provider: c.Provider, Kind: string(d.Kind), OrderID: c.OrderID, EntryID: d.EntryID,
	})
	return reconcile.Status(stored), err
}

func (s *Store) ListDifferences(ctx context.Context, status reconcile.Status, limit int, before uuid.UUID) ([]reconcile.Stored, error) {
	if before == uuid.Nil {
		before = uuid.Max
	}
	rows, err := s.reads.ListDifferences(ctx, db.ListDifferencesParams{Status: string(status), Before: before, Max: int32(limit)}) //nolint:gosec // at most 101
	list := make([]reconcile.Stored, len(rows))
	for i, row := range rows {
		list[i] = toDifference(row.Difference)
	}
	return list, postgres.Err(err)
}

func (s *Store) CloseDifference(ctx context.Context, id uuid.UUID, by, note string) (reconcile.Stored, error) {
	row, err := s.q.CloseDifference(ctx, db.CloseDifferenceParams{ID: id, ClosedBy: by, Note: note, Now: s.now()})
	if !errors.Is(err, pgx.ErrNoRows) {
		return toDifference(row.Difference), postgres.Err(err)
	}
	exists, err := s.q.HasDifference(ctx, id)
	switch {
	case err != nil:
		return reconcile.Stored{}, postgres.Err(err)
	case !exists:
		return reconcile.Stored{}, reconcile.ErrNotFound
	default:
		return reconcile.Stored{}, reconcile.ErrNotOpen
	}
}

func toDifference(row db.Difference) reconcile.Stored {
	return reconcile.Stored{
		Difference: reconcile.Difference{
			Kind: reconcile.Kind(row.Kind), Provider: row.Provider, OrderID: row.OrderID, EntryID: row.EntryID, PaymentID: row.PaymentID.UUID,
			Ours: row.Ours, Theirs: row.Theirs, Amount: row.Amount, Currency: row.Currency,
		},
		ID: row.ID, Status: reconcile.Status(row.Status), Day: row.Day.UTC(), FirstSeen: row.FirstSeen, LastSeen: row.LastSeen,
		ClosedAt: timeOf(row.ClosedAt), ClosedBy: row.ClosedBy, Note: row.Note,
	}
}
