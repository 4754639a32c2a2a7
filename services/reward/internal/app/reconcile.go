package app

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"urr.guru/pkg/lifecycle"
	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/services/reward/internal/payout"
	"urr.guru/services/reward/internal/postgres"
	"urr.guru/services/reward/internal/reconcile"
)

const reconcileUsage = "reconcile [--ledger FILE|URL|-] [--kind POINT|COUPON] [--since TIME] [--as-of TIME]"

// The command's exit codes when there are differences, and when the comparison was not finished.
const (
	exitDifferences = 1
	exitNotCompared = 2
)

// Reconcile is the operators' command that compares a provider's ledger with the allocations. It
// prints a line per finding and ends with the counts.
func Reconcile() lifecycle.Command[Config] {
	return lifecycle.Command[Config]{Usage: reconcileUsage, Run: func(ctx context.Context, cfg *Config, args []string, out io.Writer) error {
		counts, err := runReconcile(ctx, cfg, args, out)
		switch {
		case err != nil:
			return &lifecycle.Exit{Code: exitNotCompared, Err: fmt.Errorf("reconcile: not compared: %w", err)}
		case counts.Differences() > 0:
			return &lifecycle.Exit{Code: exitDifferences}
		default:
			return nil
		}
	}}
}

func runReconcile(ctx context.Context, cfg *Config, args []string, out io.Writer) (reconcile.Counts, error) {
	source, opts, err := reconcileArgs(cfg, args)
	if err != nil {
		return reconcile.Counts{}, err
	}
	pool, err := pkgpostgres.Open(ctx, cfg.Postgres, name, pkgpostgres.Indexed())
	if err != nil {
		return reconcile.Counts{}, err
	}
	defer pool.Close()
	lines := bufio.NewWriter(out)
	opts.Report = func(f reconcile.Finding) error {
		_, err := fmt.Fprintln(lines, f)
		return err
	}
	counts, err := reconcile.Run(ctx, postgres.Reconciliation{Database: postgres.New(pool, postgres.Options{})}, source, opts)
	if err == nil {
		_, err = fmt.Fprintln(lines, &counts)
	}
	return counts, errors.Join(err, lines.Flush())
}

// reconcileArgs parses the arguments of the command reconcile. source is the URL of the ledger;
// without --ledger it is the provider's URL with the path /v1/ledger, where the sandbox has it.
func reconcileArgs(cfg *Config, args []string) (source string, opts reconcile.Options, err error) {
	flags := flag.NewFlagSet("reconcile", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&source, "ledger", "", "")
	kind := flags.String("kind", "", "")
	asOf, since := flags.String("as-of", "", ""), flags.String("since", "", "")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		return "", opts, errors.New("usage: " + name + " " + reconcileUsage)
	}
	base := cfg.PointURL
	switch payout.Kind(*kind) {
	case "":
		opts.Kinds = payout.Kinds()
		if source == "" && cfg.PointURL != cfg.CouponURL {
			return "", opts, errors.New("points and coupons have different providers: name a --kind or a --ledger")
		}
	case payout.Coupon:
		base = cfg.CouponURL
		opts.Kinds = []payout.Kind{payout.Coupon}
	case payout.Point:
		opts.Kinds = []payout.Kind{payout.Point}
	default:
		return "", opts, fmt.Errorf("--kind %q: must be POINT or COUPON", *kind)
	}
	if source == "" {
		source = strings.TrimSuffix(base, "/") + "/v1/ledger"
	}
	opts.AsOf, err = parseTime("as-of", *asOf)
	if err == nil {
		opts.Since, err = parseTime("since", *since)
	}
	return source, opts, err
}

// parseTime parses the time of a flag; the zero time if it is absent.
func parseTime(flag, text string) (at time.Time, err error) {
	if text == "" {
		return at, nil
	}
	if at, err = time.Parse(time.RFC3339, text); err != nil {
		return at, fmt.Errorf("--%s %q: must be a time as 2026-03-07T12:00:00Z", flag, text)
	}
	return at, nil
}
