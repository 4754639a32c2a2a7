package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/fairdraw"
	pkgkafka "urr.guru/pkg/kafka"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/promotion/queue"
	"urr.guru/pkg/promotion/table"
	pkgsqs "urr.guru/pkg/sqs"
	"urr.guru/proto/events"
	workerv1 "urr.guru/proto/gen/urr/worker/v1"
	"urr.guru/services/worker/internal/announce"
	"urr.guru/services/worker/internal/draw"
	"urr.guru/services/worker/internal/dynamo"
	"urr.guru/services/worker/internal/kafka"
	"urr.guru/services/worker/internal/rpc"
	"urr.guru/services/worker/internal/settle"
)

// Run serves the RPCs of the worker service and runs its background workers until ctx ends.
func Run(ctx context.Context, cfg *Config, log *slog.Logger) error {
	return run(ctx, cfg, log, failpoint.Now)
}

func run(ctx context.Context, cfg *Config, log *slog.Logger, now func() time.Time) error {
	a, err := lifecycle.Start(ctx, "worker", cfg.Config, log)
	if err != nil {
		return err
	}
	db, err := pkgdynamo.Open(ctx, cfg.Dynamo)
	if err != nil {
		return fmt.Errorf("dynamodb: %w", err)
	}
	client, err := pkgsqs.Open(ctx, cfg.sqs())
	if err != nil {
		return fmt.Errorf("sqs: %w", err)
	}
	producer, err := pkgkafka.NewProducer(cfg.Kafka, a.Name())
	if err != nil {
		return err
	}
	a.OnClose("producer", producer.Close)

	var relay *announce.Relay
	store := dynamo.New(db, cfg.Dynamo, now, func(partition int) { relay.Hint(partition) })
	store.Log = log
	a.OnClose("store", store.Close)
	relay = announce.New(store, kafka.New(producer), log)
	// The relay stops after the settler, and publishes what the settler has written last.
	a.Go("relay", relay.Run)
	requests, dead := queue.New(client, cfg.Queue), queue.NewDeadLetters(client, cfg.Queue)
	settler := settle.New(store, requests, dead, settle.Options{
		MaxAttempts: int64(cfg.MaxAttempts), RetryDelay: cfg.RetryDelay, Now: now,
	}, log)
	a.Go("settler", settler.Run(cfg.Receivers))
	table.StartMetrics()
	a.Go("metrics", backlogWorker(map[string]*queue.Queue{"requests": requests, "dead": dead}, relay, log))

	keys, err := fairdraw.NewKeyring(cfg.Draw)
	if err != nil {
		return err
	}
	beacons, err := cfg.beacons()
	if err != nil {
		return err
	}
	drawer := draw.New(draw.Stores{Draws: store, Lotteries: store, Requests: store, Results: store}, beacons, keys, meter{}, draw.Options{After: cfg.DrawAfter, Now: now, Skew: pkgdynamo.ClockSkew}, log)
	a.Go("drawer", drawer.Run)

	server, err := a.GRPC(cfg.RPC)
	if err != nil {
		return err
	}
	workerv1.RegisterWorkerServiceServer(server, rpc.NewService(drawer))
	workerv1.RegisterWorkerAdminServiceServer(server, rpc.NewAdmin(store, settler, drawer, log).WithAdmissions(startAdmissions(a, cfg, client, store, log)))
	lifecycle.FollowSecrets(a, cfg, func(next *Config) error {
		return errors.Join(keys.Rekey(next.Draw), server.Rekey(next.RPC.Accept))
	})
	a.Ready("dynamodb", store.Ping)
	a.Ready("sqs", func(ctx context.Context) error {
		_, err := requests.Depth(ctx)
		return err
	})
	return a.Run(ctx)
}

// Migrate creates the Kafka topic. The ingest service creates the table and the queues.
func Migrate(ctx context.Context, cfg *Config, _ *slog.Logger) error {
	return pkgkafka.EnsureTopics(ctx, cfg.Kafka, pkgkafka.Topic{Name: events.Requests})
}
