package demo

import (
	_ "embed"
	"fmt"
	"maps"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"urr.guru/scripts/crowd"
	"urr.guru/scripts/internal/report"
)

// Result is the part of report.json that all demos have.
type Result struct {
	Passed      bool           `json:"ok"`
	StartedAt   time.Time      `json:"started_at"`
	TookSeconds float64        `json:"took_seconds"`
	Outcomes    map[string]int `json:"outcomes"`
	Findings    Findings       `json:"findings"`
	// Steps are the requests of visitors and operators.
	Steps []crowd.Summary `json:"steps"`
}

// Page is the content of a report.
type Page struct {
	Title, Heading string
	Verdict        Verdict
	// Summary describes the run in one sentence.
	Summary string
	Result
	Figures []Figure
	Counts  Counts
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

// CountsOf is a table of how the visits ended, and of more numbers.
func CountsOf(title, name, number string, outcomes map[string]int, more ...Count) Counts {
	c := Counts{Title: title, Name: name, Number: number}
	for _, outcome := range slices.Sorted(maps.Keys(outcomes)) {
		c.Rows = append(c.Rows, Count{Name: outcome, N: int64(outcomes[outcome])})
	}
	c.Rows = append(c.Rows, more...)
	return c
}

// Publish prints the tables and the findings, and writes report.html and, with the figures of the
// run, report.json into a folder.
func (p *Page) Publish(dir string, figures any) error {
	p.print()
	page, err := p.HTML()
	if err != nil {
		return err
	}
	return report.Write(dir, figures, page)
}

func (p *Page) print() {
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

//go:embed report.html.tmpl
var pageSource string

// HTML renders the report with its plots embedded; the file has no other dependencies.
func (p *Page) HTML() ([]byte, error) { return report.Render(pageSource, p) }
