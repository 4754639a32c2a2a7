// Command sandbox runs one HTTP server at HTTP_ADDR: the sandbox payment provider and, under
// /rewards, the sandbox provider of points and coupons. It keeps their ledgers in LEDGER_FILE and
// LEDGER_FILE.rewards, and sends webhooks of payments to WEBHOOK_URL, signed with
// SANDBOX_WEBHOOK_SECRET. SANDBOX_REFUND_FAULTS and SANDBOX_REWARD_FAULTS are the faults, as JSON,
// that the two providers have at the start. With SANDBOX_BEACON_SECRET, from which its key is
// derived, it publishes a beacon in drand's scheme under /beacon, with a round every
// SANDBOX_BEACON_PERIOD (3s). With SANDBOX_OIDC_ISSUER, its own URL with the path /oidc, it is also
// an identity provider for the gateway at SANDBOX_OIDC_CLIENT_URL, with the client id
// SANDBOX_OIDC_CLIENT_ID and secret SANDBOX_OIDC_CLIENT_SECRET. With SANDBOX_MAIL_ADDR it accepts
// mails there by SMTP, keeps them in the folder SANDBOX_MAIL_DIR, and shows them under /mail/. With
// SANDBOX_DYNAMODB_ENDPOINT it is a proxy under /dynamodb for the DynamoDB there, in which a partition
// accepts SANDBOX_DYNAMODB_FRACTION (0 to 1) of the reads and writes that it accepts at AWS.
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
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"urr.guru/pkg/dynamo/dynamotest/strict"
	"urr.guru/pkg/fairdraw/beacontest"
	"urr.guru/scripts/awsproxy"
	"urr.guru/scripts/mailsink"
	"urr.guru/scripts/openid"
	"urr.guru/services/payment/sandbox"
	rewards "urr.guru/services/reward/sandbox"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewJSONHandler(os.Stdout, nil)).With("service", "sandbox")
	if err := run(ctx, os.Getenv, log); err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, env func(string) string, log *slog.Logger) error {
	addr, file, secret := env("HTTP_ADDR"), env("LEDGER_FILE"), env("SANDBOX_WEBHOOK_SECRET")
	if addr == "" || file == "" || len(secret) < 32 {
		return errors.New("HTTP_ADDR, LEDGER_FILE and SANDBOX_WEBHOOK_SECRET (at least 32 bytes) must be set")
	}
	var faults rewards.Faults
	var refundFaults sandbox.Faults
	dynamoDB, invalid := openDynamoDB(env)
	if err := errors.Join(invalid, readJSONVariable(env, "SANDBOX_REWARD_FAULTS", &faults), readJSONVariable(env, "SANDBOX_REFUND_FAULTS", &refundFaults)); err != nil {
		return err
	}
	beacon, err := openBeacon(env("SANDBOX_BEACON_SECRET"), env("SANDBOX_BEACON_PERIOD"))
	if err != nil {
		return err
	}
	identities, err := openIdentities(env, log)
	if err != nil {
		return err
	}
	mails, closeMails, err := openMails(ctx, env)
	if err != nil {
		return err
	}
	defer closeMails()
	ledger, err := sandbox.Open(file, time.Now)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return errors.Join(fmt.Errorf("listen: %w", err), ledger.Close())
	}
	payouts, err := rewards.Open(file+".rewards", time.Now)
	if err != nil {
		return errors.Join(err, listener.Close(), ledger.Close())
	}
	payments := sandbox.NewServer(ctx, ledger, sandbox.Options{
		WebhookURL: env("WEBHOOK_URL"), WebhookSecret: secret, Faults: refundFaults,
	}, log)
	rewarding := rewards.NewServer(ctx, payouts, faults, log)
	// WriteTimeout is longer than any delay that a simulated visitor can request by a payment key.
	server := &http.Server{
		Handler: routes(payments, rewarding, beacon, identities, mails, dynamoDB), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: time.Minute, IdleTimeout: time.Minute,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	log.InfoContext(ctx, "ready", "addr", listener.Addr().String(), "ledger", file)
	select {
	case err = <-failed:
		err = fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = server.Shutdown(limit)
		if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
	}
	payments.Wait()
	rewarding.Wait()
	return errors.Join(err, ledger.Close(), payouts.Close())
}

// routes returns the handler of all providers, the beacon, the mails and DynamoDB. beacon, identities,
// mails and dynamoDB may be nil.
func routes(payments, rewarding http.Handler, beacon *beacontest.Beacon, identities, mails, dynamoDB http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", payments)
	mux.Handle("/rewards/", http.StripPrefix("/rewards", rewarding))
	if beacon != nil {
		mux.Handle("/beacon/", http.StripPrefix("/beacon", beacon))
	}
	if identities != nil {
		mux.Handle("/oidc/", http.StripPrefix("/oidc", identities))
	}
	if mails != nil {
		mux.Handle("/mail/{file...}", mails)
	}
	if dynamoDB != nil {
		mux.Handle("/dynamodb", dynamoDB)
	}
	return mux
}

// openDynamoDB returns the proxy before DynamoDB, or nil if no endpoint is configured.
func openDynamoDB(env func(string) string) (http.Handler, error) {
	endpoint := env("SANDBOX_DYNAMODB_ENDPOINT")
	if endpoint == "" {
		return nil, nil //nolint:nilnil // optional
	}
	fraction, err := strconv.ParseFloat(env("SANDBOX_DYNAMODB_FRACTION"), 64)
	if err != nil || fraction <= 0 || fraction > 1 {
		return nil, errors.New("SANDBOX_DYNAMODB_FRACTION (STRICT of make) must be above 0 and at most 1")
	}
	return awsproxy.NewStrict(endpoint, strict.New(strict.Limits{Fraction: fraction})), nil
}

// openMails returns the handler that shows mails, or nil if no mails are accepted.
func openMails(ctx context.Context, env func(string) string) (handler http.Handler, closeMails func(), err error) {
	addr := env("SANDBOX_MAIL_ADDR")
	if addr == "" {
		return nil, func() {}, nil
	}
	sink, err := mailsink.Listen(ctx, addr, env("SANDBOX_MAIL_DIR"))
	if err != nil {
		return nil, nil, err
	}
	return sink, func() { _ = sink.Close() }, nil // an error is ignored: the process ends
}

// openIdentities returns the identity provider's handler, or nil if no issuer is configured.
func openIdentities(env func(string) string, log *slog.Logger) (http.Handler, error) {
	issuer := env("SANDBOX_OIDC_ISSUER")
	if issuer == "" {
		return nil, nil
	}
	return openid.New(issuer, openid.Client{
		ID: env("SANDBOX_OIDC_CLIENT_ID"), Secret: env("SANDBOX_OIDC_CLIENT_SECRET"),
		URL: env("SANDBOX_OIDC_CLIENT_URL"), Redirect: "/api/v1/auth/callback",
	}, log)
}

// openBeacon returns the randomness beacon, or nil if secret is empty.
func openBeacon(secret, period string) (*beacontest.Beacon, error) {
	if secret == "" {
		return nil, nil
	}
	options := beacontest.Options{}
	if period != "" {
		var err error
		if options.Period, err = time.ParseDuration(period); err != nil {
			return nil, fmt.Errorf("SANDBOX_BEACON_PERIOD: %w", err)
		}
	}
	return beacontest.New([]byte(secret), options)
}

// readJSONVariable decodes the JSON in a variable into a value. It does nothing if it is not set.
func readJSONVariable(env func(string) string, name string, into any) error {
	text := env(name)
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
