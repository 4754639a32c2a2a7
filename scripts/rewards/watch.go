package rewards

import (
	"context"
	"fmt"
	"time"

	"urr.guru/scripts/demo"
)

// sampleEvery is the interval of the samples.
const sampleEvery = 250 * time.Millisecond

// slots is the default of REWARD_SLOTS, the calls that one replica may have open for a kind. With
// more rewards in progress, more than one replica pays.
const slots = 32

// Sample is the state of the run's rewards at one instant.
type Sample struct {
	// Seconds since the beginning of the run.
	Seconds float64 `json:"seconds"`
	// Entered is the number of attendances and draws, Paid that of rewards that are SUCCESS.
	Entered int64 `json:"entered"`
	Paid    int64 `json:"paid"`
	// Due is the number of rewards that are to be paid, including those that are PROCESSING.
	Due        int64 `json:"due"`
	Processing int64 `json:"processing"`
}

func (d *Demo) newProgress() *demo.Progress {
	return demo.NewProgress(demo.Bar{Name: "members", Total: d.opts.Members}, demo.Bar{Name: "entries", Total: 2 * d.opts.Members},
		demo.Bar{Name: "paid", Total: d.opts.Members + d.opts.Prizes})
}

// watch samples until all members have gone, the killed replica runs again and no reward is due. It
// calls busy when several replicas pay, at the latest when half of the rewards are paid.
func (d *Demo) watch(ctx context.Context, progress *demo.Progress, gone, recovered <-chan struct{}, busy func()) error {
	defer busy()
	return demo.Watch(ctx, sampleEvery, d.opts.Limit, func(ctx context.Context) (demo.State, error) {
		s, err := d.sample(ctx)
		if err != nil {
			return demo.Acting, fmt.Errorf("sample: %w", err)
		}
		d.samples = append(d.samples, s)
		done := d.tally.Gone()
		progress.Update(fmt.Sprintf("%4.0f s  members %d  entries %d  paid %d  due %d  in progress %d",
			s.Seconds, done, s.Entered, s.Paid, s.Due, s.Processing), done, s.Entered, s.Paid)
		if s.Processing > slots || s.Paid*2 >= int64(d.opts.Members) || demo.Closed(gone) {
			busy()
		}
		switch {
		case !demo.Closed(gone) || !demo.Closed(recovered):
			return demo.Acting, nil
		case s.Due > 0:
			return demo.Settling, nil
		default:
			return demo.Settled, nil
		}
	}, func() { progress.Say("rewards are still due after %s (LIMIT)", d.opts.Limit) })
}

// sample reads the state of the campaigns' rewards.
func (d *Demo) sample(ctx context.Context) (s Sample, err error) {
	s.Seconds = time.Since(d.began).Seconds()
	err = d.on.DB.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM event_entry WHERE event_id = ANY($1)),
		       count(*) FILTER (WHERE reward_status = 'SUCCESS'),
		       count(*) FILTER (WHERE reward_status IN ('PENDING', 'PROCESSING') OR reward_status = 'FAILED' AND next_retry_at IS NOT NULL),
		       count(*) FILTER (WHERE reward_status = 'PROCESSING' AND reward_kind = 'POINT')
		FROM event_reward_allocation WHERE event_id = ANY($1)`, d.campaign.ids()).Scan(&s.Entered, &s.Paid, &s.Due, &s.Processing)
	return s, err
}
