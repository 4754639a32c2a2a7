// Package redis opens clients with the platform's time-outs: Redis is on visitors' paths, so one
// that does not answer must fail fast. Scripts are go-redis Scripts (EVALSHA, then EVAL); all keys
// of one share the event's hash tag, so that they work on a cluster.
package redis

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"urr.guru/pkg/config"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/redis/internal/client"
)

// Config says where Redis is.
type Config struct {
	// Addrs are host:port; more than one is a cluster.
	Addrs []string `env:"REDIS_ADDRS, required"`
	// Cluster makes a single address a cluster's configuration endpoint.
	Cluster bool `env:"REDIS_CLUSTER"`
	// DB is the number of the database on a single server; a cluster has only 0.
	DB int `env:"REDIS_DB" min:"0" max:"1000"`
	// Username signs in, with Password; empty: the user default.
	Username string `env:"REDIS_USERNAME"`
	// Password is asked for by a server that has one.
	Password config.Secret `env:"REDIS_PASSWORD"`
	// PasswordFile is where Password comes from, if it is a file. New connections sign in with what
	// it holds then.
	PasswordFile string `env:"REDIS_PASSWORD_FILE"`
	// TLS encrypts the connections.
	TLS bool `env:"REDIS_TLS"`
	// PoolSize is the number of connections per node.
	PoolSize int `env:"REDIS_POOL_SIZE, default=32" min:"1" max:"1000"`
}

// What a visitor's request can wait for.
const (
	dialTimeout = time.Second
	callTimeout = 500 * time.Millisecond
)

// Open makes a client. It dials when it is first used, so that Redis being down does not stop the
// start; readiness says so (Ping).
//
// A command has 500 ms to be written and 500 ms to be answered, and the caller's deadline besides;
// it is sent once more only when it is certain not to have arrived.
func Open(_ context.Context, cfg Config) (redis.UniversalClient, error) {
	return open(cfg, nil)
}

// open dials as it is told; nil is the network.
func open(cfg Config, dial client.Dialer) (redis.UniversalClient, error) {
	if len(cfg.Addrs) == 0 {
		return nil, config.Missing("REDIS_ADDRS", "must be host:port, comma-separated for a cluster")
	}
	if cfg.DB != 0 && (cfg.Cluster || len(cfg.Addrs) > 1) {
		return nil, config.Bad("REDIS_DB", cfg.DB, "must be 0 on a cluster, which has no other database")
	}
	return client.New(client.Options{
		Addrs: cfg.Addrs, Cluster: cfg.Cluster, DB: cfg.DB, TLS: cfg.TLS, Credentials: cfg.signIn, PoolSize: cfg.PoolSize,
		Dialing: dialTimeout, Answering: callTimeout, Dialer: dial,
	}), nil
}

// signIn is the user and the password of this moment.
func (c Config) signIn(context.Context) (username, password string, err error) {
	secret, err := config.Latest("REDIS_PASSWORD", c.PasswordFile, c.Password)
	return c.Username, secret.Reveal(), err
}

// Err gives what the client says its place in the platform's vocabulary: a server that is gone,
// loading, failing over, read-only or too slow becomes errs.ErrUnavailable. Everything else,
// redis.Nil too, is returned as it is.
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
		if strings.HasPrefix(err.Error(), prefix) {
			return true
		}
	}
	return false
}
