// Package bench measures what the hot paths of the platform cost, beside a named baseline in the
// same run. CPU time is that of whole processes, as the kernel counts it.
package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"urr.guru/pkg/rounds"
)

// Options of a run.
type Options struct {
	// Rows to measure; empty: all.
	Rows []string
	// Rounds of each row.
	Rounds int
	// Say reports the progress.
	Say func(format string, args ...any)
}

// group is rows that are measured on the same processes.
type group struct {
	rows []string
	// run measures the wanted ones of its rows, and hands each to done.
	run func(ctx context.Context, opts Options, wanted []string, done func(rounds.Result)) error
}

func groups() []group {
	return []group{pollGroup(), requestGroup(), seatGroup(), availabilityGroup(), packageGroup()}
}

// rowNames lists the rows in their order.
func rowNames() []string {
	var names []string
	for _, g := range groups() {
		names = append(names, g.rows...)
	}
	return names
}

// Run measures the rows.
func Run(ctx context.Context, opts Options) (results []rounds.Result, err error) {
	all := rowNames()
	for _, name := range opts.Rows {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("there is no row %q; the rows are %s", name, strings.Join(all, ", "))
		}
	}
	done := func(r rounds.Result) {
		opts.Say("%-18s %.2f of the baseline, must reach %.2f", r.Name, r.Ratio, r.Must)
		results = append(results, r)
	}
	for _, g := range groups() {
		wanted := g.rows
		if len(opts.Rows) > 0 {
			wanted = slices.DeleteFunc(slices.Clone(g.rows), func(name string) bool { return !slices.Contains(opts.Rows, name) })
		}
		if len(wanted) == 0 {
			continue
		}
		if err := g.run(ctx, opts, wanted, done); err != nil {
			return results, err
		}
	}
	return results, nil
}

// compare measures n rounds of a row.
func compare(ctx context.Context, n int, row rounds.Result, subject, baseline rounds.Side) (rounds.Result, error) {
	c, err := rounds.New(ctx, subject, baseline)
	if err != nil {
		return row, err
	}
	for range n {
		if err := c.Round(ctx); err != nil {
			return row, err
		}
	}
	return c.Result(row), nil
}
