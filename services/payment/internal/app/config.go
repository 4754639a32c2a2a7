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
	"urr.guru/services/payment/internal/budget"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/sandbox"
	"urr.guru/services/payment/internal/stripe"
	"urr.guru/services/payment/internal/toss"
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

	// ReadMaxConns bounds the connections for reads by payers, in addition to those for charges.
	ReadMaxConns int `env:"DATABASE_READ_MAX_CONNS, default=4" min:"1" max:"1000"`
	// Providers are the names of the payment providers in use, the default one first.
	Providers []string `env:"PAYMENT_PROVIDERS, default=sandbox" oneof:"sandbox stripe toss"`
	// ProviderTimeout bounds one call to the sandbox. The outcome of a charge that takes longer is
	// unknown until the sandbox is asked about it.
	ProviderTimeout time.Duration `env:"PAYMENT_PROVIDER_TIMEOUT, default=8s" min:"100ms" max:"20s"`
	// VoidAfter is the age from which a charge that the sandbox does not know is voided: before, its
	// request may still be on its way.
	VoidAfter time.Duration `env:"PAYMENT_VOID_AFTER, default=20s" min:"1s" max:"14m"`
	// ChargesAtOnce bounds the concurrent charges of one replica; further ones are refused at once.
	ChargesAtOnce int `env:"PAYMENT_CHARGES_AT_ONCE, default=256" min:"1" max:"10000"`
	// TransferPayoutAfter is the time after which the seller of a ticket that was passed on is paid.
	// Where buyers may dispute their charges, 72h are advised.
	TransferPayoutAfter time.Duration `env:"TRANSFER_PAYOUT_AFTER, default=0s" min:"0s" max:"2160h"`
	// Sandbox must be set to allow what takes no money: the sandbox provider, test keys, and http addresses
	// of a provider's API. Live keys are refused then.
	Sandbox string `env:"SANDBOX" oneof:"development"`
	// SandboxURL is the sandbox's URL, e.g. http://127.0.0.1:8092; required with the provider sandbox.
	SandboxURL string `env:"SANDBOX_URL"`
	// SandboxPublicURL is the sandbox's address in browsers, e.g. http://127.0.0.1:8092; empty: payers
	// choose the payment key on a page of the shop.
	SandboxPublicURL string `env:"SANDBOX_PUBLIC_URL"`
	// SandboxPageTime is how long the payer has on the sandbox's page.
	SandboxPageTime time.Duration `env:"SANDBOX_PAGE_TIME, default=12m" min:"10s" max:"30m"`
	// PublicURL is the gateway's own address in browsers, to which a provider's page sends payers
	// back; required with the provider stripe, and with SANDBOX_PUBLIC_URL.
	PublicURL string `env:"PUBLIC_URL"`
	// KeyLife is how long the sandbox certainly keeps the idempotency key of a refund. After that a
	// refund with an unknown outcome is not sent again: the sandbox is asked about it.
	KeyLife time.Duration `env:"SANDBOX_KEY_LIFE, default=20h" min:"5m" max:"8760h"`
	// WebhookSecret signs the sandbox's webhooks: secret[,secret…], at least 32 bytes each, any of
	// which verifies; required with the provider sandbox.
	WebhookSecret config.Secret `env:"SANDBOX_WEBHOOK_SECRET"`
	// StripeSecretKey is the secret key of Stripe's API; required with the provider stripe.
	StripeSecretKey config.Secret `env:"STRIPE_SECRET_KEY"`
	// StripeWebhookSecret signs Stripe's webhooks: secret[,secret…], any of which verifies; required with
	// the provider stripe.
	StripeWebhookSecret config.Secret `env:"STRIPE_WEBHOOK_SECRET"`
	// StripeURL is the address of Stripe's API; empty: Stripe's own.
	StripeURL string `env:"STRIPE_URL"`
	// StripePageTime is how long the payer has on Stripe's page.
	StripePageTime time.Duration `env:"STRIPE_PAGE_TIME, default=12m" min:"10s" max:"25m"`
	// StripePerSecond bounds the calls to Stripe in all, by all replicas; 0: what Stripe publishes, 100 with
	// a live key and 25 with a test key. A higher limit must be agreed with Stripe.
	StripePerSecond int `env:"STRIPE_PER_SECOND, default=0" min:"0" max:"10000"`
	// StripeEndpointPerSecond bounds the calls to each endpoint of Stripe, by all replicas.
	StripeEndpointPerSecond int `env:"STRIPE_ENDPOINT_PER_SECOND, default=25" min:"1" max:"10000"`
	// TossSecretKey is the secret key of Toss Payments; required with the provider toss.
	TossSecretKey config.Secret `env:"TOSS_SECRET_KEY"`
	// TossURL is the address of the API of Toss Payments; empty: the vendor's own.
	TossURL string `env:"TOSS_URL"`
	// TossPageURL is the address of the gateway's page at its PAY_HOST, e.g.
	// https://pay.tickets.example/toss; required with the provider toss.
	TossPageURL string `env:"TOSS_PAGE_URL"`
	// TossPageTime is how long the payer has to pay at Toss Payments.
	TossPageTime time.Duration `env:"TOSS_PAGE_TIME, default=12m" min:"10s" max:"25m"`
	// TossPerSecond bounds the calls to each endpoint of Toss Payments, by all replicas. The vendor
	// publishes no limit.
	TossPerSecond int `env:"TOSS_PER_SECOND, default=10" min:"1" max:"10000"`
}

