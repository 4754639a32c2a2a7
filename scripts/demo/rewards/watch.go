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

// watch samples until all members have gone, the killed replica runs again and no reward is due. It
// calls busy when several replicas pay, at the latest when half of the rewards are paid.
func (d *Demo) watch(ctx context.Context, gone, recovered <-chan struct{}, busy func()) error {
	defer busy()
	return demo.Watch(ctx, sampleEvery, d.cfg.Limit, func(ctx context.Context) (demo.State, error) {
		s, err := d.sample(ctx)
		if err != nil {
			return demo.Acting, fmt.Errorf("sample: %w", err)
		}
		d.Note(demo.Value{Name: "members", N: d.Tally.Gone.Load()}, demo.Value{Name: "entries", N: s.entered}, demo.Value{Name: "paid", N: s.paid},
			demo.Value{Name: "due", N: s.due}, demo.Value{Name: "in progress", N: s.processing})
		if s.processing > slots || s.paid*2 >= int64(d.cfg.Members) || demo.Closed(gone) {
			busy()
		}
		switch {
		case !demo.Closed(gone) || !demo.Closed(recovered):
			return demo.Acting, nil
		case s.due > 0:
			return demo.Settling, nil
		default:
			return demo.Settled, nil
		}
	}, func() { d.Say("rewards are still due after %s (LIMIT)", d.cfg.Limit) })
}

// state is the number of attendances and draws, of rewards that are SUCCESS, of those that are to be
// paid, and, among these, of those that are PROCESSING.
type state struct{ entered, paid, due, processing int64 }

// sample reads the state of the campaigns' rewards.
func (d *Demo) sample(ctx context.Context) (s state, err error) {
	err = d.on.DB.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM event_entry WHERE event_id = ANY($1)),
		       count(*) FILTER (WHERE reward_status = 'SUCCESS'),
		       count(*) FILTER (WHERE reward_status IN ('PENDING', 'PROCESSING') OR reward_status = 'FAILED' AND next_retry_at IS NOT NULL),
		       count(*) FILTER (WHERE reward_status = 'PROCESSING' AND reward_kind = 'POINT')
		FROM event_reward_allocation WHERE event_id = ANY($1)`, d.campaign.ids()).Scan(&s.entered, &s.paid, &s.due, &s.processing)
	return s, err
}
