package rewards

import (
	"context"
	"fmt"

	"urr.guru/scripts/demo"
)

// Report is report.json.
type Report struct {
	Verdict
	demo.Result
	Attendance  string   `json:"attendance_id"`
	Random      string   `json:"random_id"`
	Prizes      int      `json:"prizes"`
	Seed        uint64   `json:"seed"`
	KilledAfter float64  `json:"killed_after_seconds"`
	Calls       Calls    `json:"calls"`
	Samples     []Sample `json:"samples"`
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
	r := Report{
		Verdict: v, Attendance: d.campaign.attendance, Random: d.campaign.random, Prizes: d.opts.Prizes, Seed: d.opts.Seed,
		KilledAfter: d.killedAt.Seconds(), Calls: calls, Samples: d.samples,
		Result: demo.Result{
			Passed: v.OK(), StartedAt: d.began.UTC(), TookSeconds: d.took.Seconds(), Outcomes: d.tally.Outcomes(), Findings: findings,
			Steps: d.on.Recorder.Summaries(),
		},
	}
	page, err := d.page(r)
	if err != nil {
		return err
	}
	return page.Publish(dir, r)
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
	return &demo.Page{
		Title: "URR demo of rewards", Heading: fmt.Sprintf("%d members, %d prizes", r.Wanted, r.Prizes), Verdict: r.Verdict,
		Summary: fmt.Sprintf("Campaigns %s (attendance) and %s (draw), %.0f s; a replica was killed after %.0f s, every fifth answer of the provider was lost, seed %d.",
			r.Attendance, r.Random, r.TookSeconds, r.KilledAfter, r.Seed),
		Result: r.Result, Figures: []demo.Figure{entries, due, latencies},
		Counts: demo.CountsOf("What the members saw, and the calls to the provider", "what", "number", r.Outcomes,
			demo.Count{Name: "calls to the provider", N: r.Calls.All}, demo.Count{Name: "calls without an answer", N: r.Calls.Unknown},
			demo.Count{Name: "calls that ended with the killed replica", N: r.Calls.CutOff},
			demo.Count{Name: "rewards with more than one call", N: r.Calls.Repeated}),
	}, nil
}
