package postgres_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/telemetry/metricstest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres"
	"urr.guru/services/payment/internal/reconcile"
)

// If an order was compared twice, the later comparison counts, whichever is recorded first.
func TestLaterComparisonCounts(t *testing.T) {
	t.Parallel()
	_, clock, s := setup(t)
	record := func(at time.Time, found ...reconcile.Difference) (statuses []reconcile.Status, gone int) {
		t.Helper()
		statuses, closed, err := s.Record(t.Context(), reconcile.Comparison{Provider: "sandbox", OrderID: "o", Day: clock.Now(), At: at, Found: found})
		require.NoError(t, err)
		return statuses, len(closed)
	}
	d := reconcile.Difference{Kind: reconcile.CaptureOnlyThere, EntryID: "ch", Ours: "nothing", Theirs: "1"}
	begun := clock.Now()
	statuses, _ := record(begun, d)
	require.Equal(t, []reconcile.Status{reconcile.Open}, statuses)
	_, gone := record(begun.Add(2 * time.Second))
	require.Equal(t, 1, gone)
	statuses, _ = record(begun.Add(time.Second), d)
	require.Equal(t, []reconcile.Status{reconcile.Closed}, statuses, "it began before the comparison that no longer found it")
	statuses, _ = record(begun.Add(3*time.Second), d)
	require.Equal(t, []reconcile.Status{reconcile.Open}, statuses)
	_, gone = record(begun.Add(2 * time.Second))
	require.Zero(t, gone)
}

// The gauge has a value for each kind of difference and each configured provider; 0: none.
func TestDifferencesAreMeasured(t *testing.T) { //nolint:paralleltest // metrics are of the process
	pool, clock, s := setup(t)
	_, _, err := s.Record(t.Context(), reconcile.Comparison{Provider: "sandbox", OrderID: "o", Day: clock.Now(), At: clock.Now(), Found: []reconcile.Difference{
		{Kind: reconcile.RefundSum}, {Kind: reconcile.CaptureUnknown, EntryID: "a"}, {Kind: reconcile.CaptureUnknown, EntryID: "b"},
		{Kind: reconcile.RefundState, Moves: true},
	}})
	require.NoError(t, err)
	measured := postgres.NewStore(pool, postgres.Options{Now: clock.Now, Providers: []string{"sandbox", payment.NoProvider}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- measured.Measure(slog.New(slog.DiscardHandler))(ctx) }()
	testkit.Until(t, func() bool {
		return metricstest.ByLabel(t, "urr_payment_differences_open", "kind")["CAPTURE_UNKNOWN"] == 2
	}, "measured")
	cancel()
	require.NoError(t, <-done)
	kinds := metricstest.ByLabel(t, "urr_payment_differences_open", "kind")
	require.Len(t, kinds, len(reconcile.Kinds)+len(reconcile.TicketKinds))
	require.InDelta(t, 1, kinds["REFUND_SUM"], 0)
	require.Zero(t, kinds["REFUND_STATE"])
	require.Equal(t, map[string]float64{"sandbox": 3, "ticket": 0}, metricstest.ByLabel(t, "urr_payment_differences_open", "provider"))
}
