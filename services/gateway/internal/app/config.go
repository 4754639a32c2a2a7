// Package app builds the gateway from its configuration and runs it.
package app

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"urr.guru/pkg/config"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/redis"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/token"
	"urr.guru/services/gateway/internal/captcha"
	"urr.guru/services/gateway/internal/identity"
	"urr.guru/services/gateway/internal/limit"
	"urr.guru/services/gateway/internal/session"
)

// RoomConfig is what the command room reads from its environment: what the routes of waiting rooms
// need, and nothing that makes a session, a tier-1 token or an entry token.
type RoomConfig struct {
	lifecycle.Config

	// HTTPAddr is the host:port of the HTTP server, for browsers, proxies and the CDN.
	HTTPAddr string `env:"HTTP_ADDR, required"`
	// SecureCookies marks cookies as Secure; false only for plain http.
	SecureCookies bool `env:"SECURE_COOKIES, default=true"`
	Captcha       captcha.Settings
	// TrustedProxies are the networks from which X-Forwarded-For is accepted.
	TrustedProxies []string `env:"TRUSTED_PROXIES"`
	// TrustedOrigins are other origins whose pages may send requests, as https://shop.example.
	TrustedOrigins []string `env:"TRUSTED_ORIGINS"`
	// CloudFrontSecret are the values of X-CloudFront-Verified that the CDN sends, ≥ 32 bytes each
	// and separated by commas; empty: requests may bypass the CDN.
	CloudFrontSecret config.Secret `env:"CLOUDFRONT_SECRET"`
	// PollMaxWait is how long the tenth of the goroutines that wait longest for a processor may wait
	// before polls of those who wait are refused; 0: they never are.
	PollMaxWait time.Duration `env:"POLL_MAX_WAIT, default=100ms" min:"0s" max:"10s"`
	// SessionLife is how long a session lasts; a lower value also shortens existing sessions.
	SessionLife time.Duration `env:"SESSION_LIFE, default=12h" min:"1m" max:"720h"`
	// TokenCache is how many verified tokens of each kind are kept, about 700 bytes each.
	TokenCache int `env:"TOKEN_CACHE, default=300000" min:"1" max:"10000000"`

	// VisitorSecret signs visitors' cookies, challenges and the tags by which the room's pods know
	// sessions: kid:secret[,kid:secret…], at least 32 bytes each; the first signs, all verify.
	VisitorSecret config.Secret `env:"VISITOR_SECRET, required"`
	// VWRTicketSecret verifies tier-1 tickets: the same value as in vwr; required with VWR_ADDR.
	VWRTicketSecret config.Secret `env:"VWR_TICKET_SECRET"`

	// VWR may lack an address: then there is no tier 1, only tier 2.
	VWR   rpc.OptionalPeer `env:", prefix=VWR_"`
	Queue rpc.Peer         `env:", prefix=QUEUE_"`

	Redis  redis.Config
	Limits Limits
}

// Config is what the gateway reads from its environment.
type Config struct {
	RoomConfig

	// DevLogin lets visitors sign in as any user without a password; not together with
	// SECURE_COOKIES or OIDC_ISSUER.
	DevLogin bool `env:"DEV_LOGIN"`
	OIDC     session.OIDC
	Pay      PayPage
	// VerifySlots asks queue about the slot of every purchase, so that a revoked one ends at once.
	VerifySlots bool `env:"VERIFY_SLOTS, default=true"`

	// SessionSecret signs sessions and sign-in attempts: kid:secret[,kid:secret…], at least 32 bytes
	// each; the first signs, all verify.
	SessionSecret config.Secret `env:"SESSION_SECRET, required"`
	// EntryTokenSecret verifies entry tokens: the same value as in queue.
	EntryTokenSecret config.Secret `env:"QUEUE_ENTRY_TOKEN_SECRET, required"`
	// VWRTokenSecret verifies tier-1 tokens: the same value as in vwr; required with VWR_ADDR.
	VWRTokenSecret config.Secret `env:"VWR_TOKEN_SECRET"`

	Peers

	Kafka kafka.Config
}

