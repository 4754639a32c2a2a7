package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
	"urr.guru/services/reward/sandbox"
)

// rewardDetail is a reward as operators see it.
type rewardDetail struct {
	AllocationID, MemberID, Status, ErrorCode, ExternalTransactionID string
	Calls                                                            []struct{ Action, Outcome string }
}

// awaitReward polls a reward until it has the status.
func awaitReward(p *harness.Platform, id, status string) (d rewardDetail) {
	operator := p.Operator()
	p.Eventually(func(ctx context.Context) error {
		a, err := operator.Call(ctx, http.MethodGet, "/api/v1/admin/rewards/"+id, nil)
		d = rewardDetail{}
		if err := errors.Join(err, a.Decode(&d)); err != nil {
			return err
		}
		if d.Status != status {
			return fmt.Errorf("the reward %s is still %s: %s", id, d.Status, a.Body)
		}
		return nil
	})
	return d
}

// desk is an operator with a campaign of draws, whose provider has the faults that the test sets.
type desk struct {
	t        *testing.T
	p        *harness.Platform
	operator *harness.Client
	event    string
}

func openDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, p: harness.Start(t, harness.Options{
		Services: []string{platform.Sandbox, platform.Reward, platform.Gateway},
		// One attempt only, so that a refusal or a timeout is final; the time limit allows for a busy
		// machine. A reward with an unknown outcome waits for an operator after the shortest time that
		// these limits allow.
		Env: map[string][]string{
			platform.Gateway: {"VWR_ADDR="},
			platform.Reward: {
				"REWARD_MAX_ATTEMPTS=1", "REWARD_CALL_TIMEOUT=10s", "REWARD_LEASE=30s", "REWARD_SETTLE_TIME=10s", "REWARD_RETRY_MIN=50ms",
				"REWARD_RETRY_MAX=200ms", "REWARD_KEY_RETENTION=21s", "REWARD_LOOKUP_RETENTION=21s",
			},
		},
	})}
	d.operator = d.p.Operator()
	var created struct{ EventID string }
	a := d.operator.MustCall(t.Context(), http.MethodPost, "/api/v1/admin/rewards/events", map[string]any{
		"title": "Draw", "kind": "RANDOM", "opensAt": time.Now().Add(-time.Hour), "closesAt": time.Now().Add(time.Hour),
		"prizes": []map[string]any{{"name": "P", "kind": "POINT", "value": 5, "weight": 1, "stock": 10}},
	}, &created)
	require.Equal(t, http.StatusCreated, a.Status)
	d.event = created.EventID
	return d
}

// act sends an operator's request, repeats it while the platform is overloaded, and requires the
// status. If an unanswered request was executed after all, its repetition is refused as a conflict;
// the rest of the test shows that it was executed.
func (d *desk) act(status int, path string, body any) {
	d.t.Helper()
	sent := 0
	a, err := harness.RepeatWhileOverloaded(d.t.Context(), d.t, func() (*harness.Answer, error) {
		sent++
		return d.operator.Call(d.t.Context(), http.MethodPost, "/api/v1/admin/rewards"+path, body)
	})
	require.NoError(d.t, err)
	if sent > 1 && a.Status == http.StatusConflict {
		return
	}
	require.Equal(d.t, status, a.Status, "%s: %s", path, a.Body)
}

// draw lets a new member draw, and returns the ids of the reward and the member.
func (d *desk) draw() (reward, member string) {
	d.t.Helper()
	member = "member-" + uuid.NewString()[:8]
	var drawn struct {
		Rewards []struct{ AllocationID string }
	}
	d.p.Client(member).MustCall(d.t.Context(), http.MethodPost, "/api/v1/rewards/"+d.event+"/draw", map[string]any{}, &drawn)
	require.Len(d.t, drawn.Rewards, 1)
	return drawn.Rewards[0].AllocationID, member
}

// list returns the ids of the rewards that match an operator's query, read page by page.
func (d *desk) list(query string) (ids []string) {
	d.t.Helper()
	for cursor := ""; ; {
		var page struct {
			Items      []rewardDetail
			NextCursor string
		}
		d.operator.MustCall(d.t.Context(), http.MethodGet, "/api/v1/admin/rewards?limit=2&"+query+"&cursor="+cursor, nil, &page)
		for _, r := range page.Items {
			ids = append(ids, r.AllocationID)
		}
		if cursor = page.NextCursor; cursor == "" {
			return ids
		}
	}
}

