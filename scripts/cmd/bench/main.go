// Command bench measures the hot paths of the platform beside their baselines, on processes that it
// starts with the settings of production, and writes .urr/bench/report.json and report.html.
//
// ROWS=serving,event measures only these rows. ROUNDS is the number of rounds of each.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

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
		fmt.Println("bench interrupted")
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

// Report is .urr/bench/report.json.
type Report struct {
	StartedAt   time.Time       `json:"started_at"`
	TookSeconds float64         `json:"took_seconds"`
	Go          string          `json:"go"`
	Processors  int             `json:"processors"`
	Rows        []rounds.Result `json:"rows"`
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
	begun := time.Now()
	rows, err := bench.Run(ctx, bench.Options{Rows: cfg.Rows, Rounds: cfg.Rounds, Say: func(format string, args ...any) { fmt.Printf(format+"\n", args...) }})
	if err != nil {
		return err
	}
	report := Report{
		StartedAt: begun.UTC(), TookSeconds: time.Since(begun).Seconds(), Go: runtime.Version(), Processors: runtime.NumCPU(), Rows: rows,
	}
	printTable(report)
	if err := write(layout.State("bench"), report); err != nil {
		return err
	}
	return compare(layout, rows)
}

func printTable(r Report) {
	fmt.Println()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "row\tvalue\tbaseline\tratio\tmust\taim\t\tunit")
	for _, row := range r.Rows {
		verdict := "ok"
		if !row.OK() {
			verdict = "misses"
		}
		for _, part := range row.Exceeded() {
			verdict += fmt.Sprintf(", %s above %.4g", part, row.Limits[part])
		}
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.2f\t%.2f\t%.2f\t%s\t%s\n", row.Name, row.Value, row.Baseline, row.Ratio, row.Must, row.Aim, verdict, row.Unit)
		for _, name := range slices.Sorted(maps.Keys(row.Parts)) {
			fmt.Fprintf(w, "  %s\t%.4g\t\t\t\t\t\t\n", name, row.Parts[name])
		}
	}
	_ = w.Flush() // standard output
}

// compare prints the rows whose ratio is more than a fifth below that of the report in the
// repository.
func compare(layout platform.Layout, rows []rounds.Result) error {
	raw, err := os.ReadFile(filepath.Join(layout.Root, "scripts", "bench", "reference.json"))
	if err != nil {
		return fmt.Errorf("read the kept report: %w", err)
	}
	var kept Report
	if err := json.Unmarshal(raw, &kept); err != nil {
		return fmt.Errorf("read the kept report: %w", err)
	}
	for _, slower := range rounds.Slower(rows, kept.Rows) {
		fmt.Println("ratio more than a fifth below that of the kept report:", slower)
	}
	return nil
}
