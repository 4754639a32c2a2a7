package demo

import (
	_ "embed"
	"fmt"
	"os"
	"text/tabwriter"

	"urr.guru/scripts/crowd"
	"urr.guru/scripts/internal/report"
)

// Page is the content of a report.
type Page struct {
	Title, Heading string
	Verdict        Verdict
	// Summary describes the run in one sentence.
	Summary     string
	TookSeconds float64
	Findings    Findings
	Figures     []Figure
	Steps       []crowd.Summary
	Counts      Counts
}

// Counts is a table of numbers, as how the visits ended.
type Counts struct {
	Title, Name, Number string // the headings
	Rows                []Count
}

// Count is a row of Counts.
type Count struct {
	Name string
	N    int64
}

// Print prints the tables and the findings.
func (p *Page) Print() {
	fmt.Printf("\n%.0f s. %s:\n", p.TookSeconds, p.Counts.Title)
	for _, row := range p.Counts.Rows {
		fmt.Printf("  %6d  %s\n", row.N, row.Name)
	}
	fmt.Println()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "step\tcount\terrors\tp50 ms\tp99 ms\t")
	for _, s := range p.Steps {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f\t%.1f\t\n", s.Step, s.Count, s.Errors, s.P50, s.P99)
	}
	_ = w.Flush() // standard output
	for _, f := range p.Findings {
		fmt.Println("finding:", f)
	}
}

// Write writes report.html, and the figures of the run as report.json.
func (p *Page) Write(dir string, figures any) error {
	page, err := p.HTML()
	if err != nil {
		return err
	}
	return report.Write(dir, figures, page)
}

//go:embed report.html.tmpl
var pageSource string

// HTML renders the report with its plots embedded; the file has no other dependencies.
func (p *Page) HTML() ([]byte, error) { return report.Render(pageSource, p) }
