package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

// rowNames lists the rows in their order.
func rowNames() []string {
	var names []string
	for _, p := range polls() {
		names = append(names, p.name)
	}
	return names
}

// Options of a run.
type Options struct {
	// Rows to measure; empty: all.
	Rows []string
	// Rounds of each row.
	Rounds int
	// Say reports the progress.
	Say func(format string, args ...any)
}

// Run starts a platform and measures the rows.
func Run(ctx context.Context, opts Options) (results []Result, err error) {
	for _, name := range opts.Rows {
		if !slices.Contains(rowNames(), name) {
			return nil, fmt.Errorf("there is no row %q; the rows are %s", name, strings.Join(rowNames(), ", "))
		}
	}
	services := harness.Options{Production: true, Services: []string{platform.Gateway, platform.VWR, platform.Queue, platform.Ticket}}
	err = harness.Run(ctx, services, func(ctx context.Context, p *harness.Platform) error {
		opts.Say("%d visitors sign in and wait", users)
		w, err := newWorld(ctx, p)
		if err != nil {
			return err
		}
		for _, row := range polls() {
			if len(opts.Rows) > 0 && !slices.Contains(opts.Rows, row.name) {
				continue
			}
			r, err := row.row(ctx, w, opts.Rounds)
			if err != nil {
				return fmt.Errorf("%s: %w", row.name, err)
			}
			opts.Say("%-18s %.2f of the baseline, must reach %.2f", r.Name, r.Ratio, r.Must)
			results = append(results, r)
		}
		return nil
	})
	return results, err
}
