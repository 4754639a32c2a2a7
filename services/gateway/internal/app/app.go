package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/redis"
	"urr.guru/pkg/rpc"
	"urr.guru/proto/events"
	"urr.guru/services/gateway/internal/audit"
	"urr.guru/services/gateway/internal/web"

	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

// Time limits of the HTTP server. writeTimeout includes the time in the handler, so it is longer
// than the time-out of the slowest route. Streams set their own write deadlines.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeader         = 32 << 10
)

// Run runs the gateway until ctx ends.
func Run(ctx context.Context, cfg *Config, log *slog.Logger) error {
	a, err := lifecycle.Start(ctx, rpc.Gateway, cfg.Config, log)
	if err != nil {
		return err
	}
	acts, err := kafka.NewProducer(cfg.Kafka, a.Name())
	if err != nil {
		return err
	}
	a.OnClose("producer", acts.Close)
	return serve(ctx, a, cfg, acts, func(rekey func(*Config) error) { lifecycle.FollowSecrets(a, cfg, rekey) })
}

// runRoom runs a gateway for waiting rooms only until ctx ends.
func runRoom(ctx context.Context, cfg *RoomConfig, log *slog.Logger) error {
	a, err := lifecycle.Start(ctx, rpc.Room, cfg.Config, log)
	if err != nil {
		return err
	}
	return serve(ctx, a, &Config{RoomConfig: *cfg}, nil, func(rekey func(*Config) error) {
		lifecycle.FollowSecrets(a, cfg, func(next *RoomConfig) error { return rekey(&Config{RoomConfig: *next}) })
	})
}

// serve runs a gateway. acts is nil for a room, whose cfg has a RoomConfig only. follow has the
// keys replaced when the files with secrets change.
func serve(ctx context.Context, a *lifecycle.App, cfg *Config, acts audit.Publisher, follow func(rekey func(*Config) error)) error {
	log := a.Log()
	services, conns, err := dial(a, cfg)
	if err != nil {
		return err
	}
	rdb, err := redis.Attach(ctx, a, cfg.Redis)
	if err != nil {
		return err
	}
	limits := rdb
	if own, separate := cfg.limitsRedis(); separate {
		if limits, err = redis.AttachAs(ctx, a, "redis-limits", own); err != nil {
			return err
		}
	}
	pages, err := web.New(cfg.Pages(services))
	if err != nil {
		return err
	}
	g, err := Assemble(ctx, cfg, services, pages, Stores{Redis: rdb, Limits: limits, Acts: acts}, log, failpoint.Now)
	if err != nil {
		return err
	}
	a.OnClose("gateway", g.Close)
	a.Ready("waiting rooms", g.Ready)
	a.Ready("revoked sessions", g.Revoked.Ready)
	if g.Audit != nil {
		a.Go("audit", g.Audit.Run)
	}
	a.Go("overload", g.Load.Run)
	a.Go("revoked sessions", func(ctx context.Context) error { return g.Revoked.Watch(ctx, log) })
	if services.VWR != nil {
		a.Go("waiting rooms", func(ctx context.Context) error {
			return g.Rooms.Watch(ctx, vwrv1.NewVwrServiceClient(services.VWR), log)
		})
	}
	a.Go("lines", func(ctx context.Context) error {
		return g.Lines.Watch(ctx, queuev1.NewQueueServiceClient(services.Queue), log)
	})
	follow(func(next *Config) error { return errors.Join(g.rekey(next), conns.rekey(next)) })
	l, err := a.Listen("HTTP_ADDR", cfg.HTTPAddr)
	if err != nil {
		return err
	}
	srv := newServer(g.Handler)
	srv.RegisterOnShutdown(g.EndStreams)
	a.ServeHTTP("http", l, srv)
	return a.Run(ctx)
}

// Migrate creates the Kafka topic for the records of operators' acts. The gateway has no tables.
func Migrate(ctx context.Context, cfg *Config, _ *slog.Logger) error {
	return kafka.EnsureTopics(ctx, cfg.Kafka, kafka.Topic{Name: events.Audit, MayForget: true})
}

func newServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
	}
}