func (d *desk) stock() (left int) {
	d.t.Helper()
	var c struct{ Prizes []struct{ Stock int } }
	d.p.Visitor().MustCall(d.t.Context(), http.MethodGet, "/api/v1/rewards/"+d.event, nil, &c)
	return c.Prizes[0].Stock
}

// TestOperatorsOfRewards uses all operators' routes of rewards through the gateway. Refused rewards
// are found and paid. One with an unknown outcome is resolved. A paused one is cancelled and its
// prize returned to the stock. All others end with the campaign. The summary counts each once.
func TestOperatorsOfRewards(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	d.p.SetRewardFaults(sandbox.Faults{RefusedForGood: 1})
	first, member := d.draw()
	second, _ := d.draw()
	third, _ := d.draw()
	for _, id := range []string{first, second, third} {
		require.Equal(t, "REFUSED", awaitReward(d.p, id, "FAILED").ErrorCode)
	}
	require.Equal(t, []string{third, second, first}, d.list("status=FAILED&eventId="+d.event), "newest first, over two pages")
	require.Equal(t, []string{first}, d.list("memberId="+member))
	require.Empty(t, d.list("memberId="+member+"&status=SUCCESS"))

	d.p.SetRewardFaults(sandbox.Faults{})
	d.act(http.StatusNoContent, "/"+first+"/retry", map[string]any{})
	paid := awaitReward(d.p, first, "SUCCESS")
	require.NotEmpty(t, paid.ExternalTransactionID)
	require.Equal(t, []string{first}, d.list("memberId="+member+"&status=SUCCESS"))
	d.act(http.StatusConflict, "/"+first+"/retry", map[string]any{})
	d.act(http.StatusAccepted, "/retry", map[string]any{"status": "FAILED", "eventId": d.event})
	awaitReward(d.p, second, "SUCCESS")
	awaitReward(d.p, third, "SUCCESS")

	held := d.hold()
	d.act(http.StatusNoContent, "/"+held+"/resolve", map[string]any{"paid": true, "externalTransactionId": "by-hand"})
	require.Equal(t, "by-hand", awaitReward(d.p, held, "SUCCESS").ExternalTransactionID)
	d.act(http.StatusConflict, "/"+held+"/resolve", map[string]any{"paid": false})

	d.act(http.StatusNoContent, "/providers/point/pause", map[string]any{})
	waiting, _ := d.draw()
	last, _ := d.draw()
	require.Equal(t, 4, d.stock())
	d.act(http.StatusAccepted, "/"+waiting+"/cancel", map[string]any{"restock": true})
	awaitReward(d.p, waiting, "CANCELLED")
	d.p.Eventually(func(context.Context) error { // the answer may be a second old
		if left := d.stock(); left != 5 {
			return fmt.Errorf("%d are left: the prize is not given back", left)
		}
		return nil
	})
	d.act(http.StatusAccepted, "/events/"+d.event+"/cancel", map[string]any{})
	awaitReward(d.p, last, "CANCELLED")
	require.Equal(t, 5, d.stock(), "nobody asked for it")
	d.act(http.StatusNoContent, "/providers/point/resume", map[string]any{})
	d.requireSummary(map[string]int{"SUCCESS": 4, "CANCELLED": 2})
}

// hold draws a reward while the provider answers only 503, until the reward waits for an operator.
func (d *desk) hold() string {
	d.t.Helper()
	d.p.SetRewardFaults(sandbox.Faults{Down: true})
	id, _ := d.draw()
	d.p.Eventually(func(ctx context.Context) error {
		var held struct{ HeldAt *time.Time }
		a, err := d.operator.Call(ctx, http.MethodGet, "/api/v1/admin/rewards/"+id, nil)
		if err := errors.Join(err, a.Decode(&held)); err != nil {
			return err
		}
		if held.HeldAt == nil {
			return fmt.Errorf("not held yet: %s", a.Body)
		}
		return nil
	})
	d.p.SetRewardFaults(sandbox.Faults{})
	return id
}

func (d *desk) requireSummary(want map[string]int) {
	d.t.Helper()
	var summary struct {
		Totals []struct {
			Status                         string
			Rewards, Points, Held, Unknown int
		}
	}
	d.operator.MustCall(d.t.Context(), http.MethodGet, "/api/v1/admin/rewards/events/"+d.event+"/summary", nil, &summary)
	got := map[string]int{}
	for _, s := range summary.Totals {
		got[s.Status] = s.Rewards
		require.Equal(d.t, 5*s.Rewards, s.Points)
		require.Zero(d.t, s.Held+s.Unknown, s.Status)
	}
	require.Equal(d.t, want, got)
}
