package rewards

import (
	"context"
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
	Attendance  string         `json:"attendance_id"`
	Random      string         `json:"random_id"`
	Prizes      int            `json:"prizes"`
	Seed        uint64         `json:"seed"`
	StartedAt   time.Time      `json:"started_at"`
	TookSeconds float64        `json:"took_seconds"`
	KilledAfter float64        `json:"killed_after_seconds"`
	Calls       Calls          `json:"calls"`
	Outcomes    map[string]int `json:"outcomes"`
	Findings    demo.Findings  `json:"findings"`
	// Steps are the members' requests.
	Steps   []crowd.Summary `json:"steps"`
	Samples []Sample        `json:"samples"`
}

// Calls are the calls to the provider.
type Calls struct {
	All int64 `json:"all"`
	// Unknown are those without an answer.
	Unknown int64 `json:"unknown"`
	// CutOff are those whose replica died before their end.
	CutOff int64 `json:"cut_off"`
	// Repeated is the number of rewards that needed more than one call.
	Repeated int64 `json:"repeated"`
}

// Report prints the tables and writes report.html and report.json into a folder.
func (d *Demo) Report(ctx context.Context, v Verdict, findings demo.Findings, dir string) error {
	calls, err := d.calls(ctx)
	if err != nil {
		return err
	}
	outcomes, _ := d.tally.result()
	r := Report{
		Verdict: v, OK: v.OK(), Attendance: d.campaign.attendance, Random: d.campaign.random, Prizes: d.opts.Prizes, Seed: d.opts.Seed,
		StartedAt: d.began.UTC(), TookSeconds: d.took.Seconds(), KilledAfter: d.killedAt.Seconds(), Calls: calls,
		Outcomes: outcomes, Findings: findings, Steps: d.on.Recorder.Summaries(), Samples: d.samples,
	}
	page, err := d.page(r)
	if err != nil {
		return err
	}
	page.Print()
	return page.Write(dir, r)
}

func (d *Demo) calls(ctx context.Context) (c Calls, err error) {
	err = d.on.DB.QueryRow(ctx, `
		SELECT coalesce(sum(n), 0), coalesce(sum(unknown), 0), coalesce(sum(cut_off), 0), count(*) FILTER (WHERE n > 1) FROM (
			SELECT count(*) AS n, count(*) FILTER (WHERE c.outcome = 'UNKNOWN') AS unknown, count(*) FILTER (WHERE c.ended_at IS NULL) AS cut_off
			FROM event_reward_allocation AS a JOIN reward_call AS c ON c.allocation_id = a.id
			WHERE a.event_id = ANY($1) GROUP BY a.id
		) AS calls`, d.campaign.ids()).Scan(&c.All, &c.Unknown, &c.CutOff, &c.Repeated)
	if err != nil {
		return c, fmt.Errorf("count the calls: %w", err)
	}
	return c, nil
}

func (d *Demo) page(r Report) (*demo.Page, error) {
	type line = demo.Line[Sample]
	seconds := func(s Sample) float64 { return s.Seconds }
	entries, err := demo.Timeline("Entries and rewards", "Attendances and draws, and rewards that the service knows to be paid.", r.Samples, seconds,
		line{Name: "entries", Color: demo.Blue, Value: func(s Sample) float64 { return float64(s.Entered) }},
		line{Name: "paid", Color: demo.Green, Value: func(s Sample) float64 { return float64(s.Paid) }})
	if err != nil {
		return nil, err
	}
	due, err := demo.Timeline("Rewards that are due", "Unpaid rewards, and those whose call is under way. After the kill some wait until their lease has ended.", r.Samples, seconds,
		line{Name: "due", Color: demo.Orange, Value: func(s Sample) float64 { return float64(s.Due) }},
		line{Name: "in progress", Color: demo.Blue, Value: func(s Sample) float64 { return float64(s.Processing) }})
	if err != nil {
		return nil, err
	}
	latencies, err := demo.Latencies(r.Steps, d.on.Recorder)
	if err != nil {
		return nil, err
	}
	counts := demo.Counts{Title: "What the members saw, and the calls to the provider", Name: "what", Number: "number"}
	for _, outcome := range slices.Sorted(maps.Keys(r.Outcomes)) {
		counts.Rows = append(counts.Rows, demo.Count{Name: outcome, N: int64(r.Outcomes[outcome])})
	}
	counts.Rows = append(counts.Rows, demo.Count{Name: "calls to the provider", N: r.Calls.All}, demo.Count{Name: "calls without an answer", N: r.Calls.Unknown},
		demo.Count{Name: "calls that ended with the killed replica", N: r.Calls.CutOff}, demo.Count{Name: "rewards with more than one call", N: r.Calls.Repeated})
	return &demo.Page{
		Title: "URR demo of rewards", Heading: fmt.Sprintf("%d members, %d prizes", r.Wanted, r.Prizes), Verdict: r.Verdict,
		Summary: fmt.Sprintf("Campaigns %s (attendance) and %s (draw), %.0f s; a replica was killed after %.0f s, every fifth answer of the provider was lost, seed %d.",
			r.Attendance, r.Random, r.TookSeconds, r.KilledAfter, r.Seed),
		TookSeconds: r.TookSeconds, Findings: r.Findings, Figures: []demo.Figure{entries, due, latencies}, Steps: r.Steps, Counts: counts,
	}, nil
}
