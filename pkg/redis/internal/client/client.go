// Package client makes Redis clients that send each command once and trace it. The caller chooses
// the timeouts: package redis uses the platform's limits, redistest none.
package client

import (
	"context"
	"crypto/tls"
	"time"

	"github.com/redis/go-redis/v9"
)

// Options configure a Redis client.
type Options struct {
	Addrs              []string
	Cluster, TLS       bool
	DB                 int
	Credentials        func(context.Context) (username, password string, err error) // nil: no authentication
	PoolSize           int
	Dialing, Answering time.Duration // Answering is also the limit of writing and of waiting for a connection
	Dialer             Dialer        // nil means the network
}

// New makes a client. It connects at first use.
func New(o Options) redis.UniversalClient {
	opts := &redis.UniversalOptions{
		Addrs:                 o.Addrs,
		IsClusterMode:         o.Cluster,
		DB:                    o.DB,
		PoolSize:              o.PoolSize,
		DialTimeout:           o.Dialing,
		DialerRetries:         1, // connects once per attempt; a command gets two attempts
		ReadTimeout:           o.Answering,
		WriteTimeout:          o.Answering,
		PoolTimeout:           o.Answering,
		ContextTimeoutEnabled: true,
		MaxRetries:            1,
		DisableIdentity:       true,

		CredentialsProviderContext: o.Credentials,
	}
	if o.TLS {
		opts.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	dial := o.Dialer
	if dial == nil {
		dial = redis.NewDialer(&redis.Options{DialTimeout: opts.DialTimeout, TLSConfig: opts.TLSConfig})
	}
	opts.Dialer = dial.dialOnce
	client := redis.NewUniversalClient(opts)
	client.AddHook(tracingHook{})
	return client
}
