package main

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"urr.guru/pkg/rounds"
	"urr.guru/scripts/bench"
	"urr.guru/scripts/internal/report"
)

//go:embed report.html.tmpl
var pageSource string

// write keeps the report as report.json and report.html, and prints where.
func write(dir string, r bench.Report) error {
	page, err := page(r)
	if err != nil {
		return err
	}
	return report.Write(dir, r, page)
}

// keep is write of a report that is not complete yet.
func keep(dir string, r bench.Report) error {
	page, err := page(r)
	if err != nil {
		return err
	}
	return report.Keep(dir, r, page)
}

// entry is a row of the page: its ratio in each round, or, without a baseline, its value.
type entry struct {
	rounds.Result

	Rounds  []string
	Bounds  []string // the limits
	Verdict string   // also the class of its line
}

func newEntry(r rounds.Result) entry {
	e := entry{Result: r, Verdict: verdict(r)}
	for _, round := range r.Raw {
		if r.Besides == "" {
			e.Rounds = append(e.Rounds, figure(round.Value))
		} else {
			e.Rounds = append(e.Rounds, ratio(round.Baseline/round.Value))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Limits)) {
		e.Bounds = append(e.Bounds, fmt.Sprintf("%s %s ≤ %s", name, figure(r.Parts[name]), figure(r.Limits[name])))
	}
	return e
}

// Figure formats a number for the page.
func (entry) Figure(v float64) string { return figure(v) }

// figure has four digits, or all digits before the point.
func figure(v float64) string {
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return fmt.Sprintf("%.4g", v)
}

// verdict is misses, ok, or aim for a row that reaches what it should.
func verdict(r rounds.Result) string {
	switch {
	case !r.OK():
		return "misses"
	case r.Aim > 0 && r.Ratio >= r.Aim:
		return "aim"
	default:
		return "ok"
	}
}

// page renders the report; the file needs no other.
func page(r bench.Report) ([]byte, error) {
	entries := make([]entry, len(r.Rows))
	for i, row := range r.Rows {
		entries[i] = newEntry(row)
	}
	return report.Render(pageSource, map[string]any{"Report": r, "Rows": entries})
}
