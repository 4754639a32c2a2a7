package events

import (
	"context"
	"log/slog"
	"time"

	"urr.guru/pkg/loop"
	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/postgres/purchases"
)

const pruneActsEvery = 10 * time.Minute

func (s *Store) Settings(ctx context.Context, id string) (event.Event, error) {
	var e event.Event
	err := s.database.InSnapshot(ctx, func(ctx context.Context, q *postgres.Queries) (err error) {
		if e, _, err = findEvent(ctx, q, id); err != nil {
			return err
		}
		return readLineSettings(ctx, q, &e)
	})
	return e, err
}

func (s *Store) LineSettings(ctx context.Context, eventID string) (event.LineSettings, error) {
	return lineSettings(ctx, s.database.Queries(), eventID)
}

func lineSettings(ctx context.Context, q *postgres.Queries, eventID string) (event.LineSettings, error) {
	r, err := q.LineSettings(ctx, db.LineSettingsParams{EventID: eventID, Now: q.AsOf})
	if err != nil {
		return event.LineSettings{}, postgres.OrNotFound(err, event.ErrNotFound)
	}
	return event.LineSettings{
		EventID: eventID, Threshold: r.Threshold, SlotSeconds: r.SlotSeconds, ClosesAt: r.SalesCloseAt, Paused: r.Paused,
		BlockedUsers: r.BlockedUsers, Closed: r.Closed, NeverOpened: r.NeverOpened, Act: r.Act,
	}, nil
}

func (s *Store) MarkLineOpened(ctx context.Context, eventID string) (first bool, err error) {
	n, err := s.database.Queries().MarkLineOpened(ctx, eventID)
	return n == 1, pkgpostgres.Err(err)
}

func (s *Store) ChangeLine(ctx context.Context, eventID string, c event.LineChange) (event.LineSettings, error) {
	var later int64
	err := s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) (err error) {
		var isNewest bool
		if isNewest, later, err = storeActNumber(ctx, tx, eventID, c); err != nil || !isNewest {
			return err
		}
		n, err := tx.ChangeLine(ctx, db.ChangeLineParams{
			EventID: eventID, Threshold: c.Threshold, Paused: c.Paused, BlockUser: c.BlockUser, UnblockUser: c.UnblockUser,
			MaxBlocked: event.MaxBlockedUsers,
		})
		if err == nil && n == 0 {
			return event.ErrTooManyBlocked
		}
		return err
	})
	if err == nil && c.BlockUser != "" && later == 0 {
		err = s.endUnpaid(ctx, eventID, c.BlockUser)
	}
	if err != nil {
		return event.LineSettings{}, err
	}
	l, err := s.LineSettings(ctx, eventID)
	l.LaterAct = later
	return l, err
}

// endUnpaid ends what a user who was blocked has not paid yet. It runs after the commit, so that it
// takes no locks together with that of the line: whoever begins to pay meanwhile is refused.
func (s *Store) endUnpaid(ctx context.Context, eventID, userID string) error {
	if err := purchases.BlockReservations(ctx, s.database, eventID, userID); err != nil {
		return err
	}
	return purchases.NewTransfers(s.database).Block(ctx, eventID, userID)
}

// storeActNumber stores the number of an operator's change (c.Act). isNewest is false if this
// number or a higher one is stored already for the same setting; later is the higher one.
func storeActNumber(ctx context.Context, tx *postgres.Tx, eventID string, c event.LineChange) (isNewest bool, later int64, err error) {
	names := c.Settings()
	if c.Act == 0 || len(names) == 0 {
		return true, 0, nil
	}
	if _, err := postgres.LockLine.Take(ctx, tx, eventID); err != nil { // a PUT too locks the line before the numbers
		return false, 0, err
	}
	n, err := tx.OrderAct(ctx, db.OrderActParams{EventID: eventID, Setting: names[0], Act: c.Act, Now: tx.AsOf})
	if err != nil || n == 1 {
		return n == 1, 0, err
	}
	stored, err := tx.ActOf(ctx, db.ActOfParams{EventID: eventID, Setting: names[0]})
	if stored == c.Act {
		return false, 0, err
	}
	return false, stored, err
}

// PruneActs deletes the stored numbers of operators' changes that are so old that the queue service
// does not send them again. Any number of replicas may call it at the same time.
func (s *Store) PruneActs(ctx context.Context) error {
	q := s.database.Queries()
	_, err := loop.Batches(ctx, pruneRows, func(ctx context.Context, size int32) (int64, error) {
		return q.PruneActs(ctx, db.PruneActsParams{Now: q.AsOf, Max: size})
	})
	return pkgpostgres.Err(err)
}

// ActPruner returns a worker that calls PruneActs until its context ends.
func (s *Store) ActPruner(log *slog.Logger) func(context.Context) error {
	return loop.Pruner(pruneActsEvery, log, "acts on lines not pruned", s.PruneActs)
}
