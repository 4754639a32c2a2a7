package main

import (
	_ "embed"
	"slices"

	"urr.guru/pkg/rounds"
	"urr.guru/scripts/bench"
	"urr.guru/scripts/internal/report"
)

//go:embed report.html.tmpl
var pageSource string

// write keeps the report as report.json and report.html.
func write(dir string, r bench.Report) error {
	page, err := page(r)
	if err != nil {
		return err
	}
	return report.Write(dir, r, page)
}

// Size of a row's plot in pixels.
const (
	plotWidth  = 600.0
	plotHeight = 36.0
)

// plot shows the ratio of each round as a dot, from 0 to End, with their median and what it must
// reach.
type plot struct {
	rounds.Result

	End          float64
	Width        float64
	Height       float64
	Dots         []float64 // x
	Median, Must float64   // x
}

func newPlot(r rounds.Result) plot {
	p := plot{Result: r, Width: plotWidth, Height: plotHeight, End: 1}
	for _, round := range r.Raw {
		p.End = max(p.End, round.Baseline/round.Value)
	}
	x := func(ratio float64) float64 { return ratio / p.End * plotWidth }
	for _, round := range r.Raw {
		p.Dots = append(p.Dots, x(round.Baseline/round.Value))
	}
	p.Median, p.Must = x(r.Ratio), x(r.Must)
	slices.Sort(p.Dots)
	return p
}

// page renders the report; the file needs no other.
func page(r bench.Report) ([]byte, error) {
	plots := make([]plot, len(r.Rows))
	for i, row := range r.Rows {
		plots[i] = newPlot(row)
	}
	return report.Render(pageSource, map[string]any{"Report": r, "Plots": plots})
}
