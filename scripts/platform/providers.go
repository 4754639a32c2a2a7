package platform

import (
	"slices"
	"strings"
)

// The names of the payment providers that have a fake in FakeProviders.
const (
	Stripe = "stripe"
	Toss   = "toss"
)

// The shop's secret keys at the fake providers. At Toss it has a public key too, tossClientKey.
func (w Wiring) stripeKey() string { return "sk_test_" + w.Secrets.Provider }
func (w Wiring) tossKey() string   { return "test_sk_" + w.Secrets.Provider }

const tossClientKey = "test_ck_urr"

// addFakes sets the variables of the process that runs the fake providers.
func (w Wiring) addFakes(env map[string]string, at ListenAddrs) {
	env["STRIPE_ADDR"], env["STRIPE_SECRET_KEY"], env["STRIPE_WEBHOOK_SECRET"] = at.Addr, w.stripeKey(), w.Secrets.StripeWebhook
	env["STRIPE_WEBHOOK_URL"] = w.WebhookURL + Stripe
	env["TOSS_ADDR"], env["TOSS_SECRET_KEY"], env["TOSS_CLIENT_KEY"] = at.Ops, w.tossKey(), tossClientKey
	env["TOSS_WEBHOOK_URL"] = w.WebhookURL + Toss
}

// addProviders sets the payment service's variables for its providers and for the sandbox's page.
func (w Wiring) addProviders(env map[string]string) {
	env["PAYMENT_PROVIDERS"] = strings.Join(w.Providers, ",")
	env["SANDBOX"], env["SANDBOX_URL"], env["SANDBOX_WEBHOOK_SECRET"] = "development", w.SandboxURL, w.Secrets.SandboxWebhook
	if w.SandboxPage != "" {
		env["SANDBOX_PUBLIC_URL"], env["PUBLIC_URL"] = w.SandboxPage, w.GatewayURL
	}
	if slices.Contains(w.Providers, Stripe) {
		env["STRIPE_URL"], env["STRIPE_SECRET_KEY"], env["STRIPE_WEBHOOK_SECRET"] = w.StripeURL, w.stripeKey(), w.Secrets.StripeWebhook
		env["PUBLIC_URL"] = w.GatewayURL
	}
	if slices.Contains(w.Providers, Toss) {
		env["TOSS_URL"], env["TOSS_SECRET_KEY"], env["TOSS_PAGE_URL"] = w.TossURL, w.tossKey(), "http://"+w.PayHost+"/toss"
	}
}

// addPayHost sets the gateway's variables for the page that runs the script of Toss Payments.
func (w Wiring) addPayHost(env map[string]string) {
	if slices.Contains(w.Providers, Toss) {
		env["PAY_HOST"], env["TOSS_CLIENT_KEY"], env["TOSS_SCRIPT_URL"] = w.PayHost, tossClientKey, w.TossURL+"/v2/standard"
		env["PUBLIC_URL"] = w.GatewayURL
	}
}
