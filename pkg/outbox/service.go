package outbox

import (
	"context"
	"io"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"urr.guru/pkg/kafka"
	"urr.guru/pkg/postgres"
)

// App has the methods of lifecycle.App that Attach uses.
type App interface {
	Name() string
	Log() *slog.Logger
	Go(name string, fn func(context.Context) error)
	OnClose(name string, fn func(context.Context) error)
}

// Attach adds the relay of a service to the process, with its producer and a prober: a second
// producer, which retries failing partitions over connections of its own. Call it before the other
// workers of the service are added: at shutdown those stop first, and the relay then publishes what
// they have committed.
func Attach(a App, cfg kafka.Config, pool *pgxpool.Pool) (*Relay, error) {
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

// OperatorCommand makes the command `outbox` of a service, which runs Command on its database.
func OperatorCommand[C any](
	name string, database func(*C) postgres.Config,
) func(ctx context.Context, cfg *C, args []string, out io.Writer) error {
	return func(ctx context.Context, cfg *C, args []string, out io.Writer) error {
		pool, err := postgres.Open(ctx, database(cfg), name)
		if err != nil {
			return err
		}
		defer pool.Close()
		return Command(ctx, pool, args, out)
	}
}
