package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"urr.guru/pkg/rounds"
	"urr.guru/scripts/process"
)

// Report is the outcome of a run: .urr/bench/report.json, and the one that is kept in the repository.
type Report struct {
	StartedAt   time.Time       `json:"started_at"`
	TookSeconds float64         `json:"took_seconds"`
	Go          string          `json:"go"`
	Processors  int             `json:"processors"`
	Rows        []rounds.Result `json:"rows"`
	// RowSeconds is how long each row took; the first of a group includes the start of its processes.
	RowSeconds map[string]float64 `json:"row_seconds,omitempty"`
	// Failed are the rows that could not be measured.
	Failed []Failure `json:"failed,omitempty"`
}

// Failure is why a row could not be measured.
type Failure struct {
	Row   string `json:"row"`
	Error string `json:"error"`
}

// Reference reads the report that is kept in the repository with this root.
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
func (r Report) Row(name string) (row rounds.Result, found bool) {
	for _, row := range r.Rows {
		if row.Name == name {
			return row, true
		}
	}
	return row, false
}

// Keep writes the report to a file. A run that calls it again and again leaves the last one whole,
// whenever it ends.
func (r Report) Keep(file string) error { return process.Save(file, r) }

// Unmeasured is the error of rows that could not be measured.
func (r Report) Unmeasured() error {
	var all []error
	for _, f := range r.Failed {
		all = append(all, fmt.Errorf("not measured: %s: %s", f.Row, f.Error))
	}
	return errors.Join(all...)
}

// Print prints the rows with their parts, and the ratio of each round, or its value where there is no
// baseline.
func (r Report) Print(out io.Writer) {
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "row\tvalue\tbaseline\tratio\tmust\taim\t\tunit")
	for _, row := range r.Rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", row.Name, figure(row.Value),
			figure(row.Baseline), figure(row.Ratio), figure(row.Must), figure(row.Aim), outcome(row), row.Unit)
		for _, name := range slices.Sorted(maps.Keys(row.Parts)) {
			fmt.Fprintf(w, "  %s\t%s\t\t\t\t\t\t\n", name, figure(row.Parts[name]))
		}
		var all []string
		for _, round := range row.Raw {
			if row.Besides == "" {
				all = append(all, figure(round.Value))
			} else {
				all = append(all, figure(round.Baseline/round.Value))
			}
		}
		fmt.Fprintf(w, "  rounds\t%s\n", strings.Join(all, " "))
	}
	_ = w.Flush() // standard output
}

// outcome is misses, ok, or aim for a row that reaches what it should, and the limits that are exceeded.
func outcome(row rounds.Result) string {
	text := "ok"
	switch {
	case !row.OK():
		text = "misses"
	case row.Aim > 0 && row.Ratio >= row.Aim:
		text = "aim"
	}
	for _, part := range row.Exceeded() {
		text += fmt.Sprintf(", %s above %s", part, figure(row.Limits[part]))
	}
	return text
}

// figure has four digits, or all digits before the point; 0, which a row may not have, is empty.
func figure(v float64) string {
	switch {
	case v == 0:
		return ""
	case v >= 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	default:
		return fmt.Sprintf("%.4g", v)
	}
}
