// Package app builds the payment service from its configuration and runs it.
package app

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"urr.guru/pkg/config"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/postgres"
	"urr.guru/pkg/rpc"
	"urr.guru/services/payment/internal/sandbox"
)

// minSecret is the minimum length of a webhook secret, in bytes.
const minSecret = 32

// Config is what the service reads from its environment.
type Config struct {
	lifecycle.Config
	RPC      rpc.ServerConfig
	Ticket   rpc.Peer `env:", prefix=TICKET_"`
	Postgres postgres.Config
	Kafka    kafka.Config

	// ReadMaxConns bounds the connections for payers who look at their payments, in addition to
	// those for charges.
	ReadMaxConns int `env:"DATABASE_READ_MAX_CONNS, default=4" min:"1" max:"1000"`
	// Providers are the names of the payment providers in use, the default one first.
	Providers string `env:"PAYMENT_PROVIDERS, default=sandbox" oneof:"sandbox"`
	// ProviderTimeout bounds one call to the provider; the outcome of a longer charge is unknown
	// until it is settled.
	ProviderTimeout time.Duration `env:"PAYMENT_PROVIDER_TIMEOUT, default=8s" min:"100ms" max:"20s"`
	// VoidAfter is how long a charge that the provider does not know may still arrive before it is
	// voided.
	VoidAfter time.Duration `env:"PAYMENT_VOID_AFTER, default=20s" min:"1s" max:"14m"`
	// ChargesAtOnce bounds the concurrent charges of one replica; further ones are refused at once.
	ChargesAtOnce int `env:"PAYMENT_CHARGES_AT_ONCE, default=256" min:"1" max:"10000"`
	// RefundsPerSecond bounds the refunds that one replica sends to the provider; those of cancelled
	// events get half of it.
	RefundsPerSecond int `env:"PAYMENT_REFUNDS_PER_SECOND, default=20" min:"1" max:"10000"`
	// LookupsPerSecond bounds the look-ups of charges and refunds of one replica.
	LookupsPerSecond int `env:"PAYMENT_LOOKUPS_PER_SECOND, default=100" min:"1" max:"10000"`
	// Sandbox allows the sandbox provider, which takes no money; required with it.
	Sandbox string `env:"SANDBOX" oneof:"development"`
	// SandboxURL is the URL of the sandbox provider, as http://127.0.0.1:8092; required with it.
	SandboxURL string `env:"SANDBOX_URL"`
	// SandboxPublicURL is the sandbox's address in browsers, as http://127.0.0.1:8092; empty: payers
	// choose the payment key on a page of the shop.
	SandboxPublicURL string `env:"SANDBOX_PUBLIC_URL"`
	// SandboxPageTime is how long the payer has on the sandbox's page.
	SandboxPageTime time.Duration `env:"SANDBOX_PAGE_TIME, default=12m" min:"10s" max:"30m"`
	// PublicURL is the gateway's own address in browsers, to which a provider's page sends payers back;
	// required with SANDBOX_PUBLIC_URL.
	PublicURL string `env:"PUBLIC_URL"`
	// KeyLife is how long the sandbox certainly keeps the idempotency key of a refund; later a refund
	// whose outcome is unknown is asked for, and not sent again.
	KeyLife time.Duration `env:"SANDBOX_KEY_LIFE, default=20h" min:"5m" max:"8760h"`
	// WebhookSecret signs the sandbox's webhooks: secret[,secret…], at least 32 bytes each, any of
	// which verifies; required with it.
	WebhookSecret config.Secret `env:"SANDBOX_WEBHOOK_SECRET"`
}

// providers returns the names of the providers, the default one first.
func (c *Config) providers() []string { return strings.Split(c.Providers, ",") }

// readPoolConfig returns the configuration of the connection pool for payers' reads.
func (c *Config) readPoolConfig() postgres.Config {
	reads := c.Postgres
	reads.MaxConns = c.ReadMaxConns
	return reads
}

// Validate checks what the tags of the fields cannot express: rules between
// variables, keys and URLs.
func (c *Config) Validate() error {
	if !slices.Contains(c.providers(), sandbox.Name) {
		return nil
	}
	if c.Sandbox != "development" {
		return config.Invalid("SANDBOX", c.Sandbox, "must be development with the provider sandbox of PAYMENT_PROVIDERS, which takes no money")
	}
	if !isAddress(c.SandboxURL) {
		return config.Invalid("SANDBOX_URL", c.SandboxURL, "must be the sandbox provider's URL, as http://127.0.0.1:8092")
	}
	if c.SandboxPublicURL != "" && !isAddress(c.SandboxPublicURL) {
		return config.Invalid("SANDBOX_PUBLIC_URL", c.SandboxPublicURL, "must be the sandbox's address in browsers, as http://127.0.0.1:8092")
	}
	if c.SandboxPublicURL != "" && !isAddress(c.PublicURL) {
		return config.Invalid("PUBLIC_URL", c.PublicURL, "must be the gateway's address in browsers, as https://tickets.example, with SANDBOX_PUBLIC_URL")
	}
	for secret := range strings.SplitSeq(c.WebhookSecret.Reveal(), ",") {
		if len(secret) < minSecret {
			return config.Invalid("SANDBOX_WEBHOOK_SECRET", c.WebhookSecret, "must be secret[,secret…] of at least 32 bytes each")
		}
	}
	return nil
}

// isAddress reports whether a text is an absolute http URL.
func isAddress(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// returnURL is the gateway's address to which a provider's page sends payers back.
func (c *Config) returnURL(provider string) string {
	return strings.TrimSuffix(c.PublicURL, "/") + "/api/v1/payments/return/" + provider
}
