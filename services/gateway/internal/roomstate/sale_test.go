package roomstate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/services/gateway/internal/roomstate"
)

// The answer that polls get is made anew when a sale's state changes, and only then.
func TestServingSaysWhereTheSaleStands(t *testing.T) {
	t.Parallel()
	r := roomstate.New()
	r.Apply(counter(true, 10, 5, 20))
	silent := r.Get("e")
	require.Empty(t, silent.SaleJSON)

	r.Sales(map[string]string{"e": "SCHEDULED"})
	scheduled := r.Get("e")
	require.JSONEq(t, `{"servingCounter":5,"isActive":true,"saleStatus":"SCHEDULED"}`, string(scheduled.ServingJSON))
	require.NotEqual(t, silent.ETag, scheduled.ETag, "who asks whether it has changed is told")
	require.Equal(t, silent.Serving, scheduled.Serving)
	r.Sales(map[string]string{"e": "SCHEDULED"})
	r.Apply(counter(true, 10, 5, 20))
	require.Same(t, scheduled, r.Get("e"), "no change, no new answer")

	r.Apply(counter(true, 10, 6, 20))
	require.JSONEq(t, `{"servingCounter":6,"isActive":true,"saleStatus":"SCHEDULED"}`, string(r.Get("e").ServingJSON))
	r.Apply(counter(true, 11, 0, 0))
	require.Equal(t, "SCHEDULED", r.Get("e").Sale, "the sale is not the room's")
	r.Sales(map[string]string{"e": "ON_SALE"})
	require.JSONEq(t, `{"servingCounter":0,"isActive":true,"saleStatus":"ON_SALE"}`, string(r.Get("e").ServingJSON))
	require.Equal(t, int64(11), r.Round("e"))
}

func TestSales(t *testing.T) {
	t.Parallel()
	r := roomstate.New()
	nothing := r.Get("e")
	r.Sales(map[string]string{"e": ""})
	require.Same(t, nothing, r.Get("e"), "there is nothing to say of it")

	// Of an event without a room, whose room is opened then.
	r.Sales(map[string]string{"e": "SOLD_OUT", "f": "PAUSED"})
	require.JSONEq(t, `{"servingCounter":0,"isActive":false,"saleStatus":"SOLD_OUT"}`, string(r.Get("e").ServingJSON))
	require.Zero(t, r.Round("e"))
	r.Apply(counter(true, 10, 5, 20))
	require.Equal(t, int64(10), r.Round("e"))
	require.Equal(t, "SOLD_OUT", r.Get("e").Sale)

	// Known no more, as after a change to a queue of the release before.
	r.Sales(map[string]string{"e": "", "f": "CLOSED"})
	require.JSONEq(t, `{"servingCounter":5,"isActive":true}`, string(r.Get("e").ServingJSON))
	require.Equal(t, "CLOSED", r.Get("f").Sale)
	r.Sales(map[string]string{"f": ""})
	require.Empty(t, r.Get("f").Sale)
	require.Equal(t, nothing.ServingJSON, r.Get("f").ServingJSON)
	require.Equal(t, nothing.ETag, r.Get("f").ETag)
}
