package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/harness"
)

type shownPlace struct {
	Status, SaleStatus string
	Entitled           *bool
	GeneralOpensAt     int64
}

// awaitPlace joins the line until the user's place has the status and, if queued, the entitlement.
func (b *buyer) awaitPlace(p *harness.Platform, status string, entitled bool) (place shownPlace) {
	b.t.Helper()
	p.Eventually(func(ctx context.Context) error {
		a, err := b.Call(ctx, http.MethodPost, "/api/v1/queue/check/"+b.event, map[string]any{})
		if err != nil {
			return err
		}
		place = shownPlace{}
		if err := a.Decode(&place); err != nil || place.Status != status || status == "queued" && (place.Entitled == nil || *place.Entitled != entitled) {
			return fmt.Errorf("%s has another place than %s: %s", b.user, status, a.Body)
		}
		return nil
	})
	return place
}

// TestPresale sells before the general sale to a user on an uploaded list and to one with a code. A
// third user waits, and is admitted when the general sale opens.
func TestPresale(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Options{})
	event, now := "e2e-"+uuid.NewString()[:8], time.Now().UTC()
	path := "/api/v1/admin/events/" + event
	spec := saleSpec()
	spec["salesOpenAt"], spec["presale"] = now.Add(time.Hour), map[string]any{
		"opensAt": now.Add(-time.Minute), "maxPerUser": 1, "any": []map[string]any{{"codeList": "friends"}, {"list": "partners"}},
	}
	p.Operator().MustCall(t.Context(), http.MethodPut, path, spec, nil)
	user := func(name string) *buyer {
		b := &buyer{t: t, user: name + "-" + uuid.NewString()[:8], event: event}
		b.Client = p.Client(b.user)
		return b
	}
	listed, coded, anybody := user("listed"), user("coded"), user("anybody")
	p.Operator().MustCall(t.Context(), http.MethodPut, path+"/entitlements/partners", "userId,name\n"+listed.user+",L\n", nil)
	var batch struct{ Codes []string }
	p.Operator().MustCall(t.Context(), http.MethodPost, path+"/codes", map[string]any{"codeList": "friends", "count": 1}, &batch)
	require.Len(t, batch.Codes, 1)

	place := anybody.awaitPlace(p, "queued", false)
	require.Equal(t, "PRESALE", place.SaleStatus)
	require.InDelta(t, now.Add(time.Hour).UnixMilli(), place.GeneralOpensAt, 2)
	listed.awaitPlace(p, "active", true)
	require.Equal(t, "HELD", listed.hold("A-1-1").Status)
	a, err := listed.Call(t.Context(), http.MethodPost, "/api/v1/seats/reserve", map[string]any{"eventId": event, "seatIds": []string{"A-1-2"}})
	require.NoError(t, err)
	require.Equal(t, http.StatusConflict, a.Status, "the presale has a limit of its own: %s", a.Body)

	coded.awaitPlace(p, "queued", false)
	a, err = coded.Call(t.Context(), http.MethodPost, "/api/v1/events/"+event+"/codes", map[string]any{"code": "WRONG"})
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, a.Status, "%s", a.Body)
	coded.MustCall(t.Context(), http.MethodPost, "/api/v1/events/"+event+"/codes", map[string]any{"code": batch.Codes[0]}, nil)
	var mine struct {
		Entitled bool
		By       string
		Left     int64
	}
	coded.MustCall(t.Context(), http.MethodGet, "/api/v1/events/"+event+"/me", nil, &mine)
	require.True(t, mine.Entitled)
	require.Equal(t, "CODE", mine.By)
	require.EqualValues(t, 1, mine.Left)
	coded.awaitPlace(p, "active", true)
	require.Equal(t, "HELD", coded.hold("A-1-2").Status)

	anybody.awaitPlace(p, "queued", false)
	spec["salesOpenAt"] = time.Now().UTC()
	p.Operator().MustCall(t.Context(), http.MethodPut, path, spec, nil)
	anybody.awaitPlace(p, "active", false)
	require.Equal(t, "HELD", anybody.hold("A-1-3", "A-1-4").Status)
}
