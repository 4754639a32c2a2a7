// Package audit reads the truth about a sale from the stores themselves, by SQL, Redis commands and the payment provider's ledger: not
// by the services that it checks.
package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"urr.guru/scripts/platform"
)

// Stores are the connections of an audit.
type Stores struct {
	ticket, payment *pgxpool.Pool
	redis           redis.UniversalClient
	ledgerURL       string
}

// Open connects to the stores of a running platform.
func Open(ctx context.Context, w platform.Wiring) (*Stores, error) {
	s := &Stores{
		redis:     redis.NewUniversalClient(&redis.UniversalOptions{Addrs: w.RedisAddrs, PoolSize: 4}),
		ledgerURL: w.SandboxURL + "/v1/ledger",
	}
	for name, pool := range map[string]**pgxpool.Pool{platform.Ticket: &s.ticket, platform.Payment: &s.payment} {
		service, err := platform.Lookup(name)
		if err != nil {
			return nil, err
		}
		if *pool, err = pgxpool.New(ctx, w.DatabaseURL(service)); err != nil {
			return nil, fmt.Errorf("audit: %s's database: %w", name, err)
		}
	}
	if err := errors.Join(s.ticket.Ping(ctx), s.payment.Ping(ctx), s.redis.Ping(ctx).Err()); err != nil {
		s.Close()
		return nil, fmt.Errorf("audit: the stores are not all up: %w", err)
	}
	return s, nil
}

// Close gives the connections back.
func (s *Stores) Close() {
	s.ticket.Close()
	s.payment.Close()
	_ = s.redis.Close() // nothing was written
}
