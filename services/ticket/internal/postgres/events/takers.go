package events

import (
	"context"
	"encoding/json"

	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres"
)

func (s *Store) Takers(ctx context.Context) (event.Takers, error) {
	return postgres.Takers(ctx, s.database.Queries())
}

// PutTakers stores the payment providers and what they take.
func (s *Store) PutTakers(ctx context.Context, takers event.Takers) error {
	providers, err := json.Marshal(takers)
	if err != nil {
		return err
	}
	return pkgpostgres.Err(s.database.Queries().PutPaymentLimits(ctx, providers))
}
