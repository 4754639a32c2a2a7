package rpc_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/payment/fakes"
	tossfake "urr.guru/services/payment/fakes/toss"
	"urr.guru/services/payment/internal/toss"
)

// tossWalk is a run of random steps: buyers pay at Toss, processes die and answers are lost.
type tossWalk struct {
	*pageWalk

	shop *tossShop
}

// Whatever buyers do in one or more tabs, whichever process dies, and whichever answer is lost,
// late or kept under a key: nobody is charged twice, money that was taken has become a ticket or
// was refunded, and no seat stays claimed for an ended payment.
func TestTossWalks(t *testing.T) {
	t.Parallel()
	eachSeed(t, 20, func(t *testing.T, seed uint64) {
		t.Helper()
		w := newTossWalk(t, seed)
		walkThrough(w)
	})
}

func newTossWalk(t *testing.T, seed uint64) *tossWalk {
	t.Helper()
	s := setupToss(t)
	w := &tossWalk{shop: s}
	w.pageWalk = newWalkAt(s.bundle, seed, &otherProvider{Provider: s.provider, name: toss.Name, act: w.act})
	return w
}

// act does one random thing.
func (w *tossWalk) act() {
	w.t.Helper()
	b := w.buyers[w.rand.IntN(len(w.buyers))]
	switch w.rand.IntN(15) {
	case 0, 1, 2:
		w.prepares(b)
	case 3, 4, 5:
		w.pays(b)
	case 6:
		if w.rand.IntN(3) == 0 && b.open.ID != uuid.Nil {
			_, _ = w.replica(w.steps()).Cancel(w.t.Context(), b.open.ID, b.name)
		}
	case 7:
		for _, hook := range w.shop.toss.Webhooks.Take() {
			_ = w.replica(w.steps()).Webhook(w.t.Context(), toss.Name, hook.Header, hook.Body)
		}
	case 8, 9:
		w.fail()
		w.refuseNext = w.rand.IntN(3)
	case 10:
		w.cutOffTicket()
	case 11:
		w.pass(time.Duration(w.rand.IntN(240)) * time.Second)
	default:
		w.pass(time.Duration(w.rand.IntN(20)) * time.Second)
	}
	if w.rand.IntN(2) == 0 {
		w.deliver()
	}
}

// pays pays on the latest page, in one or two tabs. The buyer comes back from some or none of them.
func (w *tossWalk) pays(b *buyer) {
	w.t.Helper()
	if b.page.URL == "" {
		return
	}
	var returns []map[string]string
	for range 1 + w.rand.IntN(2) {
		choice := []string{"pay", "pay", "pay", "decline", "back"}[w.rand.IntN(5)]
		returns = append(returns, w.shop.chooseOn(b.page.URL, amount, choice))
	}
	w.rand.Shuffle(len(returns), func(i, j int) { returns[i], returns[j] = returns[j], returns[i] })
	for _, params := range returns[:w.rand.IntN(len(returns)+1)] {
		_, _ = w.replica(w.steps()).Return(w.t.Context(), toss.Name, params, false)
	}
}

// fail makes the next calls of a kind go wrong.
func (w *tossWalk) fail() {
	if w.rand.IntN(4) == 0 {
		w.failTicket()
		return
	}
	all := []fakes.Fault{fakes.Lost, fakes.Dropped, fakes.Late, fakes.Broken, fakes.Failed, fakes.Limited, fakes.Garbled}
	list := make([]fakes.Fault, 1+w.rand.IntN(3))
	for i := range list {
		list[i] = all[w.rand.IntN(len(all))]
	}
	w.shop.toss.Inject([]string{tossfake.Confirms, tossfake.Confirms, tossfake.Lookups}[w.rand.IntN(3)], list...)
}

func (w *tossWalk) pass(d time.Duration) { w.passWith(d, w.shop.toss.Arrive) }

// settle ends all faults and lets two days pass.
func (w *tossWalk) settle() {
	w.t.Helper()
	for _, call := range []string{tossfake.Confirms, tossfake.Lookups} {
		w.shop.toss.Inject(call)
	}
	w.mend()
	w.shop.toss.Arrive()
	w.passRounds(30, 5*time.Second)
	w.passRounds(30, 30*time.Second)
	w.passRounds(30, time.Hour)
	w.passRounds(5, time.Second)
}

// check requires that the payments agree with Toss, and that no work is left.
func (w *tossWalk) check() {
	w.t.Helper()
	kept := map[uuid.UUID]int64{} // what Toss has kept, by reference
	for _, p := range w.all() {
		w.requireEnded(p)
		taken, refunded := 0, int64(0)
		for _, x := range w.shop.toss.Of(p.OrderID) {
			if x.Status != tossfake.Done && x.Status != tossfake.Canceled && x.Status != tossfake.PartCanceled {
				continue
			}
			taken++
			refunded += x.TotalAmount - x.BalanceAmount
			kept[p.Reference.ID] += x.BalanceAmount
			require.Equal(w.t, p.PaymentKey, x.PaymentKey, "one key")
		}
		require.LessOrEqual(w.t, taken, 1, "%s is charged twice", p.OrderID)
		require.Equal(w.t, taken == 1, p.Captured > 0, "%s is %s", p.OrderID, p.Status)
		require.Equal(w.t, refunded, p.Refunded, p.OrderID)
	}
	w.requireMoney(kept)
}
