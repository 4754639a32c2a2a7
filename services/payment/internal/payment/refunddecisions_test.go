package payment

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
)

var allRefunds = []RefundStatus{
	RefundRequested, RefundPending, RefundAccepted, RefundDone, RefundRejected, RefundRefused, RefundHeld, RefundResolved, RefundFailed,
}

func refundIn(status RefundStatus) Refund {
	return Refund{Cause: ByUser, Status: status, Amount: 400, Send: 400, Lease: 3, KeyNumber: 1, FirstSent: now, LastSent: now, ProviderID: "x"}
}

// Each decision is tried in each status. If want has no entry for a status, nothing changes.
func TestRefundDecisions(t *testing.T) {
	t.Parallel()
	p := paymentIn(Confirmed)
	p.Captured = p.Amount
	becomesDone := map[RefundStatus]RefundStatus{RefundPending: RefundDone, RefundHeld: RefundDone}
	for name, c := range map[string]struct {
		decide DecideRefund
		want   map[RefundStatus]RefundStatus
	}{
		"claimed":       {begun(Claim{}), map[RefundStatus]RefundStatus{RefundRequested: RefundPending}},
		"not claimed":   {begun(Claim{Refused: true}), map[RefundStatus]RefundStatus{RefundRequested: RefundRejected}},
		"sending":       {sending(3, time.Hour, time.Minute), map[RefundStatus]RefundStatus{RefundPending: RefundPending}},
		"stale lease":   {sending(2, time.Hour, time.Minute), nil},
		"spent key":     {spent(3, time.Hour, KeptError{}), map[RefundStatus]RefundStatus{RefundPending: RefundPending}},
		"absent":        {absent(3, now.Add(time.Hour), time.Minute, RefundReport{}), map[RefundStatus]RefundStatus{RefundPending: RefundPending}},
		"made":          {made(ProviderRefund{ID: "y", State: ProviderDone}), becomesDone},
		"the same made": {made(ProviderRefund{ID: "x", State: ProviderDone}), map[RefundStatus]RefundStatus{RefundAccepted: RefundDone}},
		"accepted": {made(ProviderRefund{ID: "y", State: ProviderAccepted}), map[RefundStatus]RefundStatus{
			RefundPending: RefundAccepted, RefundHeld: RefundAccepted,
		}},
		"failed": {made(ProviderRefund{ID: "x", State: ProviderFailed}), map[RefundStatus]RefundStatus{
			RefundAccepted: RefundHeld, RefundDone: RefundHeld,
		}},
		"another one failed": {made(ProviderRefund{ID: "y", State: ProviderFailed}), nil},
		"refused": {
			refusedByProvider(3, RefundAnswer{State: ProviderRefused}, RefundReport{Captured: 1000}), map[RefundStatus]RefundStatus{RefundPending: RefundRefused},
		},
		"aborted":          {aborted, nil},
		"held by operator": {heldByOperator, map[RefundStatus]RefundStatus{RefundPending: RefundHeld}},
		"not made":         {notMade(now.Add(time.Hour), time.Minute), map[RefundStatus]RefundStatus{RefundHeld: RefundHeld}},
		"retried":          {retried(nil), map[RefundStatus]RefundStatus{RefundHeld: RefundPending}},
		"resolved":         {resolved(false, "paid"), map[RefundStatus]RefundStatus{RefundHeld: RefundResolved}},
		"not paid by hand": {resolved(true, "paid"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := map[RefundStatus]RefundStatus{}
			for _, status := range allRefunds {
				change, err := c.decide(p, refundIn(status), now)
				if err == nil && change != nil {
					got[status] = change.Refund.Status
				}
			}
			if c.want == nil {
				c.want = map[RefundStatus]RefundStatus{}
			}
			require.Empty(t, cmp.Diff(c.want, got))
		})
	}
}

