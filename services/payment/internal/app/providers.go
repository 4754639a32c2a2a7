package app

import (
	"context"
	"strings"

	"urr.guru/pkg/lifecycle"
	"urr.guru/services/payment/internal/guard"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/sandbox"
)

// providers are the configured ones, by name, each with a guard of its own.
type providers struct {
	first   string
	guarded map[string]*guard.Provider
	sandbox *sandbox.Client // nil: not configured
}

// openProviders makes the clients of the configured providers.
func openProviders(a *lifecycle.App, cfg *Config) *providers {
	p := &providers{first: cfg.providers()[0], guarded: map[string]*guard.Provider{}}
	for _, name := range cfg.providers() {
		p.sandbox = sandbox.NewClient(cfg.SandboxURL, cfg.WebhookSecret, sandbox.Options{
			Timeout: cfg.ProviderTimeout, VoidAfter: cfg.VoidAfter, KeyLife: cfg.KeyLife,
			PublicURL: strings.TrimSuffix(cfg.SandboxPublicURL, "/"), ReturnURL: cfg.returnURL(name), PageTime: cfg.SandboxPageTime,
		})
		p.guarded[name] = guard.New(p.sandbox, guard.Limits{
			ChargesAtOnce: cfg.ChargesAtOnce, Refunds: float64(cfg.RefundsPerSecond), Lookups: float64(cfg.LookupsPerSecond),
		})
	}
	a.OnClose("providers", func(context.Context) error { p.sandbox.Close(); return nil })
	return p
}

func (p *providers) payment() payment.Providers {
	byName := make(map[string]payment.Provider, len(p.guarded))
	for name, g := range p.guarded {
		byName[name] = g
	}
	return payment.Providers{Default: p.first, ByName: byName}
}

// awaitRefund waits until a provider may be sent another refund; none for free payments.
func (p *providers) awaitRefund(ctx context.Context, name string, c payment.Cause) error {
	if g, ok := p.guarded[name]; ok {
		return g.AwaitRefund(ctx, c)
	}
	return nil
}

func (p *providers) rekey(cfg *Config) { p.sandbox.Rekey(cfg.WebhookSecret) }
