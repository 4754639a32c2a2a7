// Command psp runs the fakes of payment providers, each at its own address. Stripe's fake is at
// STRIPE_ADDR. Its API accepts the key STRIPE_SECRET_KEY. The URL of its page in browsers begins
// with STRIPE_PUBLIC_URL (default: http:// and STRIPE_ADDR). It sends webhooks to
// STRIPE_WEBHOOK_URL, signed with STRIPE_WEBHOOK_SECRET. STRIPE_FAULTS has its faults at the start,
// as JSON. PUT /control/faults changes them, and GET /control/orders lists the orders for an audit.
//
// The fake of Toss Payments is at TOSS_ADDR. Its API accepts the key TOSS_SECRET_KEY, and its
// script at /v2/standard accepts TOSS_CLIENT_KEY. It sends unsigned webhooks to TOSS_WEBHOOK_URL.
// TOSS_FAULTS and /control work as for Stripe. If /readyz answers at one address, all fakes are
// ready.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"urr.guru/scripts/internal/interrupt"
	"urr.guru/services/payment/fakes"
	"urr.guru/services/payment/fakes/stripe"
	"urr.guru/services/payment/fakes/toss"
)

func main() {
	interrupt.Main("psp", func(ctx context.Context, _ []string) error { return run(ctx, os.Getenv) })
}

// provider is the fake of a payment provider, with its webhooks.
type provider struct {
	name, addr, webhookURL string
	handler                http.Handler
	webhooks               *fakes.Webhooks
	listener               net.Listener
}

func run(ctx context.Context, env func(string) string) error {
	log := slog.New(slog.NewJSONHandler(os.Stdout, nil)).With("service", "psp")
	list, err := open(env)
	if err != nil {
		return err
	}
	for i, p := range list {
		if list[i].listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", p.addr); err != nil {
			return fmt.Errorf("listen: %w", err)
		}
	}
	work, ctx := errgroup.WithContext(ctx)
	for _, p := range list {
		work.Go(func() error { return p.serve(ctx, log) })
		if p.webhookURL != "" {
			work.Go(func() error {
				p.webhooks.Run(ctx, p.webhookURL, &http.Client{Timeout: 5 * time.Second})
				return nil
			})
		}
	}
	return work.Wait()
}

var errNothing = errors.New("STRIPE_ADDR or TOSS_ADDR must be set")

// open creates the fakes for which an address is set.
func open(env func(string) string) (list []provider, err error) {
	if env("STRIPE_ADDR") != "" {
		p, err := openStripe(env)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	if env("TOSS_ADDR") != "" {
		p, err := openToss(env)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	if len(list) == 0 {
		return nil, errNothing
	}
	return list, nil
}

func openStripe(env func(string) string) (provider, error) {
	options := stripe.Options{
		Now: time.Now, Key: env("STRIPE_SECRET_KEY"), WebhookSecret: env("STRIPE_WEBHOOK_SECRET"), PublicURL: env("STRIPE_PUBLIC_URL"),
	}
	if options.Key == "" || options.WebhookSecret == "" {
		return provider{}, errors.New("STRIPE_SECRET_KEY and STRIPE_WEBHOOK_SECRET must be set")
	}
	p := provider{name: "stripe", addr: env("STRIPE_ADDR"), webhookURL: env("STRIPE_WEBHOOK_URL")}
	if options.PublicURL == "" {
		options.PublicURL = "http://" + p.addr
	}
	server := stripe.NewServer(options)
	p.handler, p.webhooks = server, server.Webhooks
	return p, setFaults("STRIPE_FAULTS", env("STRIPE_FAULTS"), server.Calls)
}

func openToss(env func(string) string) (provider, error) {
	options := toss.Options{Now: time.Now, ClientKey: env("TOSS_CLIENT_KEY"), SecretKey: env("TOSS_SECRET_KEY")}
	if options.ClientKey == "" || options.SecretKey == "" {
		return provider{}, errors.New("TOSS_CLIENT_KEY and TOSS_SECRET_KEY must be set")
	}
	server := toss.NewServer(options)
	p := provider{name: "toss", addr: env("TOSS_ADDR"), webhookURL: env("TOSS_WEBHOOK_URL"), handler: server, webhooks: server.Webhooks}
	return p, setFaults("TOSS_FAULTS", env("TOSS_FAULTS"), server.Calls)
}

func setFaults(variable, text string, calls *fakes.Calls) error {
	if text == "" {
		return nil
	}
	var f fakes.Faults
	err := json.Unmarshal([]byte(text), &f)
	if err == nil {
		err = calls.SetFaults(f)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", variable, err)
	}
	return nil
}

// serve serves a fake until ctx ends. It closes every connection after a response: on a reused
// connection, an HTTP client would itself repeat a call that is lost.
func (p provider) serve(ctx context.Context, log *slog.Logger) error {
	mux := http.NewServeMux()
	mux.Handle("/", p.handler)
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute}
	server.SetKeepAlivesEnabled(false)
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	log.InfoContext(ctx, "ready", "provider", p.name, "addr", p.listener.Addr().String())
	if err := server.Serve(p.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", p.name, err)
	}
	return nil
}
