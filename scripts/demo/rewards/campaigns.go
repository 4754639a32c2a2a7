package rewards

import (
	"context"
	"maps"
	"time"

	"urr.guru/scripts/crowd"
	"urr.guru/scripts/demo"
)

// campaigns are the ids of the run's campaigns.
type campaigns struct{ attendance, random string }

func (c campaigns) ids() []string { return []string{c.attendance, c.random} }

// attendancePoints is the reward of a day.
const attendancePoints = 100

// prizes splits n prizes into coupons and points. The blank weighs as much as the three others
// together.
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

// openCampaigns creates both campaigns by the operators' API.
func openCampaigns(ctx context.Context, admin *crowd.Session, n int) (c campaigns, err error) {
	if err := admin.DevLogin(ctx, "rewards-operator", "admin"); err != nil {
		return c, err
	}
	now := time.Now().UTC().Truncate(time.Second)
	create := func(title, kind string, more map[string]any) (string, error) {
		terms := map[string]any{"title": title, "kind": kind, "opensAt": now.Add(-time.Minute), "closesAt": now.Add(time.Hour)}
		maps.Copy(terms, more)
		return demo.Create(ctx, admin, crowd.StepCampaign, "/api/v1/admin/rewards/events", terms)
	}
	c.attendance, err = create("Demo attendance", "ATTENDANCE", map[string]any{"daily": map[string]any{"kind": "POINT", "value": attendancePoints}})
	if err != nil {
		return c, err
	}
	c.random, err = create("Demo draw", "RANDOM", map[string]any{"prizes": prizes(n)})
	return c, err
}
