package payment

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

var allRefunds = []RefundStatus{
	RefundRequested, RefundPending, RefundAccepted, RefundDone, RefundRejected, RefundRefused, RefundHeld, RefundResolved,
}

func refundIn(status RefundStatus) Refund {
	return Refund{Cause: ByUser, Status: status, Amount: 400, Send: 400, Lease: 3, Gen: 1, FirstSent: now, LastSent: now, ProviderID: "x"}
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
		"spent key":     {spent(3, time.Hour), map[RefundStatus]RefundStatus{RefundPending: RefundPending}},
		"absent":        {absent(3, now.Add(time.Hour), time.Minute), map[RefundStatus]RefundStatus{RefundPending: RefundPending}},
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
			refusedByProvider(3, RefundAnswer{State: ProviderRefused}, 1000), map[RefundStatus]RefundStatus{RefundPending: RefundRefused},
		},
		"aborted":          {aborted, nil},
		"retried":          {retried, map[RefundStatus]RefundStatus{RefundHeld: RefundPending}},
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
			change, err := refusedByProvider(3, RefundAnswer{State: ProviderRefused, Code: "DISPUTED"}, 1000)(p, r, now)
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
	change, err := spent(3, time.Hour)(p, r, now.Add(time.Second))
	require.NoError(t, err)
	r = change.Refund
	require.Equal(t, now, r.LastSent)
	change, err = sending(3, time.Hour, time.Minute)(p, r, now.Add(time.Second))
	require.NoError(t, err)
	require.Nil(t, change, "it counts as forgotten")
	change, err = absent(3, now.Add(59*time.Second), time.Minute)(p, r, now.Add(59*time.Second))
	require.NoError(t, err)
	require.Equal(t, 1, change.Refund.Gen)
	require.Equal(t, time.Second, change.Wait)
	change, err = absent(3, now.Add(time.Minute), time.Minute)(p, r, now.Add(time.Minute))
	require.NoError(t, err)
	require.Equal(t, 2, change.Refund.Gen)
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