// readPoolConfig returns the configuration of the connection pool for payers' reads.
func (c *Config) readPoolConfig() postgres.Config {
	reads := c.Postgres
	reads.MaxConns = c.ReadMaxConns
	return reads
}

// stripeLimits returns the limits of the account at Stripe.
func (c *Config) stripeLimits() budget.Limits {
	inAll := c.StripePerSecond
	if inAll == 0 {
		inAll = stripe.LivePerSecond
		if c.mode() == payment.TestMode {
			inAll = stripe.TestPerSecond
		}
	}
	return budget.Limits{PerSecond: float64(inAll), PerEndpoint: float64(c.StripeEndpointPerSecond)}
}

// Validate checks what the tags of the fields cannot express: rules between variables, keys and
// URLs. The settings of a provider are required when it is in Providers.
func (c *Config) Validate() error {
	checks := map[string]func() error{sandbox.Name: c.validateSandbox, stripe.Name: c.validateStripe, toss.Name: c.validateToss}
	for i, name := range c.Providers {
		if slices.Contains(c.Providers[:i], name) {
			return config.Invalid("PAYMENT_PROVIDERS", strings.Join(c.Providers, ","), "must name each provider once")
		}
		if err := checks[name](); err != nil {
			return err
		}
	}
	return nil
}

// development is the value of SANDBOX that allows what takes no money.
const development = "development"

// mode returns the mode of the keys, which Validate has compared with SANDBOX.
func (c *Config) mode() payment.Mode {
	if c.Sandbox == development {
		return payment.TestMode
	}
	return payment.LiveMode
}

// validateKey checks that a secret key has the mode that SANDBOX allows. It has a prefix of tests or
// of lives.
func (c *Config) validateKey(variable string, key config.Secret, tests, lives []string) error {
	has := func(prefixes []string) bool {
		return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key.Reveal(), prefix) })
	}
	switch test := has(tests); {
	case !test && !has(lives):
		return config.Invalid(variable, key, "must begin with "+strings.Join(append(slices.Clone(lives), tests...), ", "))
	case test && c.mode() == payment.LiveMode:
		return config.Invalid(variable, key, "must not be a test key, unless SANDBOX is development: it takes no money")
	case !test && c.mode() == payment.TestMode:
		return config.Invalid(variable, key, "must not be a live key while SANDBOX is development")
	default:
		return nil
	}
}

// validateAPI checks the address of a provider's API. example is its usual one.
func (c *Config) validateAPI(variable, address, example string) error {
	switch {
	case address != "" && !isAddress(address):
		return config.Invalid(variable, address, "must be the address of the provider's API, as "+example)
	case strings.HasPrefix(address, "http:") && c.mode() == payment.LiveMode:
		return config.Invalid(variable, address, "must be an https address, unless SANDBOX is development")
	default:
		return nil
	}
}

func (c *Config) validateSandbox() error {
	if c.Sandbox != development {
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
	return validateSecrets("SANDBOX_WEBHOOK_SECRET", c.WebhookSecret)
}

func (c *Config) validateStripe() error {
	if err := c.validateAPI("STRIPE_URL", c.StripeURL, "https://api.stripe.com"); err != nil {
		return err
	}
	if !isAddress(c.PublicURL) {
		return config.Invalid("PUBLIC_URL", c.PublicURL, "must be the gateway's address in browsers, as https://tickets.example, with the provider stripe")
	}
	if c.StripeSecretKey.Reveal() == "" {
		return config.Invalid("STRIPE_SECRET_KEY", c.StripeSecretKey, "must be the secret key of Stripe's API, with the provider stripe")
	}
	err := c.validateKey("STRIPE_SECRET_KEY", c.StripeSecretKey, []string{"sk_test_", "rk_test_"}, []string{"sk_live_", "rk_live_"})
	if err != nil {
		return err
	}
	return validateSecrets("STRIPE_WEBHOOK_SECRET", c.StripeWebhookSecret)
}

func (c *Config) validateToss() error {
	if err := c.validateAPI("TOSS_URL", c.TossURL, "https://api.tosspayments.com"); err != nil {
		return err
	}
	if !isAddress(c.TossPageURL) || strings.ContainsAny(c.TossPageURL, "?#") {
		return config.Invalid("TOSS_PAGE_URL", c.TossPageURL, "must be the gateway's page, as https://pay.tickets.example/toss, with the provider toss")
	}
	if c.TossSecretKey.Reveal() == "" {
		return config.Invalid("TOSS_SECRET_KEY", c.TossSecretKey, "must be the secret key of Toss Payments, with the provider toss")
	}
	return c.validateKey("TOSS_SECRET_KEY", c.TossSecretKey, []string{"test_sk_", "test_gsk_"}, []string{"live_sk_", "live_gsk_"})
}

func validateSecrets(variable string, list config.Secret) error {
	for secret := range strings.SplitSeq(list.Reveal(), ",") {
		if len(secret) < minSecret {
			return config.Invalid(variable, list, "must be secret[,secret…] of at least 32 bytes each")
		}
	}
	return nil
}

// isAddress reports whether a text is an absolute http URL.
func isAddress(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// returnURL returns the gateway's address to which a provider's page sends payers back.
func (c *Config) returnURL(provider string) string {
	return strings.TrimSuffix(c.PublicURL, "/") + "/api/v1/payments/return/" + provider
}
