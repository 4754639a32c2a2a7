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
	"strconv"
	"text/tabwriter"
	"time"

	"urr.guru/scripts/audit"
	"urr.guru/scripts/crowd"
)

// Verdict is the result of a run, with the names of its last line.
type Verdict struct {
	Visitors          int `json:"visitors"`
	Seats             int `json:"seats"`
	Sold              int `json:"sold"`
	Oversold          int `json:"oversold"`
	PaidWithoutTicket int `json:"paid_without_ticket"`
	// OverThreshold and OutOfOrder are visible in the stores only; nil: unknown.
	OverThreshold *int `json:"over_threshold"`
	OutOfOrder    *int `json:"out_of_order"`
	ForgedIn      int  `json:"forged_in"`
	// Other counts all other inconsistencies of the stores; the last line contains it if it is not
	// 0.
	Other int `json:"other"`
}

// OK reports whether every seat was sold once, to visitors who waited and paid, as far as that is
// known.
func (v Verdict) OK() bool {
	none := func(n *int) bool { return n == nil || *n == 0 }
	return v.Sold == v.Seats && v.Oversold == 0 && v.PaidWithoutTicket == 0 && none(v.OverThreshold) && none(v.OutOfOrder) &&
		v.ForgedIn == 0 && v.Other == 0
}

// Line is the run's last line.
func (v Verdict) Line() string {
	word, other := "ok", ""
	if !v.OK() {
		word = "FAILED"
	}
	if v.Other > 0 {
		other = fmt.Sprintf(" other=%d", v.Other)
	}
	return fmt.Sprintf("demo %s: visitors=%d seats=%d sold=%d oversold=%d paid_without_ticket=%d over_threshold=%s out_of_order=%s forged_in=%d%s",
		word, v.Visitors, v.Seats, v.Sold, v.Oversold, v.PaidWithoutTicket, known(v.OverThreshold), known(v.OutOfOrder), v.ForgedIn, other)
}

func known(n *int) string {
	if n == nil {
		return "unknown"
	}
	return strconv.Itoa(*n)
}

// Report is .urr/demo/report.json.
type Report struct {
	Verdict
	OK          bool            `json:"ok"`
	EventID     string          `json:"event_id"`
	Threshold   int             `json:"threshold"`
	Rate        int             `json:"rate"`
	Seed        uint64          `json:"seed"`
	StartedAt   time.Time       `json:"started_at"`
	TookSeconds float64         `json:"took_seconds"`
	ForgedTried int64           `json:"forged_tried"`
	Outcomes    map[string]int  `json:"outcomes"`
	Findings    []string        `json:"findings"`
	Steps       []crowd.Summary `json:"steps"`
	Series      []audit.Sample  `json:"series"`
}

// report prints the table and writes report.json and report.html.
func (d *demo) report(v findings) error {
	tally := d.crowd.Tally()
	r := Report{
		Verdict: v.Verdict, OK: v.OK(), EventID: d.sale.EventID, Threshold: d.cfg.Threshold, Rate: d.cfg.Rate, Seed: d.cfg.Seed,
		StartedAt: time.Now().Add(-d.took).UTC(), TookSeconds: d.took.Seconds(), ForgedTried: tally.ForgedTried.Load(),
		Outcomes: tally.Outcomes(), Findings: v.Findings, Steps: d.recorder.Summaries(), Series: d.series.Samples(),
	}
	printTable(r)
	dir := d.layout.State("demo")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("keep the report: %w", err)
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "report.json"), raw, 0o644); err != nil {
		return fmt.Errorf("keep the report: %w", err)
	}
	page, err := d.page(r)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "report.html"), page, 0o644); err != nil {
		return fmt.Errorf("keep the report: %w", err)
	}
	fmt.Printf("\nreport: %s and report.json\n", filepath.Join(dir, "report.html"))
	return nil
}

func printTable(r Report) {
	fmt.Printf("\n%.0f s. How the visits ended:\n", r.TookSeconds)
	for _, end := range sortedKeys(r.Outcomes) {
		fmt.Printf("  %6d  %s\n", r.Outcomes[end], end)
	}
	fmt.Printf("  %6d  attempts with forged, stolen or shared passes\n\n", r.ForgedTried)
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

func sortedKeys(m map[string]int) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

//go:embed report.html.tmpl
var pageSource string

// page renders the report with its plots embedded; the file has no other dependencies.
func (d *demo) page(r Report) ([]byte, error) {
	plots, err := d.plots(r)
	if err != nil {
		return nil, err
	}
	t, err := template.New("report").Parse(pageSource)
	if err != nil {
		return nil, fmt.Errorf("report page: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, map[string]any{"Report": r, "Plots": plots, "Line": r.Line()}); err != nil {
		return nil, fmt.Errorf("report page: %w", err)
	}
	return b.Bytes(), nil
}
