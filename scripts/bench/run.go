// Package bench measures the cost of the platform's frequent operations, each compared with a
// baseline in the same run. CPU time is that of whole processes, as the kernel counts it.
package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"urr.guru/pkg/benchtest"
	"urr.guru/scripts/backends"
	"urr.guru/scripts/platform"
	"urr.guru/scripts/process"
)

// Options are which rows Run measures, in how many rounds, and where progress and results go.
type Options struct {
	// Rows are the names of the operations to measure, each a row of the report; empty: all.
	Rows []string
	// Rounds is the number of rounds of each row.
	Rounds int
	// Say prints the progress.
	Say func(format string, args ...any)
	// Keep receives the report after each row, with the results so far.
	Keep func(Report)
}

// rowGroup is a list of rows for which the same running processes are used.
type rowGroup struct {
	rows []string
	// run measures the group's rows whose names are in wanted, and passes each result to addResult.
	run func(ctx context.Context, opts Options, wanted []string, addResult func(benchtest.Result)) error
}

func groups() []rowGroup {
	polled, packages := rowGroup{run: runPolls}, rowGroup{run: runBenchmarks}
	for _, p := range pollRows() {
		polled.rows = append(polled.rows, p.name)
	}
	for _, b := range benchmarks() {
		packages.rows = append(packages.rows, b.row)
	}
	return []rowGroup{
		polled,
		{[]string{assignRow}, runRooms},
		{[]string{"seat_hold", generalRow}, runSeats},
		{[]string{availabilityRow}, runAvailability},
		{[]string{"confirm"}, runConfirm},
		{[]string{"overload_goodput"}, runOverload},
		{[]string{"limits"}, runLimits},
		{[]string{settleRow}, runRequests},
		{[]string{soldOutRow}, runSoldOut},
		packages,
	}
}

// Rows returns the names of all rows, in the order of the report.
func Rows() []string { return rowNames(groups()) }

func rowNames(groups []rowGroup) (names []string) {
	for _, g := range groups {
		names = append(names, g.rows...)
	}
	return names
}

// Run measures the rows, on backends that run throughout. If a row fails, Run adds it to the
// report's failures and continues. It returns an error only for an unknown row, or if the backends
// cannot start, or if ctx ends; the rows that are then missing are failures too.
func Run(ctx context.Context, opts Options) (_ Report, err error) {
	groups := groups()
	all := rowNames(groups)
	for _, name := range opts.Rows {
		if !slices.Contains(all, name) {
			return Report{}, fmt.Errorf("there is no row %q; the rows are %s", name, strings.Join(all, ", "))
		}
	}
	layout, err := platform.Find()
	if err != nil {
		return Report{}, err
	}
	release, err := backends.New(layout, true, opts.Say).Acquire(ctx)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, release(ctx)) }()
	return measure(ctx, opts, groups)
}

func measure(ctx context.Context, opts Options, groups []rowGroup) (Report, error) {
	began := time.Now()
	m := measurement{opts: opts, began: began, report: Report{
		StartedAt: began.UTC(), Go: runtime.Version(), Processors: runtime.NumCPU(), RowSeconds: map[string]float64{},
	}}
	var interrupted error
	for _, g := range groups {
		if interrupted = m.measureGroup(ctx, g); interrupted != nil {
			break
		}
	}
	if unmeasured := m.unreported(rowNames(groups)); interrupted != nil && len(unmeasured) > 0 {
		m.addFailure(unmeasured, interrupted)
	}
	m.report.TookSeconds = time.Since(began).Seconds()
	return m.report, interrupted
}

// measurement collects the results of a run of the benchmarks.
type measurement struct {
	opts   Options
	began  time.Time
	report Report
}

// measureGroup measures the wanted rows of a group. If a row fails, it starts the group's processes
// again for the other rows. It stops when no row was measured after two consecutive starts.
func (m *measurement) measureGroup(ctx context.Context, g rowGroup) error {
	remaining := m.wantedRows(g.rows)
	for fruitless, before := 0, len(remaining); before > 0; before = len(remaining) {
		err := m.measureRowsOf(ctx, g, &remaining)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil && len(remaining) > 0 {
			err = errors.New("its group ended without measuring it")
		}
		if err == nil {
			return nil
		}
		if fruitless++; len(remaining) < before {
			fruitless = 0
		}
		failed := remaining
		switch {
		case len(remaining) == 0:
			failed = g.rows // all rows are measured, but a process failed at the end
		case fruitless < 2:
			failed, remaining = remaining[:1], remaining[1:]
		default:
			remaining = nil
		}
		m.addFailure(failed, err)
	}
	return nil
}

// wantedRows returns the rows that the options select.
func (m *measurement) wantedRows(rows []string) []string {
	return slices.DeleteFunc(slices.Clone(rows), func(name string) bool {
		return len(m.opts.Rows) > 0 && !slices.Contains(m.opts.Rows, name)
	})
}

// unreported returns the wanted rows that are in the report neither as measured nor as failed.
func (m *measurement) unreported(all []string) []string {
	return slices.DeleteFunc(m.wantedRows(all), func(name string) bool {
		_, measured := m.report.Row(name)
		return measured || slices.ContainsFunc(m.report.Failed, func(f Failure) bool { return slices.Contains(strings.Split(f.Row, ", "), name) })
	})
}

