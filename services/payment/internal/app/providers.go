package app

import (
	"context"
	"log/slog"
	"strings"

	"urr.guru/pkg/lifecycle"
	"urr.guru/services/payment/internal/guard"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/sandbox"
	"urr.guru/services/payment/internal/stripe"
	"urr.guru/services/payment/internal/toss"
)

// client is the client of one provider.
type client struct {
	payment.Provider

	// rekey replaces the client's secrets by those of a newer configuration.
	rekey func(*Config)
	close func()
	// perSecond is the most calls of each kind per second by one replica; 0: as configured.
	perSecond int
}

// clients has the constructors of the providers' clients, by the names in PAYMENT_PROVIDERS.
var clients = map[string]func(*Config, *slog.Logger) client{ //nolint:gochecknoglobals // a constant
	sandbox.Name: newSandbox, stripe.Name: newStripe, toss.Name: newToss,
}

// returns has the decoders of the parameters with which buyers come back, by provider.
var returns = map[string]func(map[string]string) (payment.Auth, error){ //nolint:gochecknoglobals // a constant
	stripe.Name: stripe.DecodeReturn, toss.Name: toss.DecodeReturn,
}

func newSandbox(cfg *Config, _ *slog.Logger) client {
	c := sandbox.NewClient(cfg.SandboxURL, cfg.WebhookSecret, sandbox.Options{
		Timeout: cfg.ProviderTimeout, VoidAfter: cfg.VoidAfter, KeyLife: cfg.KeyLife,
		PublicURL: strings.TrimSuffix(cfg.SandboxPublicURL, "/"), ReturnURL: cfg.returnURL(sandbox.Name), PageTime: cfg.SandboxPageTime,
	})
	return client{Provider: c, rekey: func(next *Config) { c.Rekey(next.WebhookSecret) }, close: c.Close}
}

func newStripe(cfg *Config, _ *slog.Logger) client {
	secrets := func(cfg *Config) stripe.Secrets {
		return stripe.Secrets{Key: cfg.StripeSecretKey, Webhooks: cfg.StripeWebhookSecret}
	}
	c := stripe.NewClient(secrets(cfg), stripe.Options{URL: cfg.StripeURL, ReturnURL: cfg.returnURL(stripe.Name), PageTime: cfg.StripePageTime})
	return client{
		Provider: c, rekey: func(next *Config) { c.Rekey(secrets(next)) }, close: c.Close, perSecond: stripe.PerSecond,
	}
}

func newToss(cfg *Config, log *slog.Logger) client {
	c := toss.NewClient(cfg.TossSecretKey, toss.Options{URL: cfg.TossURL, PageURL: cfg.TossPageURL, PageTime: cfg.TossPageTime, Log: log})
	return client{Provider: c, rekey: func(next *Config) { c.Rekey(next.TossSecretKey) }, close: c.Close, perSecond: toss.PerSecond}
}

// providers has the clients of the configured providers. guarded limits their calls, by name.
type providers struct {
	first   string
	clients []client
	guarded map[string]*guard.Provider
}

// openProviders makes the clients of the configured providers, which are closed at shutdown.
func openProviders(a *lifecycle.App, cfg *Config, log *slog.Logger) *providers {
	p := newProviders(cfg, log)
	a.OnClose("providers", func(context.Context) error { p.close(); return nil })
	return p
}

func newProviders(cfg *Config, log *slog.Logger) *providers {
	p := &providers{first: cfg.Providers[0], guarded: map[string]*guard.Provider{}}
	for _, name := range cfg.Providers {
		c := clients[name](cfg, log)
		p.clients = append(p.clients, c)
		p.guarded[name] = guard.New(guard.Measured(name, c.Provider), guard.Limits{
			ChargesAtOnce: cfg.ChargesAtOnce, ChargeTime: c.Capabilities().ChargeTime, Refunds: c.rate(cfg.RefundsPerSecond), Lookups: c.rate(cfg.LookupsPerSecond),
			Charges: float64(c.perSecond),
		})
	}
	return p
}

func (p *providers) close() {
	for _, c := range p.clients {
		c.close()
	}
}

// rate returns the configured rate, or perSecond if that is lower.
func (c client) rate(configured int) float64 {
	if c.perSecond > 0 {
		configured = min(configured, c.perSecond)
	}
	return float64(configured)
}

func (p *providers) payment() payment.Providers {
	byName := make(map[string]payment.Provider, len(p.guarded))
	for name, g := range p.guarded {
		byName[name] = g
	}
	return payment.Providers{Default: p.first, ByName: byName, Returns: returns}
}

// awaitRefund waits until the provider's rate allows another refund; free payments do not wait.
func (p *providers) awaitRefund(ctx context.Context, name string, c payment.Cause) error {
	if g, ok := p.guarded[name]; ok {
		return g.AwaitRefund(ctx, c)
	}
	return nil
}

func (p *providers) rekey(cfg *Config) {
	for _, c := range p.clients {
		c.rekey(cfg)
	}
}
