package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path"
	"strings"
	"time"

	"urr.guru/pkg/config"
	"urr.guru/pkg/deadletter"
	pkgkafka "urr.guru/pkg/kafka"
	"urr.guru/pkg/lifecycle"
	pkgredis "urr.guru/pkg/redis"
	pkgrpc "urr.guru/pkg/rpc"
	pkgsqs "urr.guru/pkg/sqs"
	topics "urr.guru/proto/events"
	"urr.guru/services/queue/internal/kafka"
	"urr.guru/services/queue/internal/line"
	"urr.guru/services/queue/internal/redis"
	"urr.guru/services/queue/internal/rpc"
	"urr.guru/services/queue/internal/seal"
	"urr.guru/services/queue/internal/sqs"
	"urr.guru/services/queue/internal/ticket"
)

// ticketTimeout is the time limit of a call to the ticket service without a deadline of its own.
const ticketTimeout = 2 * time.Second

// name is the name of the service in logs, metrics and calls.
const name = "queue"

// Run runs the queue service until ctx ends.
func Run(ctx context.Context, cfg *Config, log *slog.Logger) error {
	a, err := lifecycle.Start(ctx, name, cfg.Config, log)
	if err != nil {
		return err
	}
	sealer, err := seal.New(cfg.EntryTokenSecret, cfg.TicketSecret)
	if err != nil {
		return err
	}
	client, err := pkgredis.Attach(ctx, a, cfg.Redis)
	if err != nil {
		return err
	}
	store, err := redis.NewStore(client, cfg.lineRules())
	if err != nil {
		return err
	}
	a.OnClose("store", store.Close)
	events, rekeyTicket, err := dialTicket(a, cfg.Ticket)
	if err != nil {
		return err
	}
	a.OnClose("entitlements", events.Close)
	announcer, err := newAnnouncer(ctx, a, cfg.SQS, log)
	if err != nil {
		return err
	}
	service := line.NewService(line.Deps{
		Store: store, Cache: line.NewLineCache(time.Now), Seal: sealer, Events: events, Sales: events, Entitled: events, Announce: announcer, Meter: prometheusMeter{},
		Rules: cfg.lineRules(), Log: log, Now: time.Now,
	})
	a.OnClose("questions", service.Close)
	reservations, err := pkgkafka.NewConsumer(cfg.Kafka, kafka.Group, []string{topics.Reservations}, kafka.Handler(service), log)
	if err != nil {
		return err
	}
	server, err := a.GRPC(cfg.RPC)
	if err != nil {
		return err
	}
	if err := deadletter.Attach(a, server, deadLetters(cfg), redis.NewRedrivenLetters(client)); err != nil {
		return err
	}
	rpc.Register(server, service, service, service, ctx.Done())

	worker := line.NewWorker(service, milliseconds(cfg.AdmissionInterval), milliseconds(cfg.CleanupInterval))
	a.Go("admission", worker.RunTicks)
	a.Go("cleanup", worker.RunCleanups)
	a.Go("settings", worker.RunSettingsReads)
	a.Go("sales", worker.RunSaleReads)
	a.Go("acts", worker.RunActSends)
	a.Go("entitlements", worker.RunEntitlementAsks)
	a.Go("reservations", reservations.Run)
	lifecycle.FollowSecrets(a, cfg, func(next *Config) error {
		return errors.Join(sealer.Rekey(next.EntryTokenSecret, next.TicketSecret), rekeyTicket(next.Ticket.Key), server.Rekey(next.RPC.Accept))
	})
	a.Ready("redis", store.Ping)
	a.Ready("sales", worker.Ready)
	return a.Run(ctx)
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// dialTicket opens three connections to the ticket service: one for titles and one for
// entitlements, both with a circuit breaker since visitors wait for these calls, and one without
// for settings. It also returns the function that replaces the keys of the connections.
func dialTicket(a *lifecycle.App, peer pkgrpc.Peer) (*ticket.Directory, func(config.Secret) error, error) {
	titles, err := a.Dial("ticket", peer, pkgrpc.WithTimeout(ticketTimeout), pkgrpc.WithBreaker())
	if err != nil {
		return nil, nil, err
	}
	settings, err := a.Dial("ticket", peer, pkgrpc.WithTimeout(ticketTimeout))
	if err != nil {
		return nil, nil, err
	}
	entitlements, err := a.Dial("ticket", peer, pkgrpc.WithTimeout(ticketTimeout), pkgrpc.WithBreaker())
	if err != nil {
		return nil, nil, err
	}
	rekey := func(key config.Secret) error {
		return errors.Join(titles.Rekey(key), settings.Rekey(key), entitlements.Rekey(key))
	}
	return ticket.New(titles, settings, entitlements), rekey, nil
}

// newAnnouncer makes the announcer that sends admissions to SQS. If SQS is off, it drops them.
func newAnnouncer(ctx context.Context, a *lifecycle.App, cfg pkgsqs.Config, log *slog.Logger) (line.Announcer, error) {
	if !cfg.Enabled {
		return sqs.Disabled{}, nil
	}
	client, err := pkgsqs.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	out := sqs.New(client, cfg.QueueURL, log)
	a.Go("announcer", out.Run)
	return out, nil
}

// deadLetters returns the consumer group and the topics whose dead letters belong to this service.
func deadLetters(cfg *Config) deadletter.Source {
	return deadletter.Source{Kafka: cfg.Kafka, Group: kafka.Group, Topics: topics.ConsumedBy(name)}
}

// Kafka returns the subcommand `kafka`, with which operators list and reprocess dead letters.
func Kafka() lifecycle.Command[Config] {
	return deadletter.Command(name, deadLetters, func(ctx context.Context, cfg *Config) (deadletter.Marks, func(), error) {
		client, err := pkgredis.Open(ctx, cfg.Redis)
		if err != nil {
			return nil, nil, err
		}
		return redis.NewRedrivenLetters(client), func() { _ = client.Close() }, nil
	})
}

// Migrate creates the topic of redriven letters, and the SQS queue if it is enabled.
func Migrate(ctx context.Context, cfg *Config, log *slog.Logger) error {
	if err := pkgkafka.EnsureTopics(ctx, cfg.Kafka, pkgkafka.TopicOfRedriven(kafka.Group)); err != nil {
		return err
	}
	if !cfg.SQS.Enabled {
		return nil
	}
	name, err := queueName(cfg.SQS.QueueURL)
	if err != nil {
		return err
	}
	client, err := pkgsqs.Open(ctx, cfg.SQS)
	if err != nil {
		return err
	}
	createdURL, err := pkgsqs.EnsureFIFO(ctx, client, pkgsqs.Queue{Name: name, Visibility: 30 * time.Second, MaxReceives: 100})
	if err != nil {
		return err
	}
	log.InfoContext(ctx, "queue is there", "url", createdURL)
	return nil
}

// queueName returns the last part of a queue's URL without the suffix .fifo.
func queueName(queueURL string) (string, error) {
	u, err := url.Parse(queueURL)
	if err != nil {
		return "", fmt.Errorf("SQS_QUEUE_URL: %w", err)
	}
	name, fifo := strings.CutSuffix(path.Base(u.Path), ".fifo")
	if !fifo || name == "" {
		return "", fmt.Errorf("SQS_QUEUE_URL=%q: must end with the name of a FIFO queue (.fifo)", queueURL)
	}
	return name, nil
}
