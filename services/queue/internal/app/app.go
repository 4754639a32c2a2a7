package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"path"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	pkgkafka "urr.guru/pkg/kafka"
	"urr.guru/pkg/lifecycle"
	pkgredis "urr.guru/pkg/redis"
	pkgrpc "urr.guru/pkg/rpc"
	pkgsqs "urr.guru/pkg/sqs"
	"urr.guru/services/queue/internal/kafka"
	"urr.guru/services/queue/internal/line"
	"urr.guru/services/queue/internal/redis"
	"urr.guru/services/queue/internal/rpc"
	"urr.guru/services/queue/internal/seal"
	"urr.guru/services/queue/internal/sqs"
	"urr.guru/services/queue/internal/ticket"
)

// ticketTimeout bounds a call to ticket that has no deadline of its own.
const ticketTimeout = 2 * time.Second

// Run serves until ctx ends.
func Run(ctx context.Context, cfg *Config, log *slog.Logger) error {
	a := lifecycle.New("queue", cfg.Config, log)
	if err := a.Telemetry(ctx); err != nil {
		return err
	}
	sealer, err := seal.New(cfg.EntryTokenSecret)
	if err != nil {
		return err
	}
	client, err := openRedis(ctx, a, cfg.Redis)
	if err != nil {
		return err
	}
	store, err := redis.NewStore(client, cfg.rules())
	if err != nil {
		return err
	}
	a.OnClose("store", store.Close)
	events, err := dialTicket(a, cfg.Ticket)
	if err != nil {
		return err
	}
	announcer, err := announcer(ctx, a, cfg.SQS, log)
	if err != nil {
		return err
	}
	service := line.NewService(line.Deps{
		Store: store, Book: line.NewBook(time.Now), Seal: sealer, Events: events, Announce: announcer, Meter: meter{},
		Rules: cfg.rules(), Log: log, Now: time.Now,
	})
	reservations, err := pkgkafka.NewConsumer(cfg.Kafka, kafka.Group, []string{kafka.Topic}, kafka.Handler(service), log)
	if err != nil {
		return err
	}
	server, err := pkgrpc.NewServer("queue", cfg.ServerConfig, log)
	if err != nil {
		return err
	}
	rpc.Register(server, service, service, ctx.Done())

	worker := line.NewWorker(service, milliseconds(cfg.AdmissionInterval), milliseconds(cfg.CleanupInterval))
	a.Go("admission", worker.Admit)
	a.Go("cleanup", worker.Clean)
	a.Go("reservations", reservations.Run)
	a.ServeGRPC(server)
	a.Ready("redis", store.Ping)
	return a.Run(ctx)
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func openRedis(ctx context.Context, a *lifecycle.App, cfg pkgredis.Config) (goredis.UniversalClient, error) {
	client, err := pkgredis.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	a.OnClose("redis", func(context.Context) error { return client.Close() })
	return client, nil
}

// dialTicket makes two connections, so that titles, which a visitor can do without, trip a breaker of their own.
func dialTicket(a *lifecycle.App, peer pkgrpc.Peer) (*ticket.Directory, error) {
	titles, err := pkgrpc.Dial("queue", "ticket", peer, pkgrpc.WithTimeout(ticketTimeout), pkgrpc.WithBreaker())
	if err != nil {
		return nil, err
	}
	a.OnClose("ticket titles", func(context.Context) error { return titles.Close() })
	settings, err := pkgrpc.Dial("queue", "ticket", peer, pkgrpc.WithTimeout(ticketTimeout))
	if err != nil {
		return nil, err
	}
	a.OnClose("ticket settings", func(context.Context) error { return settings.Close() })
	return ticket.New(titles, settings), nil
}

func announcer(ctx context.Context, a *lifecycle.App, cfg pkgsqs.Config, log *slog.Logger) (line.Announcer, error) {
	if !cfg.Enabled {
		return sqs.Nobody{}, nil
	}
	client, err := pkgsqs.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	out := sqs.New(client, cfg.QueueURL, log)
	a.Go("announcer", out.Run)
	return out, nil
}

// Migrate makes the topic that is listened to and, when it is used, the SQS queue.
func Migrate(ctx context.Context, cfg *Config, log *slog.Logger) error {
	if err := pkgkafka.EnsureTopics(ctx, cfg.Kafka, pkgkafka.Topic{Name: kafka.Topic}); err != nil {
		return err
	}
	log.InfoContext(ctx, "topic is there", "topic", kafka.Topic)
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
	made, err := pkgsqs.EnsureFIFO(ctx, client, pkgsqs.Queue{Name: name, Visibility: 30 * time.Second, MaxReceives: 100})
	if err != nil {
		return err
	}
	log.InfoContext(ctx, "queue is there", "url", made)
	return nil
}

// queueName is the last part of a queue's URL without the suffix of FIFO queues.
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
