package harness

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"urr.guru/pkg/loop"
	"urr.guru/scripts/internal/fetch"
	"urr.guru/scripts/internal/payer"
	"urr.guru/scripts/platform"
	"urr.guru/services/payment/fakes"
)

// fakes reports whether the fakes of providers run.
func (o *Options) fakes() bool {
	return slices.ContainsFunc(o.Providers, func(name string) bool { return name != platform.Sandbox })
}

// Fake is a fake payment provider, stripe or toss. Package audit reads its account. It loses its
// orders when its process ends.
type Fake struct {
	p   *Platform
	url string
}

// Fake returns the fake of a provider that is listed in Options.Providers.
func (p *Platform) Fake(name string) *Fake {
	p.tb.Helper()
	if name == platform.Sandbox || !slices.Contains(p.opts.Providers, name) {
		p.tb.Fatalf("harness: there is no fake of %q here: %v", name, p.opts.Providers)
	}
	if name == platform.Stripe {
		return &Fake{p, p.Wiring().StripeURL}
	}
	return &Fake{p, p.Wiring().TossURL}
}

// SetFaults sets the shares of failing calls and webhooks. It also works while the test cleans up.
func (f *Fake) SetFaults(faults fakes.Faults) {
	f.p.tb.Helper()
	f.Control(http.MethodPut, "faults", faults)
}

// Control calls one of the fake's endpoints for tests, such as POST refund-by-hand.
func (f *Fake) Control(method, endpoint string, body any) {
	f.p.tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.p.tb.Context()), faultsLimit)
	defer cancel()
	a, err := fetch.Call(ctx, nil, method, f.url+"/control/"+endpoint, body)
	if err == nil && !a.OK() {
		err = fmt.Errorf("answered %d: %s", a.Status, a.Body)
	}
	if err != nil {
		f.p.tb.Fatalf("harness: %s %s: %v", method, endpoint, err)
	}
}

// OnPage makes a choice on a fake's payment page and follows the redirect to the shop. It repeats
// the redirected request while the platform is overloaded.
func (c *Client) OnPage(ctx context.Context, page string, choice payer.Choice) error {
	to, err := payer.Choose(ctx, page, choice)
	if err != nil || to == "" {
		return err
	}
	u, err := url.Parse(to)
	if err != nil {
		return fmt.Errorf("the provider's redirect: %w", err)
	}
	for {
		a, err := c.Call(ctx, http.MethodGet, u.RequestURI(), nil)
		switch {
		case err != nil || a.Status == http.StatusSeeOther:
			return err
		case !a.Overloaded() || !loop.Sleep(ctx, overloadPause):
			return fmt.Errorf("back from the page: answered %d %s", a.Status, a.Body)
		}
	}
}
