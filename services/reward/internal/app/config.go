// Package app builds the reward service from its configuration and runs it.
package app

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"urr.guru/pkg/config"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/postgres"
	"urr.guru/pkg/rpc"
	"urr.guru/services/reward/internal/payout"
)

// Config is the service's configuration, which is read from environment variables.
type Config struct {
	lifecycle.Config
	RPC      rpc.ServerConfig
	Postgres postgres.Config
	Kafka    kafka.Config
	// Ingest tells whether promotions exist whose winners are to be rewarded; without an address they
	// are not checked.
	Ingest rpc.OptionalPeer `env:", prefix=INGEST_"`
	// ReadMaxConns bounds the connections for members' pages, in addition to those for entries, payouts
	// and operators.
	ReadMaxConns int `env:"DATABASE_READ_MAX_CONNS, default=8" min:"1" max:"1000"`

	// PointURL is the URL of the provider of points, to which /v1/payouts is added.
	PointURL string `env:"REWARD_POINT_URL, required"`
	// PointToken is sent to the provider of points as a bearer token; empty: none.
	PointToken config.Secret `env:"REWARD_POINT_TOKEN"`
	// CouponURL is the URL of the provider of coupons; it may equal PointURL.
	CouponURL string `env:"REWARD_COUPON_URL, required"`
	// CouponToken is sent to the provider of coupons as a bearer token; empty: none.
	CouponToken config.Secret `env:"REWARD_COUPON_TOKEN"`
	// CallTimeout bounds a call to a provider; the outcome of a longer one is unknown.
	CallTimeout time.Duration `env:"REWARD_CALL_TIMEOUT, default=10s" min:"50ms" max:"1m"`
	// Lease is how long a replica may work on a payout without a sign of life before another one
	// takes it over; at least 10s longer than CallTimeout, or twice as long where that is less.
	Lease time.Duration `env:"REWARD_LEASE, default=30s" min:"200ms" max:"10m"`
	// MaxAttempts is the number of calls that may fail before a payout is given up. Calls that never
	// reached the provider, and answers with 429 or 503, do not count.
	MaxAttempts int `env:"REWARD_MAX_ATTEMPTS, default=10" min:"1" max:"100"`
	// RetryMin is the pause after the first failure; it doubles with each further one.
	RetryMin time.Duration `env:"REWARD_RETRY_MIN, default=5m" min:"1ms" max:"1h"`
	// RetryMax is the longest pause after a failure; shorter than LookupRetention.
	RetryMax time.Duration `env:"REWARD_RETRY_MAX, default=6h" min:"1ms" max:"168h"`
	// SettleTime is the longest time from the start of a call until the provider pays: a payout that
	// the provider does not know is absent for good only after this time, or once its key is void.
	SettleTime time.Duration `env:"REWARD_SETTLE_TIME, default=15m" min:"100ms" max:"24h"`
	// KeyRetention is how long the providers recognise a repeated key; longer than CallTimeout and
	// SettleTime together.
	KeyRetention time.Duration `env:"REWARD_KEY_RETENTION, default=24h" min:"1s" max:"8760h"`
	// LookupRetention is how long the providers can tell whether a key was paid; not below
	// KeyRetention. A payout that is unknown for longer waits for an operator.
	LookupRetention time.Duration `env:"REWARD_LOOKUP_RETENTION, default=720h" min:"1s" max:"87600h"`
	// HoldAfter is how long a payout that is certainly unpaid may fail without an attempt that counts;
	// it then waits for an operator. Longer than RetryMax.
	HoldAfter time.Duration `env:"REWARD_HOLD_AFTER, default=168h" min:"1s" max:"8760h"`
	// Slots bounds the concurrent calls of one replica to the provider of each kind.
	Slots int `env:"REWARD_SLOTS, default=32" min:"1" max:"1000"`
	// Rate bounds the payments per second of one replica to the provider of each kind; 0: no limit.
	Rate int `env:"REWARD_RATE, default=0" min:"0" max:"100000"`
}

