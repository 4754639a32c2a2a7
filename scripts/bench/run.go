// Package bench measures what the hot paths of the platform cost, beside a named baseline in the
// same run. CPU time is that of whole processes, as the kernel counts it.
package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

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
	return []group{
		pollGroup(), roomGroup(), lineGroup(), seatGroup(), availabilityGroup(), confirmGroup(), overloadGroup(), requestGroup(), packageGroup(),
	}
}

// rowNames lists the rows in their order.
func rowNames(groups []group) []string {
	var names []string
	for _, g := range groups {
		names = append(names, g.rows...)
	}
	return names
}

// Run measures the rows. Rows that fail are named in the report, and the others are measured all the
// same. It fails only for an unknown row, and when ctx ends.
func Run(ctx context.Context, opts Options) (Report, error) { return measure(ctx, opts, groups()) }

func measure(ctx context.Context, opts Options, groups []group) (Report, error) {
	began := time.Now()
	m := measurement{opts: opts, report: Report{
		StartedAt: began.UTC(), Go: runtime.Version(), Processors: runtime.NumCPU(), RowSeconds: map[string]float64{},
	}}
	all := rowNames(groups)
	for _, name := range opts.Rows {
		if !slices.Contains(all, name) {
			return Report{}, fmt.Errorf("there is no row %q; the rows are %s", name, strings.Join(all, ", "))
		}
	}
	for _, g := range groups {
		if err := m.group(ctx, g); err != nil {
			return m.report, err
		}
	}
	m.report.TookSeconds = time.Since(began).Seconds()
	return m.report, nil
}

// measurement collects the results of a run.
type measurement struct {
	opts   Options
	report Report
}

// group measures the wanted rows of a group. After a failure it goes on behind the row that failed,
// but not if two runs in a row measured nothing: then the group's processes cannot run.
func (m *measurement) group(ctx context.Context, g group) error {
	left := slices.DeleteFunc(slices.Clone(g.rows), func(name string) bool {
		return len(m.opts.Rows) > 0 && !slices.Contains(m.opts.Rows, name)
	})
	for fruitless, before := 0, len(left); before > 0; before = len(left) {
		err := m.rows(ctx, g, &left)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil && len(left) > 0 {
			err = errors.New("its group ended without measuring it")
		}
		if err == nil {
			return nil
		}
		if fruitless++; len(left) < before {
			fruitless = 0
		}
		failed := left
		switch {
		case len(left) == 0:
			failed = g.rows // measured, but their processes did not end well
		case fruitless < 2:
			failed, left = left[:1], left[1:]
		default:
			left = nil
		}
		m.failed(failed, err)
	}
	return nil
}

func (m *measurement) failed(rows []string, err error) {
	name := strings.Join(rows, ", ")
	m.opts.Say("%s failed: %v", name, err)
	m.report.Failed = append(m.report.Failed, Failure{Row: name, Error: err.Error()})
}

// rows measures the rows that are left of a group, and removes each that is measured.
func (m *measurement) rows(ctx context.Context, g group, left *[]string) error {
	began := time.Now()
	return g.run(ctx, m.opts, slices.Clone(*left), func(r rounds.Result) {
		m.opts.Say("%s", progress(r))
		m.report.Rows = append(m.report.Rows, r)
		m.report.RowSeconds[r.Name] = time.Since(began).Seconds()
		*left = slices.DeleteFunc(*left, func(name string) bool { return name == r.Name })
		began = time.Now()
	})
}

// progress is a row in one line.
func progress(r rounds.Result) string {
	if r.Besides == "" {
		return fmt.Sprintf("%-18s %.4g %s, limits %v", r.Name, r.Value, r.Unit, r.Limits)
	}
	return fmt.Sprintf("%-18s %.2f of the baseline, must reach %.2f", r.Name, r.Ratio, r.Must)
}

// compare measures n rounds of a row. A nil baseline is for a row with limits only.
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
