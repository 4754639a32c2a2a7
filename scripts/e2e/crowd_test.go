package e2e_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/audit"
	"urr.guru/scripts/crowd"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

// TestInterruptedDemoClosesItsSale interrupts the demo after a member and a listed user bought in
// the presale, and one passed a ticket on. The sale and the waiting room are then closed.
func TestInterruptedDemoClosesItsSale(t *testing.T) {
	t.Parallel()
	p := harness.Shared(t)
	api := crowd.NewAPI("http://"+p.Service(platform.Gateway).Addr(0), crowd.NewRecorder())
	t.Cleanup(api.Close)
	sale := crowd.Sale{EventID: "demo-" + uuid.NewString()[:8], Seats: 30, Threshold: 5, Rate: 10, Hold: 60, Slot: 60}
	c := crowd.New(sale, api, crowd.Options{
		Visitors: 2, Seed: 1, Behaviours: []crowd.Behaviour{crowd.Buys, crowd.Buys}, AfterSale: &crowd.AfterSale{},
	})
	var err error
	sale.Presale, err = c.PreparePresale(t.Context(), "crowd-operator", 20*time.Second)
	require.NoError(t, err)
	require.NoError(t, sale.Open(t.Context(), api, "crowd-operator"))
	c.Run(t.Context())
	require.Equal(t, map[string]int{"ticket": 2}, c.Tally().Outcomes())
	require.EqualValues(t, 1, c.Tally().Gifts.Load())
	require.Empty(t, c.Tally().Violations())
	require.NoError(t, sale.Close(t.Context(), api, "crowd-operator"))

	var event struct{ Status string }
	visitor := p.Client("late")
	visitor.MustCall(t.Context(), http.MethodGet, "/api/v1/events/"+sale.EventID, nil, &event)
	require.Equal(t, "CLOSED", event.Status)
	var room struct{ IsActive bool }
	visitor.MustCall(t.Context(), http.MethodGet, "/vwr-api/vwr/status/"+sale.EventID, nil, &room)
	require.False(t, room.IsActive)
}

// TestCrowdDoesProofs checks that the demo's visitors get through a waiting room that asks for
// proofs of work.
func TestCrowdDoesProofs(t *testing.T) {
	t.Parallel()
	p := harness.Shared(t)
	recorder := crowd.NewRecorder()
	api := crowd.NewAPI("http://"+p.Service(platform.Gateway).Addr(0), recorder)
	t.Cleanup(api.Close)
	sale := crowd.Sale{EventID: "demo-" + uuid.NewString()[:8], Seats: 30, Threshold: 20, Rate: 10, Hold: 60, Slot: 60, Proof: 10}
	require.NoError(t, sale.Open(t.Context(), api, "crowd-operator"))
	c := crowd.New(sale, api, crowd.Options{Visitors: 8, Seed: 1})
	c.Run(t.Context())
	require.Positive(t, c.Tally().Paid.Load(), "%v", c.Tally().Outcomes())
	require.GreaterOrEqual(t, c.Tally().Proofs.Load(), c.Tally().Paid.Load())
}

// TestCheatsGetNothing lets users try to get something for nothing beside a sale. They get what they
// have paid for in full, and their books agree with the provider's ledger.
func TestCheatsGetNothing(t *testing.T) {
	t.Parallel()
	p := harness.Shared(t)
	stores, err := audit.Open(t.Context(), p.Wiring())
	require.NoError(t, err)
	t.Cleanup(stores.Close)
	api := crowd.NewAPI("http://"+p.Service(platform.Gateway).Addr(0), crowd.NewRecorder())
	t.Cleanup(api.Close)
	sale := crowd.Sale{EventID: "demo-" + uuid.NewString()[:8], Seats: 20, Threshold: 5, Rate: 10, Hold: 60, Slot: 60}
	require.NoError(t, sale.Open(t.Context(), api, "crowd-operator"))
	cheats := crowd.NewCheats(sale, api, crowd.AfterSale{}, 1)
	require.NoError(t, cheats.Open(t.Context(), "crowd-operator"))
	cheats.Run(t.Context())
	require.Empty(t, cheats.Tally().Violations())
	require.Equal(t, 20, cheats.Tried())
	p.Eventually(func(ctx context.Context) error {
		f, err := stores.Faults(ctx, cheats.Sale().EventID)
		if wrong := slices.Concat(f.PaidWithoutTicket, f.TicketWithoutPayment, f.Unbalanced, f.Open); err == nil && len(wrong) > 0 {
			err = errors.New(strings.Join(wrong, "; "))
		}
		return err
	})
}
