package sale

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/crowd"
)

// The operator acts in this order. If the undo does not bring all tickets back, that is a fault.
func TestCancelSmallSale(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]int{"all come back": 0, "a ticket is lost": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var acts []string
			tickets := 15
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				act := path.Base(r.URL.Path)
				acts = append(acts, act)
				state := map[string]string{"cancel": "CANCELLED", "undo": "OPEN", "refund": "ENDED"}[act]
				switch act {
				case "undo":
					tickets -= lost
				case "refund":
					tickets = 0
				}
				_ = json.NewEncoder(w).Encode(map[string]any{"state": state, "orders": tickets, "tickets": tickets})
			}))
			t.Cleanup(server.Close)
			api := crowd.NewAPI(server.URL, crowd.NewRecorder())
			t.Cleanup(api.Close)
			c := newCancelled(crowd.Sale{EventID: "e"}, api, nil, 1)
			require.NoError(t, c.cancel(t.Context(), api.NewSession()))
			require.Equal(t, []string{"cancel", "undo", "cancel", "refund"}, acts)
			require.Len(t, c.faults, lost)
		})
	}
}

func TestNothingIsLeftOfACancelledSale(t *testing.T) {
	t.Parallel()
	require.True(t, cancellationState{State: "ENDED"}.over())
	for _, left := range []cancellationState{{State: "CANCELLED"}, {State: "ENDED", Holds: 1}, {State: "ENDED", Orders: 1}, {State: "ENDED", Refunds: 1}} {
		require.False(t, left.over(), "%+v", left)
	}
}
