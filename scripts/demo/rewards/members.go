package rewards

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"time"

	"urr.guru/scripts/crowd"
	"urr.guru/scripts/demo"
)

// atOnce is the most members who use the platform at the same time. With more, some would be
// refused because of overload, which this demo does not test.
const atOnce = 64

// visit has the i-th member sign in, record an attendance, take part in the prize draw and read the
// rewards. It returns the prize, "no prize", or the error.
func (d *Demo) visit(ctx context.Context, i int) (outcome string) {
	s, name := d.API.NewSession(), fmt.Sprintf("member-%05d", i)
	if err := s.DevLogin(ctx, name); err != nil {
		return "error: " + err.Error()
	}
	twice := i%demo.TwiceEvery == 0
	if _, err := d.takePart(ctx, s, name, crowd.StepAttend, "/api/v1/rewards/"+d.campaign.attendance+"/attendance", twice); err != nil {
		return "error: " + err.Error()
	}
	e, err := d.takePart(ctx, s, name, crowd.StepDraw, "/api/v1/rewards/"+d.campaign.random+"/draw", twice)
	if err != nil {
		return "error: " + err.Error()
	}
	if _, err := s.Call(ctx, crowd.StepRewards, http.MethodGet, "/api/v1/my/rewards", nil, nil); err != nil {
		return "error: " + err.Error()
	}
	if e.Prize == nil || e.Prize.Kind == "NONE" {
		return "no prize"
	}
	return "prize: " + e.Prize.Name
}

// entry is the response to an attendance or to a part in the prize draw.
type entry struct {
	EntryID string
	Prize   *struct{ Name, Kind string }
}

// takePart records an attendance or draws a prize. If twice is true, it sends two requests at the
// same time, which must return the same entry. Its requests are safe to repeat.
func (d *Demo) takePart(ctx context.Context, s *crowd.Session, name string, step crowd.Step, path string, twice bool) (entry, error) {
	click := func(s *crowd.Session) (e entry, err error) {
		err = demo.PostUntilDone(ctx, s, step, path, &e)
		return e, err
	}
	if !twice {
		return click(s)
	}
	first, second, err := demo.SendTwice(s, click)
	if err == nil && first.EntryID != second.EntryID {
		d.Tally.AddViolation("%s clicked %s twice and has the entries %s and %s", name, step, first.EntryID, second.EntryID)
	}
	return first, err
}

// campaigns has the ids of the run's campaigns: the attendance campaign and the prize draw.
type campaigns struct{ attendance, random string }

func (c campaigns) ids() []string { return []string{c.attendance, c.random} }

// attendancePoints is the reward for one day of attendance, in points.
const attendancePoints = 100

// prizes describes n prizes for the draw, which are coupons and points, and the blank (no prize).
// The blank is as likely as the three kinds of prizes together.
func prizes(n int) []map[string]any {
	grand := max(1, n/10)
	coupons := (n - grand) / 2
	out := []map[string]any{
		{"name": "Concert", "kind": "COUPON", "value": 7001, "weight": 1, "stock": grand},
		{"name": "Blank", "kind": "NONE", "value": 0, "weight": 3},
	}
	if coupons > 0 {
		out = append(out, map[string]any{"name": "Coffee", "kind": "COUPON", "value": 7002, "weight": 1, "stock": coupons})
	}
	if points := n - grand - coupons; points > 0 {
		out = append(out, map[string]any{"name": "Points", "kind": "POINT", "value": 1000, "weight": 1, "stock": points})
	}
	return out
}

// openCampaigns creates the attendance campaign and the prize draw by the operators' API.
func openCampaigns(ctx context.Context, admin *crowd.Session, n int) (c campaigns, err error) {
	if err := admin.DevLogin(ctx, "rewards-operator", "admin"); err != nil {
		return c, err
	}
	now := time.Now().UTC().Truncate(time.Second)
	create := func(title, kind string, more map[string]any) (string, error) {
		terms := map[string]any{"title": title, "kind": kind, "opensAt": now.Add(-time.Minute), "closesAt": now.Add(time.Hour)}
		maps.Copy(terms, more)
		return demo.CreateOffer(ctx, admin, crowd.StepCampaign, "/api/v1/admin/rewards/events", terms)
	}
	c.attendance, err = create("Demo attendance", "ATTENDANCE", map[string]any{"daily": map[string]any{"kind": "POINT", "value": attendancePoints}})
	if err != nil {
		return c, err
	}
	c.random, err = create("Demo draw", "RANDOM", map[string]any{"prizes": prizes(n)})
	return c, err
}

// sampleEvery is how often the demo reads the state of the rewards.
const sampleEvery = 250 * time.Millisecond

// slots is the default of REWARD_SLOTS: the most rewards of a kind that one replica pays at a time.
// If more are in progress, several replicas pay.
const slots = 32

// awaitPayouts takes samples until all members have gone, the killed replica runs again and no
// reward is due. When several replicas pay, or half of the rewards are paid, it calls busy.
func (d *Demo) awaitPayouts(ctx context.Context, gone, recovered <-chan struct{}, busy func()) error {
	defer busy()
	return demo.Watch(ctx, sampleEvery, d.cfg.Limit, func(ctx context.Context) (demo.RunState, int64, error) {
		s, err := d.readRewardState(ctx)
		if err != nil {
			return demo.Acting, 0, fmt.Errorf("sample: %w", err)
		}
		d.AddSample(demo.NamedNumber{Name: "members", N: d.Tally.Gone.Load()}, demo.NamedNumber{Name: "entries", N: s.entered}, demo.NamedNumber{Name: "paid", N: s.paid},
			demo.NamedNumber{Name: "due", N: s.due}, demo.NamedNumber{Name: "in progress", N: s.processing})
		if s.processing > slots || s.paid*2 >= int64(d.cfg.Members) || demo.Closed(gone) {
			busy()
		}
		switch {
		case !demo.Closed(gone) || !demo.Closed(recovered):
			return demo.Acting, 0, nil
		case s.due > 0:
			return demo.Settling, s.due, nil
		default:
			return demo.Settled, 0, nil
		}
	}, func() { d.Say("no reward was paid for %s (LIMIT)", d.cfg.Limit) })
}

// rewardState has the number of entries (attendances and draws) in the campaigns, and the numbers
// of their rewards: paid, due (still to be paid), and those in points that are PROCESSING.
type rewardState struct{ entered, paid, due, processing int64 }

// readRewardState reads these numbers from the reward service's database.
func (d *Demo) readRewardState(ctx context.Context) (s rewardState, err error) {
	err = d.target.DB.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM event_entry WHERE event_id = ANY($1)),
		       count(*) FILTER (WHERE reward_status = 'SUCCESS'),
		       count(*) FILTER (WHERE reward_status IN ('PENDING', 'PROCESSING') OR reward_status = 'FAILED' AND next_retry_at IS NOT NULL),
		       count(*) FILTER (WHERE reward_status = 'PROCESSING' AND reward_kind = 'POINT')
		FROM event_reward_allocation WHERE event_id = ANY($1)`, d.campaign.ids()).Scan(&s.entered, &s.paid, &s.due, &s.processing)
	return s, err
}
