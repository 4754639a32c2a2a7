// Package app wires the gateway together.
package app

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"urr.guru/pkg/config"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/redis"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/token"
	"urr.guru/services/gateway/internal/identity"
	"urr.guru/services/gateway/internal/limit"
)

// Config of the gateway.
type Config struct {
	lifecycle.Config

	// HTTPAddr is host:port that browsers reach, through whatever stands in front.
	HTTPAddr string `env:"HTTP_ADDR, required"`
	// SecureCookies is off only where there is no https.
	SecureCookies bool `env:"SECURE_COOKIES, default=true"`
	// DevLogin lets anybody sign in as anybody.
	DevLogin bool `env:"DEV_LOGIN"`
	// TrustedProxies are the networks whose X-Forwarded-For is believed.
	TrustedProxies []string `env:"TRUSTED_PROXIES"`
	// TrustedOrigins are other origins whose pages may send requests, as https://shop.example.
	TrustedOrigins []string `env:"TRUSTED_ORIGINS"`
	// CloudFrontSecret is the value of X-CloudFront-Verified, ≥ 32 bytes; empty: the header means nothing.
	CloudFrontSecret config.Secret `env:"CLOUDFRONT_SECRET"`
	// VerifySlots asks queue about the slot of every purchase, so that a revoked one ends at once.
	VerifySlots bool `env:"VERIFY_SLOTS, default=true"`
	// SessionLife is how long a sign-in lasts.
	SessionLife time.Duration `env:"SESSION_LIFE, default=12h" min:"1m" max:"720h"`
	// TokenCache is how many verified tokens of each kind are kept, about 700 bytes each.
	TokenCache int `env:"TOKEN_CACHE, default=100000" min:"1" max:"10000000"`

	SessionSecret    config.Secret `env:"SESSION_SECRET, required"`
	EntryTokenSecret config.Secret `env:"QUEUE_ENTRY_TOKEN_SECRET, required"`
	// VWRTokenSecret is needed with VWR_ADDR.
	VWRTokenSecret config.Secret `env:"VWR_TOKEN_SECRET"`

	// VWR without an address: tier 2 alone.
	VWR     rpc.Peer `env:", prefix=VWR_"`
	Queue   rpc.Peer `env:", prefix=QUEUE_"`
	Ticket  rpc.Peer `env:", prefix=TICKET_"`
	Payment rpc.Peer `env:", prefix=PAYMENT_"`
	Stats   rpc.Peer `env:", prefix=STATS_"`

	Redis  redis.Config
	Limits Limits
}

// Limits are requests per second and bursts, each per network (IPv4 address or IPv6 /64), visitor and user. A rate of 0 means no limit.
// Mutations are counted over all gateways, polls (whatever changes nothing) by each.
type Limits struct {
	NetworkRate  float64 `env:"LIMIT_NETWORK_RATE, default=1000" min:"0"`
	NetworkBurst int     `env:"LIMIT_NETWORK_BURST, default=10000" min:"1"`
	VisitorRate  float64 `env:"LIMIT_VISITOR_RATE, default=5" min:"0"`
	VisitorBurst int     `env:"LIMIT_VISITOR_BURST, default=30" min:"1"`
	UserRate     float64 `env:"LIMIT_USER_RATE, default=10" min:"0"`
	UserBurst    int     `env:"LIMIT_USER_BURST, default=60" min:"1"`

	PollNetworkRate  float64 `env:"LIMIT_POLL_NETWORK_RATE, default=10000" min:"0"`
	PollNetworkBurst int     `env:"LIMIT_POLL_NETWORK_BURST, default=50000" min:"1"`
	PollVisitorRate  float64 `env:"LIMIT_POLL_VISITOR_RATE, default=10" min:"0"`
	PollVisitorBurst int     `env:"LIMIT_POLL_VISITOR_BURST, default=100" min:"1"`
	PollUserRate     float64 `env:"LIMIT_POLL_USER_RATE, default=20" min:"0"`
	PollUserBurst    int     `env:"LIMIT_POLL_USER_BURST, default=200" min:"1"`

	// Keys bounds the memory of the counts in the process.
	Keys int `env:"LIMIT_KEYS, default=1000000" min:"64" max:"100000000"`
}

// Validate implements what config.Load asks for.
func (c *Config) Validate() error {
	var all []error
	if c.DevLogin && c.SecureCookies {
		all = append(all, config.Bad("DEV_LOGIN", true, "must not be on together with SECURE_COOKIES: it lets anybody be anybody"))
	}
	if _, err := limit.ParseProxies(c.TrustedProxies); err != nil {
		all = append(all, config.Bad("TRUSTED_PROXIES", c.TrustedProxies, err.Error()))
	}
	for _, o := range c.TrustedOrigins {
		if http.NewCrossOriginProtection().AddTrustedOrigin(o) != nil {
			all = append(all, config.Bad("TRUSTED_ORIGINS", o, "must be origins as https://shop.example, without a path"))
		}
	}
	if n := len(c.CloudFrontSecret.Reveal()); n > 0 && n < token.MinSecret {
		all = append(all, fmt.Errorf("CLOUDFRONT_SECRET: the secret has %d bytes, at least %d are needed", n, token.MinSecret))
	}
	for name, peer := range map[string]rpc.Peer{"QUEUE": c.Queue, "TICKET": c.Ticket, "PAYMENT": c.Payment, "STATS": c.Stats} {
		if peer.Addr == "" {
			all = append(all, config.Missing(name+"_ADDR", "must be host:port or dns:///host:port"))
		}
	}
	if _, err := c.keys(); err != nil {
		all = append(all, err)
	}
	return errors.Join(all...)
}

// keys parses every key set.
func (c *Config) keys() (identity.Keys, error) {
	k := identity.Keys{CDN: c.CloudFrontSecret}
	var all []error
	parse := func(into *token.KeySet, name string, s config.Secret) {
		set, err := token.ParseKeySet(s)
		if err != nil {
			all = append(all, fmt.Errorf("%s: %w", name, err))
		}
		*into = set
	}
	parse(&k.Session, "SESSION_SECRET", c.SessionSecret)
	parse(&k.Entry, "QUEUE_ENTRY_TOKEN_SECRET", c.EntryTokenSecret)
	if c.VWR.Addr != "" {
		parse(&k.Tier1, "VWR_TOKEN_SECRET", c.VWRTokenSecret)
	}
	return k, errors.Join(all...)
}

// limits is the limiter's configuration.
func (l Limits) limits() limit.Config {
	return limit.Config{
		Mutations: limit.Rules{
			Network: limit.Rule{Rate: l.NetworkRate, Burst: l.NetworkBurst},
			Visitor: limit.Rule{Rate: l.VisitorRate, Burst: l.VisitorBurst},
			User:    limit.Rule{Rate: l.UserRate, Burst: l.UserBurst},
		},
		Polls: limit.Rules{
			Network: limit.Rule{Rate: l.PollNetworkRate, Burst: l.PollNetworkBurst},
			Visitor: limit.Rule{Rate: l.PollVisitorRate, Burst: l.PollVisitorBurst},
			User:    limit.Rule{Rate: l.PollUserRate, Burst: l.PollUserBurst},
		},
		Keys: l.Keys, Timeout: 100 * time.Millisecond, Pause: time.Second,
	}
}
