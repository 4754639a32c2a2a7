// Command bench measures the hot paths of the platform beside their baselines, on processes that it
// starts with the settings of production, and writes .urr/bench/report.json and report.html.
//
// ROWS=serving,event measures only these rows. ROUNDS is the number of rounds of each.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"text/tabwriter"

	"urr.guru/pkg/config"
	"urr.guru/pkg/rounds"
	"urr.guru/scripts/bench"
	"urr.guru/scripts/internal/interrupt"
	"urr.guru/scripts/platform"
)

func main() {
	ctx, stop := interrupt.Context()
	defer stop()
	err := run(ctx, os.Args[1:])
	switch {
	case err == nil:
	case ctx.Err() != nil:
		fmt.Println("bench interrupted:", err)
		os.Exit(interrupt.Code)
	default:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// Config is read from the environment.
type Config struct {
	// Rows to measure; empty: all.
	Rows []string `env:"ROWS"`
	// Rounds of each row.
	Rounds int `env:"ROUNDS, default=7" min:"1" max:"1000"`
}

func run(ctx context.Context, args []string) error {
	if len(args) == 1 {
		if known, err := bench.Serve(ctx, args[0], os.Stdin, os.Stdout); known {
			return err
		}
	}
	if len(args) > 0 {
		return errors.New("no arguments are needed; ROWS= and ROUNDS= are read from the environment")
	}
	cfg, err := config.Load[Config](ctx)
	if err != nil {
		return err
	}
	layout, err := platform.Find()
	if err != nil {
		return err
	}
	opts := bench.Options{Rows: cfg.Rows, Rounds: cfg.Rounds, Say: say, Keep: func(r bench.Report) {
		if err := keep(layout.State("bench"), r); err != nil {
			say("%v", err)
		}
	}}
	report, interrupted := bench.Run(ctx, opts)
	if report.StartedAt.IsZero() {
		return interrupted // before any row
	}
	printTable(report)
	say("\n%d rows in %.0f s", len(report.Rows), report.TookSeconds)
	return errors.Join(write(layout.State("bench"), report), compare(layout, report), failed(report), interrupted)
}

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// failed is the error of rows that could not be measured.
func failed(r bench.Report) error {
	var all []error
	for _, f := range r.Failed {
		all = append(all, fmt.Errorf("not measured: %s: %s", f.Row, f.Error))
	}
	return errors.Join(all...)
}

func printTable(r bench.Report) {
	fmt.Println()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "row\tvalue\tbaseline\tratio\tmust\taim\t\tunit")
	for _, row := range r.Rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", row.Name, figure(row.Value),
			unlessZero(row.Baseline, figure), unlessZero(row.Ratio, ratio), unlessZero(row.Must, ratio), unlessZero(row.Aim, ratio), outcome(row), row.Unit)
		for _, name := range slices.Sorted(maps.Keys(row.Parts)) {
			fmt.Fprintf(w, "  %s\t%s\t\t\t\t\t\t\n", name, figure(row.Parts[name]))
		}
	}
	_ = w.Flush() // standard output
}

// unlessZero formats a figure that a row may not have.
func unlessZero(v float64, format func(float64) string) string {
	if v == 0 {
		return ""
	}
	return format(v)
}

func ratio(v float64) string { return fmt.Sprintf("%.2f", v) }

// outcome is the verdict with the limits that are exceeded.
func outcome(row rounds.Result) string {
	text := verdict(row)
	for _, part := range row.Exceeded() {
		text += fmt.Sprintf(", %s above %s", part, figure(row.Limits[part]))
	}
	return text
}

// compare prints the rows whose ratio is more than a fifth below that of the report in the
// repository.
func compare(layout platform.Layout, r bench.Report) error {
	kept, err := bench.Reference(layout.Root)
	if err != nil {
		return err
	}
	for _, slower := range rounds.Slower(r.Rows, kept.Rows) {
		fmt.Println("ratio more than a fifth below that of the kept report:", slower)
	}
	return nil
}
