package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/audit"
	"urr.guru/scripts/harness"
)

// TestLineOpensWithItsSale checks that visitors who come before a sale opens wait, and are admitted
// in order once it has opened. The times of admission are in Redis, by Redis's clock.
func TestLineOpensWithItsSale(t *testing.T) {
	t.Parallel()
	p := harness.Shared(t)
	event, opens := scheduledSale(t, p, 5*time.Second, 2)
	var visitors []*harness.Client
	var names []string
	for i := range 6 {
		names = append(names, fmt.Sprintf("early-%d-%s", i, uuid.NewString()[:8]))
		visitors = append(visitors, p.Client(names[i]))
		p.Eventually(func(ctx context.Context) error {
			_, err := place(ctx, visitors[i], event)
			return err
		})
	}
	p.Eventually(func(ctx context.Context) error {
		visitors = slices.DeleteFunc(visitors, func(c *harness.Client) bool { return releaseSlot(ctx, c, event) })
		if len(visitors) > 0 {
			return fmt.Errorf("%d have not come through yet", len(visitors))
		}
		return nil
	})
	stores, err := audit.Open(t.Context(), p.Wiring())
	require.NoError(t, err)
	t.Cleanup(stores.Close)
	admissions, err := stores.Admissions(t.Context(), event)
	require.NoError(t, err)
	var users []string
	for _, a := range admissions {
		users = append(users, a.User)
		require.GreaterOrEqual(t, a.At, opens.UnixMilli(), "%s was let in before the sale opened", a.User)
	}
	require.Subset(t, users, names)
	require.Empty(t, audit.Inversions(admissions))
}

// scheduledSale creates a sale that opens after the duration ahead.
func scheduledSale(t *testing.T, p *harness.Platform, ahead time.Duration, threshold int) (event string, opens time.Time) {
	t.Helper()
	event, opens = "e2e-"+uuid.NewString()[:8], time.Now().UTC().Add(ahead).Truncate(time.Millisecond)
	p.Operator().MustCall(t.Context(), http.MethodPut, "/api/v1/admin/events/"+event, map[string]any{
		"title": "An evening", "artist": "Somebody", "venue": "Hall 1", "seating": "ASSIGNED", "currency": "KRW", "maxPerUser": 4,
		"startsAt": opens.AddDate(0, 1, 0), "salesOpenAt": opens, "salesCloseAt": opens.AddDate(0, 0, 20), "threshold": threshold,
		"sections": []map[string]any{{"section": "A", "price": 55000, "rows": 2, "seatsPerRow": 10}},
	}, nil)
	return event, opens
}

// place joins the line if needed, and returns the status of the visitor's place.
func place(ctx context.Context, c *harness.Client, event string) (string, error) {
	var current struct{ Status string }
	a, err := c.Call(ctx, http.MethodPost, "/api/v1/queue/check/"+event, map[string]any{})
	if err == nil && a.Status != http.StatusOK {
		err = fmt.Errorf("no place: %d %s", a.Status, a.Body)
	}
	if err == nil {
		err = a.Decode(&current)
	}
	return current.Status, err
}

// releaseSlot releases an admitted visitor's slot for the next one, and reports whether it did.
func releaseSlot(ctx context.Context, c *harness.Client, event string) bool {
	if status, err := place(ctx, c, event); err != nil || status != "active" {
		return false
	}
	a, err := c.Call(ctx, http.MethodPost, "/api/v1/queue/leave/"+event, map[string]any{})
	return err == nil && a.Status == http.StatusNoContent
}
