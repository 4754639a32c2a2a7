package promo

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"urr.guru/scripts/crowd"
	"urr.guru/scripts/demo"
)

// Report is report.json.
type Report struct {
	Verdict
	OK          bool           `json:"ok"`
	FirstComeID string         `json:"first_come_id"`
	LotteryID   string         `json:"lottery_id"`
	StartedAt   time.Time      `json:"started_at"`
	TookSeconds float64        `json:"took_seconds"`
	Receipts    int            `json:"receipts"`
	Outcomes    map[string]int `json:"outcomes"`
	Findings    demo.Findings  `json:"findings"`
	// Steps are the requests of applicants and operator.
	Steps   []crowd.Summary `json:"steps"`
	Samples []Sample        `json:"samples"`
}

// Report prints the tables and writes report.html and report.json into a folder.
func (d *Demo) Report(v Verdict, findings demo.Findings, dir string) error {
	outcomes := maps.Clone(d.first.outcomes)
	maps.Copy(outcomes, d.lottery.outcomes)
	r := Report{
		Verdict: v, OK: v.OK(), FirstComeID: d.first.event, LotteryID: d.lottery.event, StartedAt: d.began.UTC(), TookSeconds: d.took.Seconds(),
		Receipts: len(d.lottery.receipts), Outcomes: outcomes, Findings: findings, Steps: d.on.Recorder.Summaries(), Samples: d.samples,
	}
	page, err := d.page(r)
	if err != nil {
		return err
	}
	page.Print()
	return page.Write(dir, r)
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
	counts := demo.Counts{Title: "What the applicants were answered", Name: "what", Number: "number"}
	for _, outcome := range slices.Sorted(maps.Keys(r.Outcomes)) {
		counts.Rows = append(counts.Rows, demo.Count{Name: outcome, N: int64(r.Outcomes[outcome])})
	}
	counts.Rows = append(counts.Rows, demo.Count{Name: "receipts of the lottery", N: int64(r.Receipts)})
	return &demo.Page{
		Title: "URR demo of promotions", Heading: fmt.Sprintf("%d applications, %d first come, %d drawn", r.Wanted, r.Places, r.Winners), Verdict: r.Verdict,
		Summary: fmt.Sprintf("Promotions %s (first come) and %s (lottery), %.0f s; every tenth applied twice. The draw is at /api/v1/draws/%s.",
			r.FirstComeID, r.LotteryID, r.TookSeconds, r.LotteryID),
		TookSeconds: r.TookSeconds, Findings: r.Findings, Figures: []demo.Figure{requests, latencies}, Steps: r.Steps, Counts: counts,
	}, nil
}
