package app

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"time"

	"urr.guru/pkg/lifecycle"
	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/services/payment/internal/postgres"
	"urr.guru/services/payment/internal/reconcile"
)

const reconcileUsage = "reconcile [--day 2026-11-26] [--provider NAME]"

// Exit codes of the command: 1, the comparison was not finished; 2, the arguments are wrong; 3,
// there are differences.
const (
	exitNotCompared = 1
	exitUsage       = 2
	exitDifferences = 3
)

// Reconcile is the command that compares a day of the providers' accounts with the payments. It
// prints one line per finding, and the counts of each provider.
func Reconcile() lifecycle.Command[Config] {
	return lifecycle.Command[Config]{Usage: reconcileUsage, Run: func(ctx context.Context, cfg *Config, args []string, out io.Writer) error {
		day, name, err := reconcileArgs(args, time.Now())
		if err != nil {
			return &lifecycle.Exit{Code: exitUsage, Err: err}
		}
		differences, err := runReconcile(ctx, cfg, day, name, out)
		switch {
		case err != nil:
			return &lifecycle.Exit{Code: exitNotCompared, Err: fmt.Errorf("reconcile: not compared: %w", err)}
		case differences > 0:
			return &lifecycle.Exit{Code: exitDifferences}
		default:
			return nil
		}
	}}
}

// reconcileArgs parses the arguments. By default the day is yesterday, and the provider is empty.
func reconcileArgs(args []string, now time.Time) (day time.Time, provider string, err error) {
	flags := flag.NewFlagSet("reconcile", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	text := flags.String("day", now.UTC().AddDate(0, 0, -1).Format(time.DateOnly), "")
	flags.StringVar(&provider, "provider", "", "")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		return day, "", errors.New("usage: " + reconcileUsage)
	}
	if day, err = time.Parse(time.DateOnly, *text); err != nil || day.After(now) {
		return day, "", fmt.Errorf("--day %q: must be a day as 2026-11-26, in UTC, that has begun", *text)
	}
	return day, provider, nil
}

// runReconcile compares a day of a provider's account. If the name only is empty, it compares all
// configured providers and finds what was captured by others. It returns the number of differences.
// After an error it still compares the other providers.
func runReconcile(ctx context.Context, cfg *Config, day time.Time, only string, out io.Writer) (differences int, err error) {
	pool, err := pkgpostgres.Open(ctx, cfg.Postgres, name, pkgpostgres.Indexed())
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	store := postgres.NewStore(pool, postgres.Options{Mode: cfg.mode()})
	providers := newProviders(cfg, deps{postgres.NewBudgets(pool), slog.New(slog.DiscardHandler)})
	defer providers.close()
	lines := bufio.NewWriter(out)
	report := func(f reconcile.Finding) error {
		_, err := fmt.Fprintln(lines, f)
		return err
	}
	record := func(sum reconcile.Summary, failure error) {
		differences += sum.Differences
		if failure == nil {
			_, failure = fmt.Fprintln(lines, sum)
		}
		err = errors.Join(err, failure)
	}
	names, unserved := []string{only}, []string(nil)
	if only == "" {
		names = cfg.Providers
		unserved, err = store.Unserved(ctx, names)
	}
	for _, name := range names {
		g, ok := providers.guarded[name]
		if !ok {
			err = errors.Join(err, fmt.Errorf("provider %q is not one of PAYMENT_PROVIDERS", name))
			continue
		}
		record(reconcile.Run(ctx, store, store, reconcile.Source{Provider: g, Name: name}, day, report))
	}
	for _, name := range unserved {
		record(reconcile.RunUnserved(ctx, store, store, name, day, report))
	}
	return differences, errors.Join(err, lines.Flush())
}