// After a final refusal the refund is REFUSED or HELD, by its cause and whether it was published.
func TestRefusalByCause(t *testing.T) {
	t.Parallel()
	p := paymentIn(Confirmed)
	p.Captured = p.Amount
	for _, cause := range Causes {
		for _, published := range []bool{false, true} {
			r := refundIn(RefundPending)
			r.Cause, r.Published = cause, published
			change, err := refusedByProvider(3, RefundAnswer{State: ProviderRefused, Code: "DISPUTED"}, RefundReport{Captured: 1000})(p, r, now)
			require.NoError(t, err)
			undone := !published && (cause == ByUser || cause == ByOperator)
			want := RefundHeld
			if undone {
				want = RefundRefused
			}
			require.Equal(t, want, change.Refund.Status, "%s %t", cause, published)
			require.Equal(t, undone, change.Refund.AbortDue)
			require.Equal(t, "DISPUTED", change.Refund.Reason, "for operators")
			require.NotContains(t, change.Payment.Note, "DISPUTED", "payers see the timeline")
		}
	}
}

// The captured and the refunded amount decide between CONFIRMED and REFUNDED.
func TestStatusFollowsMoney(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status             Status
		captured, refunded int64
		add                int64
		want               Status
	}{
		{Confirmed, 1000, 0, 400, Confirmed},
		{Confirmed, 1000, 600, 400, Refunded},
		{Confirmed, 1000, 1000, 400, Refunded}, // an earlier refund has failed, unknown here
		{Refunded, 1000, 1000, -400, Confirmed},
		{Refunded, 1000, 1400, -400, Refunded},
		{Declined, 999, 0, 999, Declined}, // a charge of a wrong amount
		{Confirmed, 0, 0, 0, Confirmed},   // a free payment
		{Refunded, 0, 0, 0, Refunded},
	} {
		p := paymentIn(c.status)
		p.Captured, p.Refunded = c.captured, c.refunded
		require.Equal(t, c.want, p.withMoney(c.add, 0, 0, "").Status, "%+v", c)
	}
}

// After ErrKeySpent the provider is asked about the refund. A new key is used once no call with the
// old key can take effect any more.
func TestSpentKeyIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	p, r := paymentIn(Confirmed), refundIn(RefundPending)
	change, err := spent(3, time.Hour, KeptError{Code: "X"})(p, r, now.Add(time.Second))
	require.NoError(t, err)
	r = change.Refund
	require.Equal(t, now, r.LastSent)
	change, err = sending(3, time.Hour, time.Minute)(p, r, now.Add(time.Second))
	require.NoError(t, err)
	require.Nil(t, change, "it counts as forgotten")
	change, err = absent(3, now.Add(59*time.Second), time.Minute, RefundReport{})(p, r, now.Add(59*time.Second))
	require.NoError(t, err)
	require.Equal(t, 1, change.Refund.KeyNumber)
	require.Equal(t, time.Second, change.Wait)
	change, err = absent(3, now.Add(time.Minute), time.Minute, RefundReport{})(p, r, now.Add(time.Minute))
	require.NoError(t, err)
	require.Equal(t, 2, change.Refund.KeyNumber)
}

// What the provider keeps refusing ends after three keys, and what it has trouble with after two hours,
// but only when no call can take effect any more. An operator's retry begins anew.
func TestRepeatedRefusals(t *testing.T) {
	t.Parallel()
	p := paymentIn(Confirmed)
	p.Captured = p.Amount
	for trouble, lasts := range map[bool]time.Duration{false: 3 * time.Minute, true: 2*time.Hour + time.Minute} {
		r, at := refundIn(RefundPending), now
		change, err := spent(3, time.Hour, KeptError{Code: "X", Trouble: trouble})(p, r, at)
		require.NoError(t, err)
		change, err = absent(3, at.Add(24*time.Hour), time.Minute, RefundReport{Captured: 1000})(p, change.Refund, at.Add(24*time.Hour))
		require.NoError(t, err)
		require.Equal(t, 2, change.Refund.KeyNumber, "one error, long ago, is not enough")
		for r.Status == RefundPending {
			change, err := spent(3, time.Hour, KeptError{Code: "X", Trouble: trouble})(p, r, at)
			require.NoError(t, err)
			r, at = change.Refund, at.Add(time.Minute)
			early, err := absent(3, at.Add(-1), time.Minute, RefundReport{Captured: 1000})(p, r, at)
			require.NoError(t, err)
			require.Equal(t, r, early.Refund, "a call may still take effect")
			change, err = absent(3, at, time.Minute, RefundReport{Captured: 1000})(p, r, at)
			require.NoError(t, err)
			r = change.Refund
		}
		require.Equal(t, lasts, at.Sub(now))
		require.Equal(t, RefundRefused, r.Status)
		require.Equal(t, "X", r.Reason)
		r.Status = RefundHeld
		change, err = retried(nil)(p, r, at)
		require.NoError(t, err)
		change, err = absent(3, at.Add(time.Hour), time.Minute, RefundReport{Captured: 1000})(p, change.Refund, at.Add(time.Hour))
		require.NoError(t, err)
		require.Equal(t, RefundPending, change.Refund.Status)
	}
}

