package rpc_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/payment/fakes"
	fake "urr.guru/services/payment/fakes/stripe"
	"urr.guru/services/payment/internal/stripe"
)

// stripeWalk is a run of random steps: buyers pay on Stripe's page, processes die or are overtaken,
// and calls and webhooks are lost, late, repeated and forged.
type stripeWalk struct {
	*pageWalk

	shop *stripeShop
}

// Whatever happens, nobody is charged twice, money that was taken has become a ticket or was
// refunded, and no authorisation stays open.
func TestStripeWalks(t *testing.T) {
	t.Parallel()
	eachSeed(t, 20, func(t *testing.T, seed uint64) {
		t.Helper()
		w := &stripeWalk{shop: setupStripe(t)}
		w.pageWalk = newWalkAt(w.shop.bundle, seed, &otherProvider{Provider: w.shop.guard, name: stripe.Name, act: w.act})
		require.NoError(t, w.shop.stripe.Calls.SetFaults(fakes.Faults{
			Seed: seed, Lost: 0.03, Dropped: 0.03, Late: 0.03, Broken: 0.02, Failed: 0.02, Limited: 0.03, Garbled: 0.03,
			Missing: 0.2, Repeated: 0.2, Delayed: 0.2, Forged: 0.2, LateFor: 5e9,
		}))
		walkThrough(w)
	})
}

// act does one random thing.
func (w *stripeWalk) act() {
	w.t.Helper()
	ctx, b := w.t.Context(), w.buyers[w.rand.IntN(len(w.buyers))]
	switch w.rand.IntN(14) {
	case 0, 1, 2:
		w.prepares(b)
	case 3, 4, 5:
		w.pays(b)
	case 6:
		if w.rand.IntN(3) == 0 && b.open.ID != uuid.Nil {
			_, _ = w.replica(w.steps()).Cancel(ctx, b.open.ID, b.name)
		}
	case 7:
		w.failTicket()
	case 8:
		w.shop.stripe.SetRules(fake.Rules{Decline: []string{"", "", "do_not_honor"}[w.rand.IntN(3)]})
	case 9:
		w.refuseNext = w.rand.IntN(3)
	case 10:
		w.cutOffTicket()
	case 11:
		w.pass(time.Duration(w.rand.IntN(240)) * time.Second)
	default:
		w.pass(time.Duration(w.rand.IntN(20)) * time.Second)
	}
	for _, x := range w.shop.stripe.Webhooks.Take() {
		_ = w.replica(w.steps()).Webhook(ctx, stripe.Name, x.Header, x.Body)
	}
	if w.rand.IntN(2) == 0 {
		w.deliver()
	}
}

// pays makes a choice on the latest page. The buyer comes back once, in two tabs, or not at all.
func (w *stripeWalk) pays(b *buyer) {
	w.t.Helper()
	if b.page.URL == "" {
		return
	}
	choice := []string{fake.Pay, fake.Pay, fake.Close, fake.Decline, fake.Back}[w.rand.IntN(5)]
	params := w.shop.chooseAt(b.page.URL, choice)
	for range w.rand.IntN(3) {
		_, _ = w.replica(w.steps()).Return(w.t.Context(), stripe.Name, params, false)
	}
}

func (w *stripeWalk) pass(d time.Duration) { w.passWith(d, w.shop.stripe.Calls.Arrive) }

// settle ends all faults and lets two days pass.
func (w *stripeWalk) settle() {
	w.t.Helper()
	require.NoError(w.t, w.shop.stripe.Calls.SetFaults(fakes.Faults{}))
	w.shop.stripe.SetRules(fake.Rules{})
	w.mend()
	w.clock.Advance(10 * time.Second)
	w.shop.stripe.Calls.Arrive()
	w.staysAway(func(b *buyer) { w.shop.chooseAt(b.page.URL, fake.Close) })
	w.passRounds(60, 15*time.Second)
	w.passRounds(26, time.Hour)
	w.passRounds(30, 30*time.Second)
}

// check requires that the payments agree with Stripe, and that no work is left.
func (w *stripeWalk) check() {
	w.t.Helper()
	kept := map[uuid.UUID]int64{} // what Stripe has kept, by reference
	for _, p := range w.all() {
		order := w.shop.stripe.Order(p.OrderID)
		w.requireEnded(p)
		require.Equal(w.t, order.Received, p.Captured, "%s is %s, and %s at Stripe", p.OrderID, p.Status, order.Status)
		require.Equal(w.t, order.Refunded, p.Refunded, p.OrderID)
		require.NotContains(w.t, []string{"requires_capture", "open"}, order.Status, "%s is %s", p.OrderID, p.Status)
		kept[p.Reference.ID] += order.Received - order.Refunded
	}
	w.requireMoney(kept)
}