// Limits are the rate limits. Mutations are counted over all gateways together, polls by each
// gateway.
type Limits struct {
	// NetworkRate is the requests a second of an IPv4 address or IPv6 /64 (a carrier's NAT is one)
	// that change something, and at each replica four times that per /56 and sixteen times per /48; 0:
	// no limit.
	NetworkRate float64 `env:"LIMIT_NETWORK_RATE, default=1000" min:"0"`
	// NetworkBurst is how many requests of one network that change something may come at once.
	NetworkBurst int `env:"LIMIT_NETWORK_BURST, default=10000" min:"1" max:"1000000000"`
	// VisitorRate is the requests a second of a visitor that change something; 0: no limit.
	VisitorRate float64 `env:"LIMIT_VISITOR_RATE, default=5" min:"0"`
	// VisitorBurst is how many requests of one visitor that change something may come at once.
	VisitorBurst int `env:"LIMIT_VISITOR_BURST, default=30" min:"1" max:"1000000000"`
	// UserRate is the requests a second of a signed-in user that change something; 0: no limit.
	UserRate float64 `env:"LIMIT_USER_RATE, default=10" min:"0"`
	// UserBurst is how many requests of one user that change something may come at once.
	UserBurst int `env:"LIMIT_USER_BURST, default=60" min:"1" max:"1000000000"`

	// PollNetworkRate is the requests a second of a network that change nothing, four times that per
	// /56 and sixteen times per /48, at each replica; 0: no limit.
	PollNetworkRate float64 `env:"LIMIT_POLL_NETWORK_RATE, default=10000" min:"0"`
	// PollNetworkBurst is how many requests of one network that change nothing may come at once,
	// at each replica.
	PollNetworkBurst int `env:"LIMIT_POLL_NETWORK_BURST, default=50000" min:"1" max:"1000000000"`
	// PollVisitorRate is the requests a second of a visitor that change nothing, at each replica;
	// 0: no limit.
	PollVisitorRate float64 `env:"LIMIT_POLL_VISITOR_RATE, default=10" min:"0"`
	// PollVisitorBurst is how many requests of one visitor that change nothing may come at once,
	// at each replica.
	PollVisitorBurst int `env:"LIMIT_POLL_VISITOR_BURST, default=100" min:"1" max:"1000000000"`
	// PollUserRate is the requests a second of a user that change nothing, at each replica; 0: no
	// limit.
	PollUserRate float64 `env:"LIMIT_POLL_USER_RATE, default=20" min:"0"`
	// PollUserBurst is how many requests of one user that change nothing may come at once, at
	// each replica.
	PollUserBurst int `env:"LIMIT_POLL_USER_BURST, default=200" min:"1" max:"1000000000"`

	// NewVisitorRate is how many new visitors a second are accepted from a network, four times that
	// per /56 and sixteen times per /48; 0: no limit.
	NewVisitorRate float64 `env:"LIMIT_NEW_VISITOR_RATE, default=10" min:"0"`
	// NewVisitorBurst is how many new visitors are accepted from a network at once.
	NewVisitorBurst int `env:"LIMIT_NEW_VISITOR_BURST, default=3000" min:"1" max:"1000000000"`
	// SignInRate is how many returns from the identity provider a second are accepted from a
	// network, four times that per /56 and sixteen times per /48; 0: no limit.
	SignInRate float64 `env:"LIMIT_SIGN_IN_RATE, default=10" min:"0"`
	// SignInBurst is how many such returns are accepted at once.
	SignInBurst int `env:"LIMIT_SIGN_IN_BURST, default=1000" min:"1" max:"1000000000"`
	// FreeVisitorRate is how many new visitors a second of a network owe no proof of work, four
	// times that per /56 and sixteen times per /48; 0: nobody owes a proof because of the network.
	FreeVisitorRate float64 `env:"LIMIT_FREE_VISITOR_RATE, default=0.5" min:"0"`
	// FreeVisitorBurst is how many new visitors without a proof of work may come at once.
	FreeVisitorBurst int `env:"LIMIT_FREE_VISITOR_BURST, default=300" min:"1" max:"1000000000"`
	// ProofMinBits is the proof of work that each new visitor beyond FreeVisitorRate owes for a
	// position, in leading zero bits of SHA-256. When the number of such visitors beyond the burst
	// reaches twice the burst, they owe one bit more, which doubles the work, and so on at each
	// doubling.
	ProofMinBits int `env:"LIMIT_PROOF_MIN_BITS, default=16" min:"1" max:"24"`
	// ProofMaxBits is the most that such a visitor owes; at least LIMIT_PROOF_MIN_BITS.
	ProofMaxBits int `env:"LIMIT_PROOF_MAX_BITS, default=20" min:"1" max:"24"`

	// RedisAddrs are host:port of a Redis only for these counts, which may forget what it has; empty: that
	// of REDIS_ADDRS. It has the same user, password and TLS.
	RedisAddrs []string `env:"LIMIT_REDIS_ADDRS"`
	// RedisCluster treats a single address of LIMIT_REDIS_ADDRS as the configuration endpoint of a
	// cluster.
	RedisCluster bool `env:"LIMIT_REDIS_CLUSTER"`

	// Keys is how many networks, visitors and users a replica keeps counts of; it bounds the
	// memory.
	Keys int `env:"LIMIT_KEYS, default=1000000" min:"64" max:"100000000"`
}

