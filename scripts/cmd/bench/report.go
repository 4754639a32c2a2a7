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

// Size of a row's plot in pixels.
const (
	plotWidth = 600.0
	// plotMargin is how far a plot's end is beyond its last dot or mark.
	plotMargin = 1.05
)

// mark is a labelled line in a plot.
type mark struct {
	Name, Color string
	X           float64
}

// plot shows the ratio of each round as a dot, from 0 to End, with their median and what it must
// reach. Of a row without a baseline it shows the values.
type plot struct {
	rounds.Result

	Axis    string // what the dots are
	End     float64
	Width   float64
	Dots    []float64 // x
	Median  float64   // x
	Marks   []mark
	Bounds  []string // the limits
	Verdict string   // also the class of its line
}

func newPlot(r rounds.Result) plot {
	p := plot{Result: r, Axis: "ratio", Width: plotWidth, Verdict: verdict(r)}
	shown, median := func(round rounds.Round) float64 { return round.Baseline / round.Value }, r.Ratio
	if r.Besides == "" {
		p.Axis, shown, median = r.Unit, func(round rounds.Round) float64 { return round.Value }, r.Value
	}
	for _, round := range r.Raw {
		p.End = max(p.End, shown(round)*plotMargin)
	}
	goals := []struct {
		name, color string
		at          float64
	}{{"must", "#b01e2e", r.Must}, {"aim", "#1a6b2f", r.Aim}}
	for _, g := range goals {
		p.End = max(p.End, g.at*plotMargin)
	}
	x := func(v float64) float64 { return v / p.End * plotWidth }
	for _, g := range goals {
		if g.at > 0 {
			p.Marks = append(p.Marks, mark{Name: g.name, Color: g.color, X: x(g.at)})
		}
	}
	for _, round := range r.Raw {
		p.Dots = append(p.Dots, x(shown(round)))
	}
	p.Median = x(median)
	slices.Sort(p.Dots)
	for _, name := range slices.Sorted(maps.Keys(r.Limits)) {
		p.Bounds = append(p.Bounds, fmt.Sprintf("%s %s ≤ %s", name, figure(r.Parts[name]), figure(r.Limits[name])))
	}
	return p
}

// Figure formats a number for the page.
func (plot) Figure(v float64) string { return figure(v) }

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
	plots := make([]plot, len(r.Rows))
	for i, row := range r.Rows {
		plots[i] = newPlot(row)
	}
	return report.Render(pageSource, map[string]any{"Report": r, "Plots": plots})
}
