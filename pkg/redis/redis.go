// Package redis opens clients with the platform's timeouts: Redis is part of visitors' requests, so
// a server that does not answer must fail fast. Scripts are go-redis Scripts (EVALSHA, then EVAL);
// all keys of a script share the event's hash tag, so that they work on a cluster.
package redis

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"urr.guru/pkg/config"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/redis/internal/client"
)

// Config holds the addresses of Redis and the settings of its clients.
type Config struct {
	// Addrs are host:port; more than one is a cluster.
	Addrs []string `env:"REDIS_ADDRS, required"`
	// Cluster treats a single address as the configuration endpoint of a cluster.
	Cluster bool `env:"REDIS_CLUSTER"`
	// DB is the database number on a single server; a cluster has only 0.
	DB int `env:"REDIS_DB" min:"0" max:"1000"`
	// Username authenticates together with Password; empty: the user default.
	Username string `env:"REDIS_USERNAME"`
	// Password is needed if the server requires one.
	Password config.Secret `env:"REDIS_PASSWORD"`
	// PasswordFile is the file that Password was read from, if any. New connections use its current
	// content.
	PasswordFile string `env:"REDIS_PASSWORD_FILE"`
	// TLS encrypts the connections.
	TLS bool `env:"REDIS_TLS"`
	// PoolSize is the number of connections per node.
	PoolSize int `env:"REDIS_POOL_SIZE, default=32" min:"1" max:"1000"`
}

// Time limits of Redis calls, so that a visitor does not wait long.
const (
	dialTimeout = time.Second
	callTimeout = 500 * time.Millisecond
)

// Open makes a client that connects at first use, so that an unavailable Redis does not fail the
// start but the readiness check (Ping).
//
// A command has 500 ms to be sent and 500 ms to be answered, within the caller's deadline. It is
// retried once, and only when it was certainly not sent.
func Open(_ context.Context, cfg Config) (redis.UniversalClient, error) {
	return open(cfg, nil)
}

// open makes a client that connects by dial; nil: by the network.
func open(cfg Config, dial client.Dialer) (redis.UniversalClient, error) {
	if len(cfg.Addrs) == 0 {
		return nil, config.Missing("REDIS_ADDRS", "must be host:port, comma-separated for a cluster")
	}
	if cfg.DB != 0 && (cfg.Cluster || len(cfg.Addrs) > 1) {
		return nil, config.Invalid("REDIS_DB", cfg.DB, "must be 0 on a cluster, which has no other database")
	}
	return client.New(client.Options{
		Addrs: cfg.Addrs, Cluster: cfg.Cluster, DB: cfg.DB, TLS: cfg.TLS, Credentials: cfg.currentCredentials(), PoolSize: cfg.PoolSize,
		Dialing: dialTimeout, Answering: callTimeout, Dialer: dial,
	}), nil
}

func (c Config) currentCredentials() func(context.Context) (username, password string, err error) {
	password := config.LatestSecret("REDIS_PASSWORD", c.PasswordFile, c.Password)
	return func(context.Context) (string, string, error) { return c.Username, password().Reveal(), nil }
}

// Err converts errors of the client to the platform's: a server that is down, loading, failing
// over, read-only or too slow becomes errs.ErrUnavailable. All other errors, including redis.Nil,
// are returned unchanged.
func Err(err error) error {
	var known *errs.Error
	if err == nil || errors.As(err, &known) || !unavailable(err) {
		return err
	}
	return errs.ErrUnavailable.Wrap(err)
}

func unavailable(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, redis.Nil) {
		return false
	}
	var gone *client.LostError
	var network net.Error
	if errors.As(err, &gone) || errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrClosed) {
		return true
	}
	for _, prefix := range []string{"LOADING", "READONLY", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN", "BUSY ", "OOM ", "MISCONF", "NOREPLICAS"} {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}
