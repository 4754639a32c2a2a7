package app

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"urr.guru/pkg/lifecycle"
	"urr.guru/services/payment/internal/budget"
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
	// budget has the limits of the account, and refunds is the endpoint of refunds in it; nil: there is
	// no limit.
	budget  *budget.Budget
	refunds string
}

// clients has the constructors of the providers' clients, by the names in PAYMENT_PROVIDERS.
var clients = map[string]func(*Config, deps) client{ //nolint:gochecknoglobals // a constant
	sandbox.Name: newSandbox, stripe.Name: newStripe, toss.Name: newToss,
}

// deps are what the clients need beside their configuration.
type deps struct {
	shares budget.Store
	log    *slog.Logger
}

// returns has the decoders of the parameters with which buyers come back, by provider.
var returns = map[string]func(map[string]string) (payment.Auth, error){ //nolint:gochecknoglobals // a constant
	stripe.Name: stripe.DecodeReturn, toss.Name: toss.DecodeReturn,
}

func newSandbox(cfg *Config, _ deps) client {
	c := sandbox.NewClient(cfg.SandboxURL, cfg.WebhookSecret, sandbox.Options{
		Timeout: cfg.ProviderTimeout, VoidAfter: cfg.VoidAfter, KeyLife: cfg.KeyLife,
		PublicURL: strings.TrimSuffix(cfg.SandboxPublicURL, "/"), ReturnURL: cfg.returnURL(sandbox.Name), PageTime: cfg.SandboxPageTime,
	})
	return client{Provider: c, rekey: func(next *Config) { c.Rekey(next.WebhookSecret) }, close: c.Close}
}

func newStripe(cfg *Config, d deps) client {
	secrets := func(cfg *Config) stripe.Secrets {
		return stripe.Secrets{Key: cfg.StripeSecretKey, Webhooks: cfg.StripeWebhookSecret}
	}
	b := budget.New(stripe.Name, cfg.stripeLimits(), d.shares, d.log)
	c := stripe.NewClient(secrets(cfg), stripe.Options{
		URL: cfg.StripeURL, ReturnURL: cfg.returnURL(stripe.Name), PageTime: cfg.StripePageTime, Budget: b,
	})
	rekey := func(next *Config) { c.Rekey(secrets(next)) }
	return client{Provider: c, rekey: rekey, close: c.Close, budget: b, refunds: stripe.RefundEndpoint}
}

func newToss(cfg *Config, d deps) client {
	b := budget.New(toss.Name, budget.Limits{PerEndpoint: float64(cfg.TossPerSecond)}, d.shares, d.log)
	c := toss.NewClient(cfg.TossSecretKey, toss.Options{
		URL: cfg.TossURL, PageURL: cfg.TossPageURL, PageTime: cfg.TossPageTime, Log: d.log, Budget: b,
	})
	rekey := func(next *Config) { c.Rekey(next.TossSecretKey) }
	return client{Provider: c, rekey: rekey, close: c.Close, budget: b, refunds: toss.RefundEndpoint}
}

// providers has the clients of the configured providers. guarded limits their calls, by name.
type providers struct {
	first   string
	mode    payment.Mode
	byName  map[string]client
	guarded map[string]*guard.Provider
}

// openProviders makes the clients of the configured providers, which are closed at shutdown.
func openProviders(a *lifecycle.App, cfg *Config, d deps) *providers {
	p := newProviders(cfg, d)
	a.OnClose("providers", func(context.Context) error { p.close(); return nil })
	return p
}

func newProviders(cfg *Config, d deps) *providers {
	p := &providers{first: cfg.Providers[0], mode: cfg.mode(), byName: map[string]client{}, guarded: map[string]*guard.Provider{}}
	for _, name := range cfg.Providers {
		c := clients[name](cfg, d)
		p.byName[name] = c
		p.guarded[name] = guard.New(guard.Measured(name, c.Provider), guard.Limits{ChargesAtOnce: cfg.ChargesAtOnce, ChargeTime: c.Capabilities().ChargeTime})
	}
	return p
}

func (p *providers) close() {
	for _, c := range p.byName {
		c.close()
	}
}

// pagesAtOnce returns how many payments whose buyers are back one replica works on at the same time. More
// than a few seconds' calls would only wait, and keep a place that a more urgent payment could have.
func (p *providers) pagesAtOnce(chargesAtOnce int) int {
	const seconds = 4
	most := 0
	for _, c := range p.byName {
		if c.budget == nil || c.budget.PerEndpoint() == 0 {
			return chargesAtOnce
		}
		most = max(most, int(seconds*c.budget.PerEndpoint()))
	}
	return max(1, min(chargesAtOnce, most))
}

func (p *providers) payment() payment.Providers {
	byName := make(map[string]payment.Provider, len(p.guarded))
	for name, g := range p.guarded {
		byName[name] = g
	}
	return payment.Providers{Default: p.first, ByName: byName, Mode: p.mode, Returns: returns}
}

// refundWait is the longest time that a refund waits for its turn: less than the sweeper's lease.
const refundWait = 20 * time.Second

// awaitRefund waits until the limits of the provider's account allow another refund; free payments do
// not wait.
func (p *providers) awaitRefund(ctx context.Context, name string) (context.Context, error) {
	if c := p.byName[name]; c.budget != nil {
		return c.budget.Ahead(ctx, c.refunds, refundWait)
	}
	return ctx, nil
}

// endpointRate returns the most calls per second to one endpoint of a provider; 0: there is no limit.
func (p *providers) endpointRate(name string) float64 {
	if c := p.byName[name]; c.budget != nil {
		return c.budget.PerEndpoint()
	}
	return 0
}

func (p *providers) rekey(cfg *Config) {
	for _, c := range p.byName {
		c.rekey(cfg)
	}
}
