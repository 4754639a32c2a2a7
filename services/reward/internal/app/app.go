package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"urr.guru/pkg/config"
	"urr.guru/pkg/deadletter"
	"urr.guru/pkg/idempotency/answers"
	"urr.guru/pkg/inbox"
	pkgkafka "urr.guru/pkg/kafka"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/outbox"
	"urr.guru/pkg/plan"
	"urr.guru/pkg/plan/planned"
	pkgpostgres "urr.guru/pkg/postgres"
	pkgrpc "urr.guru/pkg/rpc"
	"urr.guru/proto/events"
	rewardv1 "urr.guru/proto/gen/urr/reward/v1"
	"urr.guru/services/reward/internal/campaign"
	"urr.guru/services/reward/internal/ingest"
	"urr.guru/services/reward/internal/kafka"
	"urr.guru/services/reward/internal/payout"
	"urr.guru/services/reward/internal/postgres"
	"urr.guru/services/reward/internal/provider"
	"urr.guru/services/reward/internal/rpc"
)

// name is the name of this service in logs, metrics and calls to other services.
const name = "reward"

// pageAge is how long a campaign is shown to members from memory before it is read again.
const pageAge = time.Second

// Run serves the RPCs and runs the background workers until ctx ends.
func Run(ctx context.Context, cfg *Config, log *slog.Logger) error {
	a, err := lifecycle.Start(ctx, name, cfg.Config, log)
	if err != nil {
		return err
	}
	pool, err := pkgpostgres.Attach(ctx, a, cfg.Postgres, postgres.SessionOptions()...)
	if err != nil {
		return err
	}
	reads, err := pkgpostgres.AttachReads(ctx, a, cfg.readPoolConfig(), postgres.SessionOptions()...)
	if err != nil {
		return err
	}
	relay, err := outbox.Attach(a, cfg.Kafka, pool)
	if err != nil {
		return err
	}
	database := postgres.New(pool, postgres.Options{Reads: reads, Published: relay.Signal})
	payouts := postgres.NewPayouts(database)
	a.OnClose("outcomes", payouts.Close)
	points := provider.New(cfg.PointURL, provider.Options{Token: cfg.PointToken, Rate: float64(cfg.Rate), Circuit: circuitGauge(payout.Point)})
	coupons := provider.New(cfg.CouponURL, provider.Options{Token: cfg.CouponToken, Rate: float64(cfg.Rate), Circuit: circuitGauge(payout.Coupon)})
	engines := newEngines(a, cfg, payouts, map[payout.Kind]*provider.Client{payout.Point: points, payout.Coupon: coupons}, log)
	a.Go("payouts", engines.run)
	operators := postgres.Operators{Database: database, WakePayouts: engines.wakeAll}
	winners := campaign.NewWinners(postgres.Winners{Database: database}, engines.wakeAll)
	consumer, err := kafka.NewConsumer(cfg.Kafka, winners, log)
	if err != nil {
		return err
	}
	a.Go("consumer", consumer.Run)
	a.Go("earlier winners", winners.EarlierWinnersWorker(log))
	a.Go("cancellations", payout.CancelWorker(operators, log))
	a.Go("retries", payout.RetryWorker(operators, log))
	a.Go("backlog", database.BacklogWorker(log))
	a.Go("inbox", inbox.Pruner(pool, log))
	a.Go("idempotency keys", answers.Pruner(pool, log))

	server, err := a.GRPC(cfg.RPC)
	if err != nil {
		return err
	}
	if err := deadletter.Attach(a, server, deadLetters(cfg), inbox.NewRedrivenLetters(pool)); err != nil {
		return err
	}
	entries := postgres.NewCampaigns(database)
	a.OnClose("entries", entries.Close)
	a.Go("expected openings", (&planned.Exporter{Kind: plan.Campaign, Find: entries.ExpectedOpenings, Now: time.Now}).Run(log))
	promotions, rekeyIngest, err := dialIngest(a, cfg.Ingest)
	if err != nil {
		return err
	}
	campaigns := campaign.NewService(campaign.Cached(entries, pageAge), promotions, engines.wakeAll)
	rewardv1.RegisterRewardServiceServer(server, rpc.New(campaigns, operators))
	rewardv1.RegisterRewardAdminServiceServer(server, rpc.NewAdmin(campaigns, operators, operators, operators))
	lifecycle.FollowSecrets(a, cfg, func(next *Config) error {
		points.Rekey(next.PointToken)
		coupons.Rekey(next.CouponToken)
		return errors.Join(rekeyIngest(next.Ingest.Key), server.Rekey(next.RPC.Accept))
	})
	return a.Run(ctx)
}

