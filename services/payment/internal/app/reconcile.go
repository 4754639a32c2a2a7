package app

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"urr.guru/pkg/lifecycle"
	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/pkg/rpc"
	"urr.guru/services/payment/internal/postgres"
	"urr.guru/services/payment/internal/reconcile"
	"urr.guru/services/payment/internal/ticket"
)

const reconcileUsage = "reconcile [--day 2026-11-26] [--provider NAME]"

// Exit codes of the command: 1, the comparison was not finished; 2, the arguments are wrong; 3,
// there are differences.
const (
	exitNotCompared = 1
	exitUsage       = 2
	exitDifferences = 3
)

// Comparison is a part of the command: WithProviders or WithTicket.
type Comparison func(ctx context.Context, r *reconciliation)

// Reconcile is the command that compares a day of the payments by these parts. It prints one line per
// finding, and the counts of each comparison. After an error it still makes the other comparisons.
func Reconcile(parts ...Comparison) lifecycle.Command[Config] {
	return lifecycle.Command[Config]{Usage: reconcileUsage, Run: func(ctx context.Context, cfg *Config, args []string, out io.Writer) error {
		day, name, err := reconcileArgs(args, time.Now())
		if err != nil {
			return &lifecycle.Exit{Code: exitUsage, Err: err}
		}
		differences, err := runReconcile(ctx, cfg, day, name, out, parts)
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

// reconciliation is one run of the command for a day. only is the name of the provider to compare,
// or reconcile.Ticket; empty: all. differences and err are the results.
type reconciliation struct {
	cfg         *Config
	pool        *pgxpool.Pool
	store       *postgres.Store
	day         time.Time
	only        string
	lines       *bufio.Writer
	differences int
	err         error
}

func runReconcile(ctx context.Context, cfg *Config, day time.Time, only string, out io.Writer, parts []Comparison) (differences int, err error) {
	pool, err := pkgpostgres.Open(ctx, cfg.Postgres, name, pkgpostgres.Indexed())
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	r := &reconciliation{
		cfg: cfg, pool: pool, store: postgres.NewStore(pool, postgres.Options{Mode: cfg.mode()}), day: day, only: only, lines: bufio.NewWriter(out),
	}
	for _, compare := range parts {
		compare(ctx, r)
	}
	return r.differences, errors.Join(r.err, r.lines.Flush())
}

func (r *reconciliation) report(f reconcile.Finding) error {
	_, err := fmt.Fprintln(r.lines, f)
	return err
}

// record adds the result of a comparison.
func (r *reconciliation) record(sum reconcile.Summary, failure error) {
	r.differences += sum.Differences
	if failure == nil {
		_, failure = fmt.Fprintln(r.lines, sum)
	}
	r.err = errors.Join(r.err, failure)
}

// WithProviders compares the payments with the accounts of all configured providers, and finds what
// was captured by others.
func WithProviders(ctx context.Context, r *reconciliation) {
	if r.only == reconcile.Ticket {
		return
	}
	providers := newProviders(r.cfg, deps{postgres.NewBudgets(r.pool), slog.New(slog.DiscardHandler)})
	defer providers.close()
	names, unserved := []string{r.only}, []string(nil)
	if r.only == "" {
		var err error
		names = r.cfg.Providers
		unserved, err = r.store.Unserved(ctx, names)
		r.err = errors.Join(r.err, err)
	}
	for _, name := range names {
		g, ok := providers.guarded[name]
		if !ok {
			r.err = errors.Join(r.err, fmt.Errorf("provider %q is not one of PAYMENT_PROVIDERS", name))
			continue
		}
		r.record(reconcile.Run(ctx, r.store, r.store, reconcile.Source{Provider: g, Name: name}, r.day, r.report))
	}
	for _, name := range unserved {
		r.record(reconcile.RunUnserved(ctx, r.store, r.store, name, r.day, r.report))
	}
}

// dialTicket connects a command to the ticket service, as the service does.
func dialTicket(cfg *Config) (*rpc.Conn, error) {
	identity, err := rpc.NewIdentity(name, cfg.TLS)
	if err != nil {
		return nil, err
	}
	return rpc.Dial(name, "ticket", cfg.Ticket, rpc.WithIdentity(identity))
}

// WithTicket compares the payments with what the ticket service has sold.
func WithTicket(ctx context.Context, r *reconciliation) {
	if r.only != "" && r.only != reconcile.Ticket {
		return
	}
	unserved, err := r.store.Unserved(ctx, r.cfg.Providers)
	if err != nil {
		r.err = errors.Join(r.err, err)
		return
	}
	conn, err := dialTicket(r.cfg)
	if err != nil {
		r.err = errors.Join(r.err, err)
		return
	}
	defer func() { _ = conn.Close() }()
	providers := slices.Concat(r.cfg.Providers, unserved)
	r.record(reconcile.RunTickets(ctx, r.store, r.store, ticket.NewClient(conn), providers, r.day, r.report))
}
