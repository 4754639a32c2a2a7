package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"slices"

	"urr.guru/scripts/bench"
)

//go:embed report.html.tmpl
var pageSource string

// write keeps the report as report.json and report.html.
func write(dir string, r Report) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	page, err := page(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("keep the report: %w", err)
	}
	for name, content := range map[string][]byte{"report.json": raw, "report.html": page} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return fmt.Errorf("keep the report: %w", err)
		}
	}
	fmt.Printf("\nreport: %s and report.json\n", filepath.Join(dir, "report.html"))
	return nil
}

// Size of a row's plot in pixels.
const (
	plotWidth  = 600.0
	plotHeight = 36.0
)

// plot shows the ratio of each round as a dot, from 0 to End, with their median and what it must reach.
type plot struct {
	bench.Result

	End          float64
	Width        float64
	Height       float64
	Dots         []float64 // x
	Median, Must float64   // x
}

func newPlot(r bench.Result) plot {
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
func page(r Report) ([]byte, error) {
	t, err := template.New("report").Parse(pageSource)
	if err != nil {
		return nil, fmt.Errorf("report page: %w", err)
	}
	plots := make([]plot, len(r.Rows))
	for i, row := range r.Rows {
		plots[i] = newPlot(row)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, map[string]any{"Report": r, "Plots": plots}); err != nil {
		return nil, fmt.Errorf("report page: %w", err)
	}
	return b.Bytes(), nil
}