// Validate checks what the fields' tags cannot express, such as the forms of addresses and keys.
func (c *RoomConfig) Validate() error {
	all := []error{c.Captcha.Validate()}
	if _, err := limit.ParseProxies(c.TrustedProxies); err != nil {
		all = append(all, config.Invalid("TRUSTED_PROXIES", c.TrustedProxies, err.Error()))
	}
	for _, o := range c.TrustedOrigins {
		if http.NewCrossOriginProtection().AddTrustedOrigin(o) != nil {
			all = append(all, config.Invalid("TRUSTED_ORIGINS", o, "must be origins as https://shop.example, without a path"))
		}
	}
	for secret := range strings.SplitSeq(c.CloudFrontSecret.Reveal(), ",") {
		if n := len(secret); c.CloudFrontSecret != "" && n < token.MinSecret {
			all = append(all, fmt.Errorf("CLOUDFRONT_SECRET: a secret has %d bytes, at least %d are needed", n, token.MinSecret))
		}
	}
	if c.Limits.ProofMaxBits < c.Limits.ProofMinBits {
		all = append(all, config.Invalid("LIMIT_PROOF_MAX_BITS", c.Limits.ProofMaxBits, "must be at least LIMIT_PROOF_MIN_BITS"))
	}
	return errors.Join(append(all, c.parseRoomKeys(&identity.Keys{}))...)
}

// Validate checks the settings that a RoomConfig lacks, such as those that exclude each other.
func (c *Config) Validate() error {
	var all []error
	if c.DevLogin && c.SecureCookies {
		all = append(all, config.Invalid("DEV_LOGIN", true, "must not be on together with SECURE_COOKIES: it lets anybody be anybody"))
	}
	if c.DevLogin && c.OIDC.Issuer != "" {
		all = append(all, config.Invalid("DEV_LOGIN", true, "must not be on together with OIDC_ISSUER: it lets anybody be any of its users"))
	}
	all = append(all, c.OIDC.Validate(c.SecureCookies), c.Pay.validate(c.OIDC.PublicURL, c.SecureCookies))
	if c.Ingest.Addr != "" && c.Worker.Addr == "" {
		all = append(all, config.Missing("WORKER_ADDR", "must be host:port or dns:///host:port with INGEST_ADDR"))
	}
	return errors.Join(append(all, c.parseShopKeys(&identity.Keys{}))...)
}

// parseRoomKeys parses the keys that a room has.
func (c *RoomConfig) parseRoomKeys(k *identity.Keys) error {
	err := parseKeySet(&k.Visitor, "VISITOR_SECRET", c.VisitorSecret)
	if c.VWR.Addr != "" {
		err = errors.Join(err, parseKeySet(&k.Ticket, "VWR_TICKET_SECRET", c.VWRTicketSecret))
	}
	return err
}

// parseShopKeys parses the keys that a room lacks.
func (c *Config) parseShopKeys(k *identity.Keys) error {
	err := errors.Join(parseKeySet(&k.Session, "SESSION_SECRET", c.SessionSecret), parseKeySet(&k.Entry, "QUEUE_ENTRY_TOKEN_SECRET", c.EntryTokenSecret))
	if c.VWR.Addr != "" {
		err = errors.Join(err, parseKeySet(&k.Tier1, "VWR_TOKEN_SECRET", c.VWRTokenSecret))
	}
	return err
}

func parseKeySet(into *token.KeySet, name string, s config.Secret) error {
	set, err := token.ParseKeySet(s)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	*into = set
	return nil
}

// limitsRedis returns the Redis of the rate limits; own is false if everything else uses it too.
func (c *RoomConfig) limitsRedis() (cfg redis.Config, own bool) {
	if len(c.Limits.RedisAddrs) == 0 {
		return c.Redis, false
	}
	cfg = c.Redis
	cfg.Addrs, cfg.Cluster, cfg.DB = c.Limits.RedisAddrs, c.Limits.RedisCluster, 0
	return cfg, true
}

// limiterConfig returns the settings in the form of package limit.
func (l Limits) limiterConfig() limit.Config {
	return limit.Config{
		Mutations: limit.Rules{
			Network: limit.RateRule{Rate: l.NetworkRate, Burst: l.NetworkBurst},
			Visitor: limit.RateRule{Rate: l.VisitorRate, Burst: l.VisitorBurst},
			User:    limit.RateRule{Rate: l.UserRate, Burst: l.UserBurst},
		},
		Polls: limit.Rules{
			Network: limit.RateRule{Rate: l.PollNetworkRate, Burst: l.PollNetworkBurst},
			Visitor: limit.RateRule{Rate: l.PollVisitorRate, Burst: l.PollVisitorBurst},
			User:    limit.RateRule{Rate: l.PollUserRate, Burst: l.PollUserBurst},
		},
		NewVisitors: limit.RateRule{Rate: l.NewVisitorRate, Burst: l.NewVisitorBurst},
		SignIns:     limit.RateRule{Rate: l.SignInRate, Burst: l.SignInBurst},
		Work: limit.WorkRule{
			Free:    limit.RateRule{Rate: l.FreeVisitorRate, Burst: l.FreeVisitorBurst},
			MinBits: l.ProofMinBits, MaxBits: l.ProofMaxBits, HalfLife: time.Minute,
		},
		Keys: l.Keys, Timeout: 100 * time.Millisecond, Pause: time.Second,
	}
}
