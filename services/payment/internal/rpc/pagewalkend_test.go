package rpc_test

import (
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres"
	"urr.guru/services/payment/internal/rpc/paymenttest"
)

// staysAway has a buyer pay on the page and never come back, without a webhook. It requires that
// the buyer gets the seats long before the page ends.
func (w *pageWalk) staysAway(pay func(b *buyer)) {
	w.t.Helper()
	w.between.Lock()
	defer w.between.Unlock()
	b := &buyer{name: "who stays away"}
	w.buyers = append(w.buyers, b)
	for b.page.URL == "" {
		w.prepares(b)
	}
	pay(b)
	w.passRounds(32, 15*time.Second)
	require.NotZero(w.t, w.sold[b.ref], "nobody asked the provider about %s", b.open.OrderID)
}

// settle ends all faults and lets two days pass.
func (w *pageWalk) settle() {
	w.t.Helper()
	w.mend()
	for _, call := range []string{paymenttest.Charges, paymenttest.Lookups, paymenttest.Voids, paymenttest.Refunds} {
		w.provider.Fail(call, 0)
		w.provider.Lose(call, 0)
		w.provider.Delay(call, 0)
	}
	w.provider.Arrive()
	if w.authorizer != nil {
		w.staysAway(func(b *buyer) { w.authorizer.authorize(b.open.OrderID) })
	}
	w.passRounds(30, 5*time.Second)
	for _, p := range w.all() {
		if w.provider.Order(p.OrderID).Status == "PENDING" {
			w.provider.Settle(p.OrderID, []string{"CAPTURED", "DECLINED"}[w.rand.IntN(2)])
		}
	}
	w.passRounds(30, 30*time.Second)
	w.passRounds(26, time.Hour)
	w.passRounds(5, time.Second)
}

// passRounds lets the time d pass several times, with a process that does not die.
func (w *pageWalk) passRounds(rounds int, d time.Duration) {
	w.t.Helper()
	for range rounds {
		w.clock.Advance(d)
		w.service.ExtendDue(w.t.Context())
		w.service.SweepOnce(w.t.Context())
		w.deliver()
	}
}

func (w *pageWalk) all() (list []payment.Payment) {
	w.t.Helper()
	store := postgres.NewStore(w.pool, postgres.Options{Now: w.clock.Now, PagesPerHour: 1000})
	for _, b := range w.buyers {
		for _, ref := range b.refs {
			ids, err := store.PaymentIDsByReference(w.t.Context(), payment.Reference{Type: payment.Reservation, ID: uuid.MustParse(ref)})
			require.NoError(w.t, err)
			for _, id := range ids {
				p, err := store.Get(w.t.Context(), id)
				require.NoError(w.t, err)
				list = append(list, p)
			}
		}
	}
	return list
}

// check requires that payments and provider agree, and that no work is left.
func (w *pageWalk) check() {
	w.t.Helper()
	kept := map[uuid.UUID]int64{} // what the provider has kept, by reference
	for _, p := range w.all() {
		order := w.provider.Order(p.OrderID)
		w.requireEnded(p)
		require.Equal(w.t, order.Status == "CAPTURED", p.Captured > 0, "%s is %s, and %s at the provider", p.OrderID, p.Status, order.Status)
		require.Equal(w.t, order.RefundedAmount, p.Refunded, p.OrderID)
		if order.Status == "CAPTURED" {
			kept[p.Reference.ID] += order.Amount - order.RefundedAmount
			require.Equal(w.t, p.PaymentKey, order.PaymentKey, "one key")
		} else if w.authorizer != nil {
			require.False(w.t, w.authorizer.isAuthorized(p.OrderID), "%s: an authorisation is left open", p.OrderID)
		}
	}
	w.requireMoney(kept)
}

// requireEnded requires that no work is left for a payment.
func (w *pageWalk) requireEnded(p payment.Payment) {
	w.t.Helper()
	require.False(w.t, p.Status.Uncharged() || p.Status.Unsettled(), "%s is left %s", p.OrderID, p.Status)
	require.False(w.t, p.AbortDue || p.CancelDue || p.Hinted, "%s: %+v", p.OrderID, p)
	if p.Captured == 0 { // otherwise its event ends the claim
		require.NotEqual(w.t, p.ID.String(), w.bundle.tickets.Hold(p.Reference.ID.String()).Payment, "places are left claimed")
	}
}

// requireMoney requires that the provider has kept the price of each reference with tickets, and
// nothing for any other reference.
func (w *pageWalk) requireMoney(kept map[uuid.UUID]int64) {
	w.t.Helper()
	for _, b := range w.buyers {
		for _, ref := range b.refs {
			want := int64(0)
			if w.sold[ref] != uuid.Nil {
				want = amount
			}
			require.Equal(w.t, want, kept[uuid.MustParse(ref)], "money and tickets of %s", ref)
		}
	}
}
