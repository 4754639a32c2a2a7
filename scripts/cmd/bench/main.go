// Command bench measures the cost of the platform's frequent operations, each compared with a
// baseline. It starts the processes with the settings of production, and writes
// .urr/bench/report.json.
//
// The variable ROWS=serving,event selects the rows; ROUNDS is the number of rounds of each row.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"urr.guru/pkg/benchtest"
	"urr.guru/pkg/config"
	"urr.guru/scripts/bench"
	"urr.guru/scripts/internal/interrupt"
	"urr.guru/scripts/platform"
)

func main() { interrupt.Main("bench", run) }

type Config struct {
	// Rows are the names of the rows to measure; empty: all.
	Rows []string `env:"ROWS"`
	// Rounds is the number of rounds of each row.
	Rounds int `env:"ROUNDS, default=7" min:"1" max:"1000"`
}

func run(ctx context.Context, args []string) error {
	if len(args) == 1 {
		if isServer, err := bench.RunBareServer(ctx, args[0], os.Stdin, os.Stdout); isServer {
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
	file := layout.State("bench", "report.json")
	opts := bench.Options{Rows: cfg.Rows, Rounds: cfg.Rounds, Say: say, Keep: func(r bench.Report) {
		if err := r.Keep(file); err != nil {
			say("%v", err)
		}
	}}
	report, interrupted := bench.Run(ctx, opts)
	if report.StartedAt.IsZero() {
		return interrupted // no row was measured
	}
	report.Print(os.Stdout)
	say("\n%d rows in %.0f s: %s", len(report.Rows), report.TookSeconds, file)
	return errors.Join(report.Keep(file), printSlowerRows(layout, report), report.Unmeasured(), interrupted)
}

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// printSlowerRows prints the rows whose ratio to the baseline is more than a fifth lower than in
// the reference report, which is in the repository.
func printSlowerRows(layout platform.Layout, r bench.Report) error {
	reference, err := bench.Reference(layout.Root)
	if err != nil {
		return err
	}
	for _, slower := range benchtest.SlowerRows(r.Rows, reference.Rows) {
		fmt.Println("ratio more than a fifth below that of the kept report:", slower)
	}
	return nil
}
