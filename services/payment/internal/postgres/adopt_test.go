package postgres_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/payment/internal/payment"
)

// A refund by hand is recorded only once, even if sweepers lease its row meanwhile. Each lease
// moves the row in the indexes, and the second insertion must still find it.
func TestAdoptionBesideLeases(t *testing.T) {
	t.Parallel()
	pool, clock, s := setup(t)
	p := open(t, s, clock.Now().Add(time.Hour))
	byHand := payment.ByHandRefunds{Refunds: []payment.ProviderRefund{{ID: "by-hand", Amount: 10, State: payment.ProviderDone}}}
	adopted, err := s.Adopt(t.Context(), p.ID, byHand)
	require.NoError(t, err)
	require.EqualValues(t, 10, adopted)
	var stopped atomic.Bool
	var sweepers sync.WaitGroup
	defer sweepers.Wait()
	defer stopped.Store(true)
	for range 3 {
		sweepers.Go(func() {
			for !stopped.Load() {
				_, _ = pool.Exec(t.Context(), `UPDATE refunds SET due_at = due_at + interval '1 second', lease = lease + 1`)
			}
		})
	}
	for i := range 5000 {
		adopted, err := s.Adopt(t.Context(), p.ID, byHand)
		require.NoError(t, err, i)
		require.Zero(t, adopted)
	}
}