const (
	// maxRecoveries is how many workers may die during one payout, before it waits for an operator.
	maxRecoveries = 5
	// leaseMargin is how much a lease must outlast a call, to write the outcome and renew the lease.
	leaseMargin = 10 * time.Second
)

// Validate checks what the tags of the fields cannot express: rules between
// variables, keys and URLs.
func (c *Config) Validate() error {
	for _, p := range []struct {
		kind, url string
		token     config.Secret
	}{{"POINT", c.PointURL, c.PointToken}, {"COUPON", c.CouponURL, c.CouponToken}} {
		if u, err := url.Parse(p.url); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return config.Invalid("REWARD_"+p.kind+"_URL", p.url, "must be the provider's URL, as https://points.example/api")
		}
		if strings.ContainsFunc(p.token.Reveal(), func(r rune) bool { return r <= ' ' || r > '~' }) {
			return config.Invalid("REWARD_"+p.kind+"_TOKEN", p.token, "must be printable ASCII without spaces: it is sent in a header")
		}
	}
	if c.Ingest.Addr != "" && c.Ingest.Key == "" {
		return config.Missing("INGEST_RPC_KEY", "the key of the pair reward → ingest, needed with INGEST_ADDR")
	}
	return c.validateTimes()
}

func (c *Config) validateTimes() error {
	switch {
	case c.Lease < c.CallTimeout+min(c.CallTimeout, leaseMargin):
		return config.Invalid("REWARD_LEASE", c.Lease, fmt.Sprintf("must be at least %v longer than REWARD_CALL_TIMEOUT (%v): outcomes are written within it",
			min(c.CallTimeout, leaseMargin), c.CallTimeout))
	case c.RetryMax < c.RetryMin:
		return config.Invalid("REWARD_RETRY_MAX", c.RetryMax, fmt.Sprintf("must not be below REWARD_RETRY_MIN (%v)", c.RetryMin))
	case c.SettleTime < c.CallTimeout:
		return config.Invalid("REWARD_SETTLE_TIME", c.SettleTime, fmt.Sprintf("must not be below REWARD_CALL_TIMEOUT (%v)", c.CallTimeout))
	case c.KeyRetention <= c.CallTimeout+c.SettleTime:
		return config.Invalid("REWARD_KEY_RETENTION", c.KeyRetention,
			fmt.Sprintf("must be longer than REWARD_CALL_TIMEOUT and REWARD_SETTLE_TIME together (%v): a repeated call may arrive that late", c.CallTimeout+c.SettleTime))
	case c.LookupRetention < c.KeyRetention:
		return config.Invalid("REWARD_LOOKUP_RETENTION", c.LookupRetention, fmt.Sprintf("must not be below REWARD_KEY_RETENTION (%v)", c.KeyRetention))
	case c.LookupRetention <= c.RetryMax:
		return config.Invalid("REWARD_LOOKUP_RETENTION", c.LookupRetention,
			fmt.Sprintf("must be longer than REWARD_RETRY_MAX (%v): an unknown payout must be asked about within it", c.RetryMax))
	case c.HoldAfter <= c.RetryMax:
		return config.Invalid("REWARD_HOLD_AFTER", c.HoldAfter, fmt.Sprintf("must be longer than REWARD_RETRY_MAX (%v)", c.RetryMax))
	}
	return nil
}

// readPoolConfig returns the configuration of the connection pool for members' pages.
func (c *Config) readPoolConfig() postgres.Config {
	reads := c.Postgres
	reads.MaxConns = c.ReadMaxConns
	return reads
}

func (c *Config) policy() payout.Policy {
	return payout.Policy{
		CallTimeout: c.CallTimeout, Lease: c.Lease, MaxAttempts: c.MaxAttempts, RetryMin: c.RetryMin, RetryMax: c.RetryMax,
		MaxRecoveries: maxRecoveries, SettleTime: c.SettleTime, KeyRetention: c.KeyRetention, LookupRetention: c.LookupRetention,
		HoldAfter: c.HoldAfter,
	}
}
