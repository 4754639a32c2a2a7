package rewards

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"urr.guru/scripts/crowd"
)

// campaigns are the ids of the run's campaigns.
type campaigns struct{ attendance, random string }

func (c campaigns) ids() []string { return []string{c.attendance, c.random} }

// attendancePoints is the reward of a day.
const attendancePoints = 100

// allDrawnFrom is the number of members per prize from which it is a fault if a prize is left: the
// chance of that is negligible.
const allDrawnFrom = 20

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
	create := func(into *string, title, kind string, more map[string]any) error {
		body := map[string]any{"title": title, "kind": kind, "opensAt": now.Add(-time.Minute), "closesAt": now.Add(time.Hour)}
		for name, value := range more {
			body[name] = value
		}
		ans, err := admin.Call(ctx, crowd.StepCampaign, http.MethodPost, "/api/v1/admin/rewards/events", body,
			map[string]string{"Idempotency-Key": uuid.NewString()})
		if err != nil {
			return err
		}
		var created struct{ EventID string }
		if err := json.Unmarshal(ans.Body, &created); err != nil || !ans.OK() || created.EventID == "" {
			return fmt.Errorf("create %s: %d %s", kind, ans.Status, ans.Body)
		}
		*into = created.EventID
		return nil
	}
	if err := create(&c.attendance, "Demo attendance", "ATTENDANCE", map[string]any{"daily": map[string]any{"kind": "POINT", "value": attendancePoints}}); err != nil {
		return c, err
	}
	return c, create(&c.random, "Demo draw", "RANDOM", map[string]any{"prizes": prizes(n)})
}
