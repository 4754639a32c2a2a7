package events

import (
	"context"

	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
)

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
		BlockedUsers: r.BlockedUsers, Closed: r.Closed, NeverOpened: r.NeverOpened,
	}, nil
}

func (s *Store) MarkLineOpened(ctx context.Context, eventID string) (first bool, err error) {
	n, err := s.database.Queries().MarkLineOpened(ctx, eventID)
	return n == 1, pkgpostgres.Err(err)
}

func (s *Store) ChangeLine(ctx context.Context, eventID string, c event.LineChange) (event.LineSettings, error) {
	n, err := s.database.Queries().ChangeLine(ctx, db.ChangeLineParams{
		EventID: eventID, Threshold: c.Threshold, Paused: c.Paused, BlockUser: c.BlockUser, UnblockUser: c.UnblockUser,
		MaxBlocked: event.MaxBlockedUsers,
	})
	if err != nil {
		return event.LineSettings{}, pkgpostgres.Err(err)
	}
	if n == 0 {
		return event.LineSettings{}, event.ErrTooManyBlocked
	}
	return s.LineSettings(ctx, eventID)
}