// A refund that an operator holds while a call may have made it is sent again under the same key only,
// and is not resolved until the provider was asked.
func TestHeldInDoubt(t *testing.T) {
	t.Parallel()
	p, r := paymentIn(Confirmed), refundIn(RefundPending)
	p.Captured, r.DoubtAt = p.Amount, now
	change, err := heldByOperator(p, r, now)
	require.NoError(t, err)
	held := change.Refund
	change, err = retried(nil)(p, held, now)
	require.NoError(t, err)
	require.Equal(t, r.KeyNumber, change.Refund.KeyNumber)
	require.Equal(t, r.DoubtAt, change.Refund.DoubtAt)
	_, err = resolved(false, "paid")(p, held, now)
	require.ErrorIs(t, err, errs.ErrUnavailable)
	_, err = notMade(now.Add(time.Minute-1), time.Minute)(p, held, now.Add(time.Minute-1))
	require.ErrorIs(t, err, errs.ErrUnavailable)
	change, err = notMade(now.Add(time.Minute), time.Minute)(p, held, now.Add(time.Minute))
	require.NoError(t, err)
	change, err = resolved(false, "paid")(p, change.Refund, now)
	require.NoError(t, err)
	require.Equal(t, RefundResolved, change.Refund.Status)
}

// Money by hand does not become goodwill while the ticket service has still to say for which tickets
// it was: the refund waits for that, and is held again if anything is left.
func TestRetryCallsNothingGoodwillThatMayEndTickets(t *testing.T) {
	t.Parallel()
	p, r := paymentIn(Confirmed), refundIn(RefundHeld)
	p.Captured, p.Refunded, p.RefundedByHand, r.Reason = p.Amount, 300, 300, reasonByHand
	for requested, goodwill := range map[bool]int64{false: 300, true: 0} {
		p.ByHandRequested = requested
		change, err := retried(nil)(p, r, now)
		require.NoError(t, err)
		require.Equal(t, RefundPending, change.Refund.Status)
		require.Equal(t, goodwill, change.Payment.AddGoodwill)
	}
}

// A refund of a disputed charge is not sent, unless an earlier call may have made it. It is then
// sent again under the same key, and the provider decides.
func TestUnlessDisputed(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, tc := range []struct {
		disputedAt, doubtAt time.Time
		byBuyer, sent       bool
	}{
		{time.Time{}, time.Time{}, false, true}, {now, time.Time{}, false, false}, {now, now, false, true}, {time.Time{}, now, false, true},
		{time.Time{}, time.Time{}, true, false}, {time.Time{}, now, true, true},
	} {
		p := Payment{Status: Confirmed, Captured: 1000, Amount: 1000, DisputedAt: tc.disputedAt}
		r := Refund{Status: RefundPending, Cause: ByUser, Lease: 3, Amount: 1000, Send: 1000, DoubtAt: tc.doubtAt}
		c, err := unlessDisputed(3, tc.byBuyer, sending(3, time.Hour, time.Minute))(p, r, now)
		require.NoError(t, err)
		require.Equal(t, tc.sent, c.Refund.Status == RefundPending)
		if !tc.sent {
			require.Equal(t, RefundRefused, c.Refund.Status)
			require.Equal(t, reasonDisputed, c.Refund.Reason)
			require.Nil(t, c.Payment.Refund)
		}
	}
}