func (m *measurement) addFailure(rows []string, err error) {
	name := strings.Join(rows, ", ")
	m.opts.Say("%s failed: %v", name, err)
	m.report.Failed = append(m.report.Failed, Failure{Row: name, Error: err.Error()})
	m.keepReport()
}

func (m *measurement) keepReport() {
	m.report.TookSeconds = time.Since(m.began).Seconds()
	if m.opts.Keep != nil {
		m.opts.Keep(m.report)
	}
}

// measureRowsOf measures the rows of a group that are in remaining, from which it removes each one.
func (m *measurement) measureRowsOf(ctx context.Context, g rowGroup, remaining *[]string) error {
	began := time.Now()
	return g.run(ctx, m.opts, slices.Clone(*remaining), func(r benchtest.Result) {
		took := time.Since(began)
		m.opts.Say("%s, %.0f s", progressLine(r), took.Seconds())
		m.report.Rows = append(m.report.Rows, r)
		m.report.RowSeconds[r.Name] = took.Seconds()
		m.keepReport()
		*remaining = slices.DeleteFunc(*remaining, func(name string) bool { return name == r.Name })
		began = time.Now()
	})
}

// progressLine formats the result of a row as one line.
func progressLine(r benchtest.Result) string {
	if r.Besides == "" {
		return fmt.Sprintf("%-18s %.4g %s, limits %v", r.Name, r.Value, r.Unit, r.Limits)
	}
	return fmt.Sprintf("%-18s %.2f of the baseline, must reach %.2f", r.Name, r.Ratio, r.Must)
}

// compareSides measures n rounds of a row. baseline is nil for a row that has none.
func compareSides(ctx context.Context, n int, row benchtest.Result, subject, baseline benchtest.MeasureFunc) (benchtest.Result, error) {
	c, err := benchtest.New(ctx, subject, baseline)
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

// Report is the outcome of a run, as in .urr/bench/report.json and scripts/bench/reference.json.
type Report struct {
	StartedAt   time.Time          `json:"started_at"`
	TookSeconds float64            `json:"took_seconds"`
	Go          string             `json:"go"`
	Processors  int                `json:"processors"`
	Rows        []benchtest.Result `json:"rows"`
	// RowSeconds is how long each row took; the first of a group includes the start of its processes.
	RowSeconds map[string]float64 `json:"row_seconds,omitempty"`
	// Failed are the rows that could not be measured, with their errors.
	Failed []Failure `json:"failed,omitempty"`
}

// Failure is a row that could not be measured, with its error.
type Failure struct {
	Row   string `json:"row"`
	Error string `json:"error"`
}

// Reference reads scripts/bench/reference.json, a report that is in the repository.
func Reference(root string) (r Report, err error) {
	raw, err := os.ReadFile(filepath.Join(root, "scripts", "bench", "reference.json"))
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil {
		return r, fmt.Errorf("read the kept report: %w", err)
	}
	return r, nil
}

// Row returns the result of a row; found is false if it was not measured.
func (r Report) Row(name string) (row benchtest.Result, found bool) {
	for _, row := range r.Rows {
		if row.Name == name {
			return row, true
		}
	}
	return row, false
}

// Keep writes the report to a file atomically: a killed run leaves its last complete report.
func (r Report) Keep(file string) error { return process.Save(file, r) }

// Unmeasured returns the errors of the rows that could not be measured, or nil if there are none.
func (r Report) Unmeasured() error {
	var all []error
	for _, f := range r.Failed {
		all = append(all, fmt.Errorf("not measured: %s: %s", f.Row, f.Error))
	}
	return errors.Join(all...)
}

// Print prints a table of the rows and their parts. For each round it prints the ratio to the
// baseline or, if there is none, the value.
func (r Report) Print(out io.Writer) {
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "row\tvalue\tbaseline\tratio\tmust\taim\t\tunit")
	for _, row := range r.Rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", row.Name, formatFigure(row.Value),
			formatFigure(row.Baseline), formatFigure(row.Ratio), formatFigure(row.Must), formatFigure(row.Aim), outcome(row), row.Unit)
		for _, name := range slices.Sorted(maps.Keys(row.Parts)) {
			fmt.Fprintf(w, "  %s\t%s\t\t\t\t\t\t\n", name, formatFigure(row.Parts[name]))
		}
		var all []string
		for _, round := range row.Raw {
			if row.Besides == "" {
				all = append(all, formatFigure(round.Value))
			} else {
				all = append(all, formatFigure(round.Baseline/round.Value))
			}
		}
		fmt.Fprintf(w, "  rounds\t%s\n", strings.Join(all, " "))
	}
	_ = w.Flush() // an error is ignored: it writes to standard output
}

// outcome returns whether a row misses its limit (misses), reaches it (ok) or reaches its aim
// (aim), and which parts exceed their limits.
func outcome(row benchtest.Result) string {
	text := "ok"
	switch {
	case !row.OK():
		text = "misses"
	case row.Aim > 0 && row.Ratio >= row.Aim:
		text = "aim"
	}
	for _, part := range row.Exceeded() {
		text += fmt.Sprintf(", %s above %s", part, formatFigure(row.Limits[part]))
	}
	return text
}

// formatFigure formats a value with four digits, or all digits before the point; 0 (absent) is "".
func formatFigure(v float64) string {
	switch {
	case v == 0:
		return ""
	case v >= 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	default:
		return fmt.Sprintf("%.4g", v)
	}
}
