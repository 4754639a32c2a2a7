package postgres

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/event"
)

// Takers returns the payment providers and what they take; none if that is not known yet.
func Takers(ctx context.Context, q *Queries) (takers event.Takers, err error) {
	stored, err := q.PaymentLimits(ctx)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, postgres.Err(err)
	}
	return takers, json.Unmarshal(stored, &takers)
}
