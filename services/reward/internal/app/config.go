// Package app wires the service.
package app

import (
	"net/url"
	"time"

	"urr.guru/pkg/config"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/postgres"
	"urr.guru/pkg/rpc"
	"urr.guru/services/reward/internal/payout"
)

// Config is what the service reads from its environment.
type Config struct {
	lifecycle.Config
	RPC      rpc.ServerConfig
	Postgres postgres.Config
	Kafka    kafka.Config

	// PointURL is the URL of the provider of points, CouponURL that of coupons.
	PointURL  string `env:"REWARD_POINT_URL, required"`
	CouponURL string `env:"REWARD_COUPON_URL, required"`
	// CallTimeout bounds a call to a provider.
	CallTimeout time.Duration `env:"REWARD_CALL_TIMEOUT, default=10s" min:"50ms" max:"1m"`
	// Lease is how long a replica may work on a payout before another one takes it over.
	Lease time.Duration `env:"REWARD_LEASE, default=30s" min:"200ms" max:"10m"`
	// MaxAttempts is the number of calls that may fail before a payout is given up.
	MaxAttempts int `env:"REWARD_MAX_ATTEMPTS, default=10" min:"1" max:"100"`
	// RetryMin is the pause after the first failure; it doubles up to RetryMax.
	RetryMin time.Duration `env:"REWARD_RETRY_MIN, default=5m" min:"1ms" max:"1h"`
	RetryMax time.Duration `env:"REWARD_RETRY_MAX, default=6h" min:"1ms" max:"168h"`
	// SettleTime is the longest time between the start of a call and its payment.
	SettleTime time.Duration `env:"REWARD_SETTLE_TIME, default=15m" min:"100ms" max:"24h"`
	// KeyRetention is how long the providers recognise a repeated key.
	KeyRetention time.Duration `env:"REWARD_KEY_RETENTION, default=24h" min:"1s" max:"8760h"`
	// LookupRetention is how long the providers answer what a call has paid.
	LookupRetention time.Duration `env:"REWARD_LOOKUP_RETENTION, default=720h" min:"1s" max:"87600h"`
	// Slots bounds the concurrent calls of one replica to one provider.
	Slots int `env:"REWARD_SLOTS, default=32" min:"1" max:"1000"`
	// Rate bounds the calls per second of one replica to one provider; 0: no limit.
	Rate int `env:"REWARD_RATE, default=0" min:"0" max:"100000"`
}

// maxRecoveries is the number of workers that may die with a payout.
const maxRecoveries = 5

// Validate checks what depends on more than one variable.
func (c *Config) Validate() error {
	for name, base := range map[string]string{"REWARD_POINT_URL": c.PointURL, "REWARD_COUPON_URL": c.CouponURL} {
		if u, err := url.Parse(base); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return config.Invalid(name, base, "must be the provider's URL, as http://127.0.0.1:8094")
		}
	}
	switch {
	case c.Lease < c.CallTimeout+c.CallTimeout/2:
		return config.Invalid("REWARD_LEASE", c.Lease, "must be at least half longer than REWARD_CALL_TIMEOUT: outcomes are written within it")
	case c.RetryMax < c.RetryMin:
		return config.Invalid("REWARD_RETRY_MAX", c.RetryMax, "must not be below REWARD_RETRY_MIN")
	case c.SettleTime < c.CallTimeout:
		return config.Invalid("REWARD_SETTLE_TIME", c.SettleTime, "must not be below REWARD_CALL_TIMEOUT")
	case c.LookupRetention < c.KeyRetention:
		return config.Invalid("REWARD_LOOKUP_RETENTION", c.LookupRetention, "must not be below REWARD_KEY_RETENTION")
	}
	return nil
}

func (c *Config) policy() payout.Policy {
	return payout.Policy{
		CallTimeout: c.CallTimeout, Lease: c.Lease, MaxAttempts: c.MaxAttempts, RetryMin: c.RetryMin, RetryMax: c.RetryMax,
		MaxRecoveries: maxRecoveries, SettleTime: c.SettleTime, KeyRetention: c.KeyRetention, LookupRetention: c.LookupRetention, Voids: true,
	}
}
