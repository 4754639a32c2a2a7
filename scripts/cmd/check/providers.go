package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"urr.guru/scripts/internal/interrupt"
	"urr.guru/scripts/internal/tools"
)

// realProviders has the variables for keys of providers; with a key, its test API is tested too.
var realProviders = []struct{ name, variable string }{{"Stripe", "STRIPE_TEST_KEY"}, {"Toss Payments", "TOSS_TEST_KEY"}}

// checkProviders tests the clients of payment providers with fakes, with programs that know the
// providers' request formats, and, if there are keys, with the providers' own test APIs.
func (c *checker) checkProviders(ctx context.Context) error {
	if err := c.prepareStripeMock(ctx); err != nil {
		return err
	}
	cmd := c.command(ctx, c.layout.Root, "go", "test", "-count=1", "-v", "-run=^TestVendor", "-timeout=30m", "./services/payment/internal/...")
	if err := cmd.Run(); err != nil {
		return interrupt.ErrReported
	}
	for _, p := range realProviders {
		if os.Getenv(p.variable) == "" {
			say("%s: checked against the fake only. This never ran against %s itself: set %s", p.name, p.name, p.variable)
		}
	}
	return nil
}

// prepareStripeMock builds the pinned stripe-mock, and sets the variable by which tests find it.
func (c *checker) prepareStripeMock(ctx context.Context) error {
	dir, err := tools.Build(ctx, c.layout, tools.Providers, say, "stripe-mock")
	if err != nil {
		return err
	}
	if err := os.Setenv("URR_TEST_STRIPE_MOCK", filepath.Join(dir, "stripe-mock")); err != nil {
		return fmt.Errorf("name the path of stripe-mock: %w", err)
	}
	return nil
}