// dialIngest connects to the ingest service, unless its address is not set. It also returns a
// function that replaces the key of the connection.
func dialIngest(a *lifecycle.App, peer pkgrpc.OptionalPeer) (campaign.PromotionChecker, func(config.Secret) error, error) {
	if peer.Addr == "" {
		return nil, func(config.Secret) error { return nil }, nil
	}
	conn, err := a.Dial("ingest", pkgrpc.Peer(peer), pkgrpc.WithBreaker())
	if err != nil {
		return nil, nil, err
	}
	return ingest.New(conn), conn.Rekey, nil
}

// engines are the workers that pay rewards: one for points, one for coupons.
type engines []*payout.Engine

func newEngines(
	a *lifecycle.App, cfg *Config, payouts *postgres.Payouts, providers map[payout.Kind]*provider.Client, log *slog.Logger,
) (all engines) {
	for kind, client := range providers {
		a.OnClose("provider of "+string(kind), func(context.Context) error { client.Close(); return nil })
		all = append(all, payout.NewEngine(kind, payouts, client, cfg.policy(), cfg.Slots, log))
	}
	return all
}

// run runs the engines of all kinds as one worker: they stop together, so that no engine claims
// payouts while another one finishes its calls.
func (e engines) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, engine := range e {
		group.Go(func() error { return engine.Run(ctx) })
	}
	return group.Wait()
}

func (e engines) wakeAll() {
	for _, engine := range e {
		engine.Wake()
	}
}

// Outbox returns the operators' command for Kafka events that were put aside (parked) because one
// of the same key could not be published.
func Outbox() lifecycle.Command[Config] {
	return lifecycle.Command[Config]{
		Usage: outbox.Usage,
		Run:   outbox.OperatorCommand(name, func(cfg *Config) pkgpostgres.Config { return cfg.Postgres }),
	}
}

// deadLetters says where to find the Kafka events that this service's consumers could not process.
func deadLetters(cfg *Config) deadletter.Source {
	return deadletter.Source{Kafka: cfg.Kafka, Group: campaign.Group, Topics: events.ConsumedBy(name)}
}

// Kafka returns the command with which operators redrive dead letters.
func Kafka() lifecycle.Command[Config] {
	return deadletter.Command(name, deadLetters, func(ctx context.Context, cfg *Config) (deadletter.Marks, func(), error) {
		return inbox.OpenRedrivenLetters(ctx, cfg.Postgres, name)
	})
}

// Migrate applies the migrations of the database and creates the topics of this service. It also
// creates the topic that is consumed: the service that publishes to it may be installed later, and
// a consumer group without partitions would look broken.
func Migrate(ctx context.Context, cfg *Config, _ *slog.Logger) error {
	if err := pkgpostgres.MigrateOnce(ctx, cfg.Postgres, name, postgres.Migrations...); err != nil {
		return err
	}
	return pkgkafka.EnsureTopics(ctx, cfg.Kafka, pkgkafka.Topic{Name: events.Rewards}, pkgkafka.Topic{Name: events.Requests},
		pkgkafka.TopicOfRedriven(campaign.Group))
}
