package postgres

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/idempotency/answers"
	"urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/reservation"
)

// made returns what an earlier request with the key made.
func (s *Store) made(ctx context.Context, key *idempotency.Key) (*reservation.Reservation, error) {
	var r *reservation.Reservation
	err := postgres.InTx(ctx, s.pool, func(ctx context.Context, tx pgx.Tx) error {
		made, err := answers.Claim(ctx, tx, key)
		if err != nil || made == "" {
			return err
		}
		r, err = asMade(ctx, s.queries(tx), made)
		return err
	})
	return r, err
}

// asMade returns the reservation that an earlier request made, as it was then. Its id is the answer that is kept.
func asMade(ctx context.Context, q *queries, made string) (*reservation.Reservation, error) {
	id, err := uuid.Parse(made)
	if err != nil {
		return nil, err
	}
	r, _, err := findReservation(ctx, q, id)
	if err != nil {
		return nil, err
	}
	return r.AsMade(), nil
}

// Prune forgets the answers whose 24 hours are over.
func (s *Store) Prune(ctx context.Context) error { return answers.Prune(ctx, s.pool) }
