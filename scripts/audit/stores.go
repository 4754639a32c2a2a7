// Package audit reads the state of a sale directly from the stores, by SQL, Redis commands, Kafka's
// topics and the payment provider's ledger, and not from the services that it checks.
package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"

	"urr.guru/scripts/internal/topics"
	"urr.guru/scripts/platform"
)

// Stores are the connections of an audit.
type Stores struct {
	ticket, payment, stats *pgxpool.Pool
	redis                  redis.UniversalClient
	brokers                []string
	topicPrefix            string
	ledgerURL              string
	// read reads a whole topic; topics.Read, except in tests that cache topics.
	read func(ctx context.Context, brokers []string, topic string) ([]*kgo.Record, error)
}

// Open connects to the stores of a running platform.
func Open(ctx context.Context, w platform.Wiring) (*Stores, error) {
	s := connect(w)
	if err := s.open(ctx, w); err != nil {
		s.Close()
		return nil, fmt.Errorf("audit: the stores are not all up: %w", err)
	}
	return s, nil
}

func connect(w platform.Wiring) *Stores {
	return &Stores{
		redis:   redis.NewUniversalClient(&redis.UniversalOptions{Addrs: w.RedisAddrs, DB: w.RedisDB, PoolSize: 4}),
		brokers: w.KafkaBrokers, topicPrefix: w.KafkaPrefix,
		ledgerURL: w.SandboxURL + "/v1/ledger",
		read:      topics.Read,
	}
}

func (s *Stores) open(ctx context.Context, w platform.Wiring) error {
	if err := s.pools(ctx, w); err != nil {
		return err
	}
	for name, pool := range map[string]*pgxpool.Pool{platform.Ticket: s.ticket, platform.Payment: s.payment, platform.Stats: s.stats} {
		if err := pool.Ping(ctx); err != nil {
			return fmt.Errorf("%s's database: %w", name, err)
		}
	}
	_, letters := s.DeadLetters(ctx)
	_, ledger := s.charges(ctx)
	return errors.Join(s.redis.Ping(ctx).Err(), letters, ledger)
}

// pools prepares the database pools, which connect on first use.
func (s *Stores) pools(ctx context.Context, w platform.Wiring) error {
	for name, pool := range map[string]**pgxpool.Pool{platform.Ticket: &s.ticket, platform.Payment: &s.payment, platform.Stats: &s.stats} {
		service, err := platform.Lookup(name)
		if err != nil {
			return err
		}
		if *pool, err = pgxpool.New(ctx, w.DatabaseURL(service)); err != nil {
			return fmt.Errorf("%s's database: %w", name, err)
		}
	}
	return nil
}

func (s *Stores) Close() {
	for _, pool := range []*pgxpool.Pool{s.ticket, s.payment, s.stats} {
		if pool != nil {
			pool.Close()
		}
	}
	_ = s.redis.Close() // nothing was written
}
