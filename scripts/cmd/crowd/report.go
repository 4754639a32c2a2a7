package main

import (
	"context"
	"fmt"
	"strconv"

	"urr.guru/scripts/audit"
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
	return demo.LastLine("demo", v.OK(), fmt.Sprintf("visitors=%d seats=%d sold=%d oversold=%d paid_without_ticket=%d over_threshold=%s out_of_order=%s forged_in=%d",
		v.Visitors, v.Seats, v.Sold, v.Oversold, v.PaidWithoutTicket, known(v.OverThreshold), known(v.OutOfOrder), v.ForgedIn), v.Other)
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
	demo.Result
	EventID     string         `json:"event_id"`
	Threshold   int            `json:"threshold"`
	Rate        int            `json:"rate"`
	Seed        uint64         `json:"seed"`
	ForgedTried int64          `json:"forged_tried"`
	Proofs      int64          `json:"proofs"`
	Series      []audit.Sample `json:"series"`
}

// Report prints the tables and writes report.html and report.json into a folder.
func (d *saleDemo) Report(_ context.Context, v Verdict, found demo.Findings, dir string) error {
	tally := d.crowd.Tally()
	r := Report{
		Verdict: v, EventID: d.sale.EventID, Threshold: d.cfg.Threshold, Rate: d.cfg.Rate, Seed: d.cfg.Seed,
		ForgedTried: tally.ForgedTried.Load(), Proofs: tally.Proofs.Load(), Series: d.series.Samples(),
		Result: demo.Result{
			Passed: v.OK(), StartedAt: d.began.UTC(), TookSeconds: d.took.Seconds(), Outcomes: tally.Outcomes(), Findings: found,
			Steps: d.recorder.Summaries(),
		},
	}
	page, err := d.page(r)
	if err != nil {
		return err
	}
	return page.Publish(dir, r)
}

func (d *saleDemo) page(r Report) (*demo.Page, error) {
	plots, err := d.plots(r)
	if err != nil {
		return nil, err
	}
	return &demo.Page{
		Title: "URR demo · " + r.EventID, Heading: fmt.Sprintf("%d visitors for %d seats", r.Visitors, r.Seats), Verdict: r.Verdict,
		Summary: fmt.Sprintf("Sale %s, %.0f s, %d positions served a second, %d inside at once, seed %d.",
			r.EventID, r.TookSeconds, r.Rate, r.Threshold, r.Seed),
		Result: r.Result, Figures: plots,
		Counts: demo.CountsOf("How the visits ended", "ending", "visits", r.Outcomes,
			demo.Count{Name: "proofs of work for positions", N: r.Proofs},
			demo.Count{Name: "attempts with forged, stolen or shared passes", N: r.ForgedTried}),
	}, nil
}
