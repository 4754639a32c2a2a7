package payment

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// byHandOf returns a payment of 1000, all of which was captured, with a refund by hand "re" of 400.
func byHandOf(used, goodwill int64) (Payment, Refund) {
	p := paymentIn(Confirmed)
	p.Captured, p.Refunded, p.RefundedByHand, p.ByHandCounted, p.Goodwill = p.Amount, 400, 400, used, goodwill
	return p, Refund{ID: uuid.New(), Cause: ByHand, Request: "re", ProviderID: "re", Status: RefundDone, Amount: 400, Send: 400, Published: true}
}

func TestFailedByHandNeedsTheOthersToBeKnown(t *testing.T) {
	t.Parallel()
	decide := failedByHand(uuid.New(), ProviderRefund{ID: "re", Amount: 400, State: ProviderFailed})
	covered := Refund{ID: uuid.New(), Cause: ByOperator, Status: RefundPending, Amount: 500, Send: 100, KeyNumber: 2, FirstSent: now, LastSent: now}
	inDoubt := covered
	inDoubt.DoubtAt = now
	requested := Refund{ID: uuid.New(), Cause: ByHand, Request: "operator:k", Status: RefundRequested}
	for name, c := range map[string]struct {
		status RefundStatus
		other  Refund
		err    error
		sends  int64 // the other refund afterwards; 0: it is unchanged
		owed   int64
	}{
		"failed before":         {status: RefundFailed, other: covered},
		"covers an unsent one":  {status: RefundDone, other: covered, sends: 500},
		"may be under way":      {status: RefundDone, other: inDoubt, err: errCallUnderWay},
		"is being assigned":     {status: RefundDone, other: requested, err: errByHandRequested},
		"itself is not claimed": {status: RefundRequested, other: covered, err: errByHandRequested},
		"covers one that ended": {status: RefundDone, other: Refund{ID: uuid.New(), Status: RefundDone, Amount: 500, Send: 100}, owed: 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, failed := byHandOf(400, 0)
			failed.Status = c.status
			changes, err := decide(p, []Refund{c.other, failed}, now.Add(time.Minute))
			require.ErrorIs(t, err, c.err)
			if c.err != nil || c.status == RefundFailed {
				require.Empty(t, changes)
				return
			}
			require.Equal(t, RefundFailed, changes[0].Refund.Status)
			require.Equal(t, []int64{-400, -400, -400}, []int64{changes[0].Payment.AddRefunded, changes[0].Payment.AddRefundedByHand, changes[0].Payment.AddByHandCounted})
			if c.sends > 0 {
				require.Equal(t, c.sends, changes[1].Refund.Send)
				require.Equal(t, c.other.KeyNumber+1, changes[1].Refund.KeyNumber, "another amount needs another key")
			}
			if c.owed > 0 {
				require.Equal(t, c.owed, changes[0].Payment.NewRefund.Amount)
			} else {
				require.Nil(t, changes[0].Payment.NewRefund)
			}
		})
	}
	p, failed := byHandOf(0, 0)
	changes, err := failedByHand(uuid.New(), ProviderRefund{ID: "another"})(p, []Refund{failed}, now)
	require.NoError(t, err)
	require.Empty(t, changes, "it was never recorded")
}

// Whatever money by hand has counted for, nothing is lost or owed twice: what is kept for refunds
// rises by what the money has covered, and every refund can still be given up.
func TestFailedByHandKeepsTheBooks(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // repeatable
	for range 5000 {
		p, failed := byHandOf(0, 0)
		p.RefundedByHand += random.Int64N(300) // another refund by hand
		p.Refunded = p.RefundedByHand
		p.ByHandCounted = random.Int64N(p.RefundedByHand + 1)
		p.Goodwill = random.Int64N(p.RefundedByHand - p.ByHandCounted + 1)
		holding, covers := []Refund{failed}, int64(0)
		for range random.IntN(3) {
			cover := random.Int64N(p.ByHandCounted - covers + 1)
			r := Refund{ID: uuid.New(), Cause: ByUser, Status: []RefundStatus{RefundPending, RefundHeld}[random.IntN(2)], Amount: cover + 10, Send: 10}
			if r.Status == RefundHeld && random.IntN(2) == 0 {
				r.Reason = reasonByHand
			}
			holding, covers = append(holding, r), covers+cover
		}
		changes, err := failedByHand(uuid.New(), ProviderRefund{ID: "re", Amount: 400, State: ProviderFailed})(p, holding, now)
		require.NoError(t, err)
		c := changes[0].Payment
		hand, used := p.RefundedByHand+c.AddRefundedByHand, p.ByHandCounted+c.AddByHandCounted
		require.GreaterOrEqual(t, used, int64(0))
		require.LessOrEqual(t, used, hand)
		after := map[uuid.UUID]Refund{}
		for _, x := range changes[1:] {
			after[x.Refund.ID] = x.Refund
		}
		owed, covered := int64(0), int64(0)
		for _, r := range holding[1:] {
			if x, ok := after[r.ID]; ok {
				owed += x.Send - r.Send
				r = x
			}
			covered += r.Amount - r.Send
		}
		require.LessOrEqual(t, covered, used, "a refund that is given up takes its part back")
		if c.NewRefund != nil {
			owed += c.NewRefund.Amount
			require.Positive(t, c.NewRefund.Amount)
		}
		require.Equal(t, -c.AddByHandCounted, owed)
		require.Equal(t, max(0, p.ByHandCounted-(p.RefundedByHand-400)), owed)
	}
}

// A process has seen that money by hand covers all of a refund, and meanwhile that money has failed.
func TestRefundThatIsNotCoveredAnyMoreIsNotDone(t *testing.T) {
	t.Parallel()
	p, _ := byHandOf(0, 0)
	change, err := made(ProviderRefund{State: ProviderDone})(p, Refund{Cause: ByOperator, Status: RefundPending, Amount: 400, Send: 400}, now)
	require.NoError(t, err)
	require.Nil(t, change)
}
