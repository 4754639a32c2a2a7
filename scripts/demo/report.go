package demo

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"urr.guru/scripts/crowd"
	"urr.guru/scripts/process"
)

// Report is what a demo tells of a run, and what all runs have: report.json, and the content of
// report.html.
type Report struct {
	Title   string `json:"-"`
	Heading string `json:"-"`
	// Summary describes the run in one sentence.
	Summary string `json:"summary"`
	// Plots are those of the samples.
	Plots  []Plot `json:"-"`
	Counts Counts `json:"-"`
	// Outcomes are how visits ended; nil: those of the tally.
	Outcomes map[string]int `json:"outcomes"`
	// Details are figures of this demo.
	Details map[string]any `json:"details"`

	Passed      bool      `json:"ok"`
	Verdict     Verdict   `json:"verdict"`
	Findings    []string  `json:"findings"`
	StartedAt   time.Time `json:"started_at"`
	TookSeconds float64   `json:"took_seconds"`
	// Steps are the requests of visitors and operators.
	Steps   []crowd.Summary `json:"steps"`
	Samples []Sample        `json:"samples"`
	Figures []Figure        `json:"-"`
}

// Counts is a table of numbers: of outcomes, and more.
type Counts struct {
	Title, Name, Number string // the headings
	Rows                []Value
}

// publish prints the tables and the findings, and writes report.html and report.json into a folder.
func (r *Report) publish(rec *crowd.Recorder, dir string) error {
	page, err := r.html(rec)
	if err != nil {
		return err
	}
	r.print()
	file := filepath.Join(dir, "report.html")
	if err := process.Save(filepath.Join(dir, "report.json"), r); err != nil {
		return err
	}
	if err := os.WriteFile(file, page, 0o644); err != nil {
		return fmt.Errorf("keep the report: %w", err)
	}
	fmt.Printf("\nreport: %s and report.json\n", file)
	return nil
}

func (r *Report) print() {
	fmt.Printf("\n%.0f s. %s:\n", r.TookSeconds, r.Counts.Title)
	for _, row := range r.Counts.Rows {
		fmt.Printf("  %6d  %s\n", row.N, row.Name)
	}
	fmt.Println()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "step\tcount\terrors\tp50 ms\tp99 ms\t")
	for _, s := range r.Steps {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f\t%.1f\t\n", s.Step, s.Count, s.Errors, s.P50, s.P99)
	}
	_ = w.Flush() // standard output
	for _, f := range r.Findings {
		fmt.Println("finding:", f)
	}
}

//go:embed report.html.tmpl
var pageSource string

// html completes the figures and renders the report; the page needs no other file.
func (r *Report) html(rec *crowd.Recorder) ([]byte, error) {
	for _, plot := range r.Plots {
		figure, err := timeline(plot, r.Samples)
		if err != nil {
			return nil, err
		}
		r.Figures = append(r.Figures, figure)
	}
	if len(r.Steps) > 0 {
		figure, err := latencies(r.Steps, rec)
		if err != nil {
			return nil, err
		}
		r.Figures = append(r.Figures, figure)
	}
	more := r.Counts.Rows
	r.Counts.Rows = nil
	for _, outcome := range slices.Sorted(maps.Keys(r.Outcomes)) {
		r.Counts.Rows = append(r.Counts.Rows, Value{outcome, int64(r.Outcomes[outcome])})
	}
	r.Counts.Rows = append(r.Counts.Rows, more...)
	t, err := template.New("report").Parse(pageSource)
	if err != nil {
		return nil, fmt.Errorf("report page: %w", err)
	}
	var page bytes.Buffer
	if err := t.Execute(&page, r); err != nil {
		return nil, fmt.Errorf("report page: %w", err)
	}
	return page.Bytes(), nil
}
