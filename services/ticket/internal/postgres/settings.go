package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/db"
)

var _ event.Lines = (*Store)(nil)

// Settings implements event.Writer. All of it is of one moment.
func (s *Store) Settings(ctx context.Context, id string) (event.Settings, error) {
	var set event.Settings
	tx := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, s.pool, tx, func(tx pgx.Tx) (err error) {
		q := s.queries(tx)
		if set.Event, _, err = findEvent(ctx, q, id); err != nil {
			return err
		}
		set.Line, err = lineSettings(ctx, q, id)
		return err
	})
	return set, postgres.Err(err)
}

// LineSettings implements event.Lines.
func (s *Store) LineSettings(ctx context.Context, eventID string) (event.LineSettings, error) {
	return lineSettings(ctx, s.queries(s.pool), eventID)
}

func lineSettings(ctx context.Context, q *queries, eventID string) (event.LineSettings, error) {
	r, err := q.LineSettings(ctx, db.LineSettingsParams{EventID: eventID, Now: q.now})
	if err != nil {
		return event.LineSettings{}, orNotFound(err, event.ErrNotFound)
	}
	return event.LineSettings{
		EventID: eventID, Threshold: r.Threshold, SlotSeconds: r.SlotSeconds, ClosesAt: r.SalesCloseAt, Paused: r.Paused,
		BlockedUsers: r.BlockedUsers, Closed: r.Closed, NeverOpened: r.NeverOpened,
	}, nil
}

// MarkLineOpened implements event.Lines.
func (s *Store) MarkLineOpened(ctx context.Context, eventID string) (first bool, err error) {
	n, err := s.queries(s.pool).MarkLineOpened(ctx, eventID)
	return n == 1, postgres.Err(err)
}

// ChangeLine implements event.Lines.
func (s *Store) ChangeLine(ctx context.Context, eventID string, c event.LineChange) (event.LineSettings, error) {
	arg := db.ChangeLineParams{EventID: eventID, Threshold: c.Threshold, Paused: c.Paused, BlockUser: c.BlockUser}
	if err := s.queries(s.pool).ChangeLine(ctx, arg); err != nil {
		return event.LineSettings{}, postgres.Err(err)
	}
	return s.LineSettings(ctx, eventID)
}
