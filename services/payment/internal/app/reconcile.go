package app

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
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
		day, names, err := reconcileArgs(cfg, args, time.Now())
		if err != nil {
			return &lifecycle.Exit{Code: exitUsage, Err: err}
		}
		differences, err := runReconcile(ctx, cfg, day, names, out)
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

// reconcileArgs parses the arguments. By default the day is yesterday, and names has all providers.
func reconcileArgs(cfg *Config, args []string, now time.Time) (day time.Time, names []string, err error) {
	flags := flag.NewFlagSet("reconcile", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	text := flags.String("day", now.UTC().AddDate(0, 0, -1).Format(time.DateOnly), "")
	name := flags.String("provider", "", "")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		return day, nil, errors.New("usage: " + reconcileUsage)
	}
	if day, err = time.Parse(time.DateOnly, *text); err != nil || day.After(now) {
		return day, nil, fmt.Errorf("--day %q: must be a day as 2026-11-26, in UTC, that has begun", *text)
	}
	if *name != "" {
		return day, []string{*name}, nil
	}
	return day, cfg.Providers, nil
}

// runReconcile compares a day of each provider's account. It returns the number of differences.
// After an error it still compares the other providers.
func runReconcile(ctx context.Context, cfg *Config, day time.Time, names []string, out io.Writer) (differences int, err error) {
	pool, err := pkgpostgres.Open(ctx, cfg.Postgres, name, pkgpostgres.Indexed())
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	store := postgres.NewStore(pool, postgres.Options{})
	providers := newProviders(cfg, nil)
	defer providers.close()
	lines := bufio.NewWriter(out)
	report := func(f reconcile.Finding) error {
		_, err := fmt.Fprintln(lines, f)
		return err
	}
	for _, name := range names {
		g, ok := providers.guarded[name]
		if !ok {
			err = errors.Join(err, fmt.Errorf("provider %q is not one of PAYMENT_PROVIDERS", name))
			continue
		}
		sum, failure := reconcile.Run(ctx, store, store, reconcile.Source{Provider: g, Name: name}, day, report)
		differences += sum.Differences
		if failure == nil {
			_, failure = fmt.Fprintln(lines, sum)
		}
		err = errors.Join(err, failure)
	}
	return differences, errors.Join(err, lines.Flush())
}
