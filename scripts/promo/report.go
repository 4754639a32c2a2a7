package promo

import (
	"context"
	"fmt"
	"maps"

	"urr.guru/scripts/demo"
)

// Report is report.json.
type Report struct {
	Verdict
	demo.Result
	FirstComeID string   `json:"first_come_id"`
	LotteryID   string   `json:"lottery_id"`
	Receipts    int      `json:"receipts"`
	Samples     []Sample `json:"samples"`
}

// Report prints the tables and writes report.html and report.json into a folder.
func (d *Demo) Report(_ context.Context, v Verdict, findings demo.Findings, dir string) error {
	outcomes := d.first.tally.Outcomes()
	maps.Copy(outcomes, d.lottery.tally.Outcomes())
	r := Report{
		Verdict: v, FirstComeID: d.first.event, LotteryID: d.lottery.event, Receipts: len(d.lottery.allReceipts()), Samples: d.samples,
		Result: demo.Result{
			Passed: v.OK(), StartedAt: d.began.UTC(), TookSeconds: d.took.Seconds(), Outcomes: outcomes, Findings: findings, Steps: d.on.Recorder.Summaries(),
		},
	}
	page, err := d.page(r)
	if err != nil {
		return err
	}
	return page.Publish(dir, r)
}

func (d *Demo) page(r Report) (*demo.Page, error) {
	type line = demo.Line[Sample]
	requests, err := demo.Timeline("Requests", "Requests that were accepted, and those with a result. A lottery's results come at its announcement.",
		r.Samples, func(s Sample) float64 { return s.Seconds },
		line{Name: "accepted", Color: demo.Blue, Value: func(s Sample) float64 { return float64(s.Accepted) }},
		line{Name: "settled", Color: demo.Green, Value: func(s Sample) float64 { return float64(s.Settled) }})
	if err != nil {
		return nil, err
	}
	latencies, err := demo.Latencies(r.Steps, d.on.Recorder)
	if err != nil {
		return nil, err
	}
	return &demo.Page{
		Title: "URR demo of promotions", Heading: fmt.Sprintf("%d applications, %d first come, %d drawn", r.Wanted, r.Places, r.Winners), Verdict: r.Verdict,
		Summary: fmt.Sprintf("Promotions %s (first come) and %s (lottery), %.0f s; every tenth applied twice. The draw is at /api/v1/draws/%s.",
			r.FirstComeID, r.LotteryID, r.TookSeconds, r.LotteryID),
		Result: r.Result, Figures: []demo.Figure{requests, latencies},
		Counts: demo.CountsOf("What the applicants were answered", "what", "number", r.Outcomes,
			demo.Count{Name: "receipts of the lottery", N: int64(r.Receipts)}),
	}, nil
}
