package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"urr.guru/scripts/audit"
	"urr.guru/scripts/crowd"
	"urr.guru/scripts/demo"
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
	Findings    demo.Findings   `json:"findings"`
	Steps       []crowd.Summary `json:"steps"`
	Series      []audit.Sample  `json:"series"`
}

// report prints the table and writes report.json and report.html.
func (d *saleDemo) report(v findings) error {
	tally := d.crowd.Tally()
	r := Report{
		Verdict: v.Verdict, OK: v.OK(), EventID: d.sale.EventID, Threshold: d.cfg.Threshold, Rate: d.cfg.Rate, Seed: d.cfg.Seed,
		StartedAt: time.Now().Add(-d.took).UTC(), TookSeconds: d.took.Seconds(), ForgedTried: tally.ForgedTried.Load(),
		Outcomes: tally.Outcomes(), Findings: v.Findings, Steps: d.recorder.Summaries(), Series: d.series.Samples(),
	}
	page, err := d.page(r)
	if err != nil {
		return err
	}
	page.Print()
	return page.Write(d.layout.State("demo"), r)
}

func (d *saleDemo) page(r Report) (*demo.Page, error) {
	plots, err := d.plots(r)
	if err != nil {
		return nil, err
	}
	endings := demo.Counts{Title: "How the visits ended", Name: "ending", Number: "visits"}
	for _, end := range slices.Sorted(maps.Keys(r.Outcomes)) {
		endings.Rows = append(endings.Rows, demo.Count{Name: end, N: int64(r.Outcomes[end])})
	}
	endings.Rows = append(endings.Rows, demo.Count{Name: "attempts with forged, stolen or shared passes", N: r.ForgedTried})
	return &demo.Page{
		Title: "URR demo · " + r.EventID, Heading: fmt.Sprintf("%d visitors for %d seats", r.Visitors, r.Seats), Verdict: r.Verdict,
		Summary: fmt.Sprintf("Sale %s, %.0f s, %d positions served a second, %d inside at once, seed %d.",
			r.EventID, r.TookSeconds, r.Rate, r.Threshold, r.Seed),
		TookSeconds: r.TookSeconds, Findings: r.Findings, Figures: plots, Steps: r.Steps, Counts: endings,
	}, nil
}
