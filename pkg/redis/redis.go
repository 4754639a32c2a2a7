// Package redis opens clients with the platform's time-outs: Redis is on visitors' paths, so one that does not answer must fail fast.
// Scripts are go-redis Scripts (EVALSHA, then EVAL); all keys of one share the event's hash tag, so that they work on a cluster.
package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"urr.guru/pkg/config"
	"urr.guru/pkg/errs"
)

// Config says where Redis is.
type Config struct {
	// Addrs are host:port; more than one is a cluster.
	Addrs []string `env:"REDIS_ADDRS, required"`
	// Cluster makes a single address a cluster's configuration endpoint.
	Cluster  bool          `env:"REDIS_CLUSTER"`
	Username string        `env:"REDIS_USERNAME"`
	Password config.Secret `env:"REDIS_PASSWORD"`
	TLS      bool          `env:"REDIS_TLS"`
	// PoolSize is the number of connections per node.
	PoolSize int `env:"REDIS_POOL_SIZE, default=32" min:"1" max:"1000"`
	// Patience bounds each of dialing, writing, answering and waiting for a connection, when it is set: tests whose machine may stall are
	// more patient than visitors.
	Patience time.Duration
}

// What a visitor's request can wait for.
const (
	dialTimeout = time.Second
	callTimeout = 500 * time.Millisecond
)

// Open makes a client. It dials when it is first used, so that Redis being down does not stop the start; readiness says so (Ping).
//
// A command has 500 ms to be written and 500 ms to be answered, and the caller's deadline besides; it is sent once more only when it is
// certain not to have arrived.
func Open(_ context.Context, cfg Config) (redis.UniversalClient, error) {
	dialing, calling := cmp.Or(cfg.Patience, dialTimeout), cmp.Or(cfg.Patience, callTimeout)
	opts := &redis.UniversalOptions{
		Addrs:                 cfg.Addrs,
		IsClusterMode:         cfg.Cluster,
		Username:              cfg.Username,
		Password:              cfg.Password.Reveal(),
		PoolSize:              cfg.PoolSize,
		DialTimeout:           dialing,
		DialerRetries:         1, // the command itself is tried twice
		ReadTimeout:           calling,
		WriteTimeout:          calling,
		PoolTimeout:           calling,
		ContextTimeoutEnabled: true,
		MaxRetries:            1,
		DisableIdentity:       true,
	}
	if cfg.TLS {
		opts.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if len(cfg.Addrs) == 0 {
		return nil, config.Missing("REDIS_ADDRS", "must be host:port, comma-separated for a cluster")
	}
	dial := dialer(redis.NewDialer(&redis.Options{DialTimeout: opts.DialTimeout, TLSConfig: opts.TLSConfig}))
	opts.Dialer = dial.once
	client := redis.NewUniversalClient(opts)
	client.AddHook(hook{})
	return client, nil
}

// Err gives what the client says its place in the platform's vocabulary: a server that is gone, loading, failing over, read-only or too
// slow becomes errs.ErrUnavailable. Everything else, redis.Nil too, is returned as it is.
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
	var gone *lostError
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
