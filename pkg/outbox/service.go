package outbox

import (
	"context"
	"io"

	"github.com/jackc/pgx/v5/pgxpool"

	"urr.guru/pkg/kafka"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/postgres"
)

// Attach runs the relay of a service, with a producer, and a prober that asks broken partitions by
// connections of its own. It is called before the service's other workers are added: they end
// first, and the relay publishes what they have left.
func Attach(a *lifecycle.App, cfg kafka.Config, pool *pgxpool.Pool) (*Relay, error) {
	producer, err := kafka.NewProducer(cfg, a.Name())
	if err != nil {
		return nil, err
	}
	a.OnClose("producer", producer.Close)
	prober, err := kafka.NewProber(cfg, a.Name())
	if err != nil {
		return nil, err
	}
	a.OnClose("prober", prober.Close)
	relay := NewRelay(pool, producer, a.Log(), Options{Prober: prober})
	a.Go("outbox", relay.Run)
	return relay, nil
}

// Operators is a service's command for operators on events whose key is parked: Usage.
func Operators[C any](name string, database func(*C) postgres.Config) lifecycle.Extra[C] {
	return lifecycle.Extra[C]{Usage: Usage, Run: func(ctx context.Context, cfg *C, args []string, out io.Writer) error {
		pool, err := postgres.Open(ctx, database(cfg), name)
		if err != nil {
			return err
		}
		defer pool.Close()
		return Command(ctx, pool, args, out)
	}}
}
