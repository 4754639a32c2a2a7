package roomstate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/services/gateway/internal/roomstate"
)

// The response to polls is rebuilt when the sale status changes, and only then.
func TestServingResponseHasSaleStatus(t *testing.T) {
	t.Parallel()
	r := roomstate.New()
	r.ApplyCounter(counter(true, 10, 5, 20))
	unknown := r.Get("e")
	require.Empty(t, unknown.SaleJSON)

	r.SetSaleStatuses(map[string]string{"e": "SCHEDULED"})
	scheduled := r.Get("e")
	require.JSONEq(t, `{"servingCounter":5,"isActive":true,"saleStatus":"SCHEDULED"}`, string(scheduled.ServingJSON))
	require.NotEqual(t, unknown.ETag, scheduled.ETag, "a conditional request sees the change")
	require.Equal(t, unknown.Serving, scheduled.Serving)
	r.SetSaleStatuses(map[string]string{"e": "SCHEDULED"})
	r.ApplyCounter(counter(true, 10, 5, 20))
	require.Same(t, scheduled, r.Get("e"), "no change, no new response")

	r.ApplyCounter(counter(true, 10, 6, 20))
	require.JSONEq(t, `{"servingCounter":6,"isActive":true,"saleStatus":"SCHEDULED"}`, string(r.Get("e").ServingJSON))
	r.ApplyCounter(counter(true, 11, 0, 0))
	require.Equal(t, "SCHEDULED", r.Get("e").Sale, "a new round keeps the sale status")
	r.SetSaleStatuses(map[string]string{"e": "ON_SALE"})
	require.JSONEq(t, `{"servingCounter":0,"isActive":true,"saleStatus":"ON_SALE"}`, string(r.Get("e").ServingJSON))
	require.Equal(t, int64(11), r.ActiveRound("e"))
}

func TestSetSaleStatuses(t *testing.T) {
	t.Parallel()
	r := roomstate.New()
	initial := r.Get("e")
	r.SetSaleStatuses(map[string]string{"e": ""})
	require.Same(t, initial, r.Get("e"), "clearing an unknown event adds no entry")

	// The status is kept when the room of the event is activated later.
	r.SetSaleStatuses(map[string]string{"e": "SOLD_OUT", "f": "PAUSED"})
	require.JSONEq(t, `{"servingCounter":0,"isActive":false,"saleStatus":"SOLD_OUT"}`, string(r.Get("e").ServingJSON))
	require.Zero(t, r.ActiveRound("e"))
	r.ApplyCounter(counter(true, 10, 5, 20))
	require.Equal(t, int64(10), r.ActiveRound("e"))
	require.Equal(t, "SOLD_OUT", r.Get("e").Sale)

	// The status is cleared.
	r.SetSaleStatuses(map[string]string{"e": "", "f": "CLOSED"})
	require.JSONEq(t, `{"servingCounter":5,"isActive":true}`, string(r.Get("e").ServingJSON))
	require.Equal(t, "CLOSED", r.Get("f").Sale)
	r.SetSaleStatuses(map[string]string{"f": ""})
	require.Empty(t, r.Get("f").Sale)
	require.Equal(t, initial.ServingJSON, r.Get("f").ServingJSON)
	require.Equal(t, initial.ETag, r.Get("f").ETag)
}
