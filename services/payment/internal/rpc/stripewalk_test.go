package rpc_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/payment/fakes"
	fake "urr.guru/services/payment/fakes/stripe"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres"
	"urr.guru/services/payment/internal/stripe"
	"urr.guru/services/payment/internal/ticket"
)

// stripeWalk is one run of buyers who pay on Stripe's page, while processes die or are overtaken, and calls
// and webhooks are lost, late, repeated and forged.
type stripeWalk struct {
	*stripeShop

	rand    *rand.Rand
	link    payment.Tickets
	between sync.Mutex // held by the one who acts between two steps of another process
	closed  int        // charges that are not admitted next
	buyers  []*stripeBuyer
	applied map[uuid.UUID]bool
	sold    map[string]uuid.UUID // the payments that ticket has honoured, by reference
}

type stripeBuyer struct {
	name, ref string
	refs      []string
	open      payment.Payment
	page      payment.Page
}

// Whatever happens: nobody is charged twice, money that was taken has become a ticket or is given back,
// and no authorisation stays open.
func TestStripeWalks(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			w := &stripeWalk{
				stripeShop: setupStripe(t), rand: rand.New(rand.NewPCG(seed, 3)), applied: map[uuid.UUID]bool{}, sold: map[string]uuid.UUID{},
			}
			w.link = ticket.NewClient(w.dialTickets())
			require.NoError(t, w.stripe.Calls.SetFaults(fakes.Faults{
				Seed: seed, Lost: 0.03, Dropped: 0.03, Late: 0.03, Broken: 0.02, Failed: 0.02, Limited: 0.03, Garbled: 0.03,
				Missing: 0.2, Repeated: 0.2, Delayed: 0.2, Forged: 0.2, LateFor: 5e9,
			}))
			for i := range 3 {
				w.buyers = append(w.buyers, &stripeBuyer{name: fmt.Sprint("buyer ", i)})
			}
			for range 120 {
				w.act()
			}
			w.settle()
			w.check()
		})
	}
}

// process makes a process that dies at one of its steps, often enough.
func (w *stripeWalk) process() *payment.Service {
	w.t.Helper()
	l := &life{left: 1 << 30, between: w.interfere}
	if w.rand.IntN(3) == 0 {
		l.left = w.rand.IntN(14)
	}
	store := mortalStore{postgres.NewStore(w.pool, postgres.Options{Now: w.clock.Now}), l}
	return payment.New(store, mortalTickets{w.link, l}, payment.Providers{
		Default: stripe.Name, ByName: map[string]payment.Provider{stripe.Name: mortalProvider{w.guard, l, w.admits}},
	}, slog.New(slog.DiscardHandler), payment.Options{Now: w.clock.Now})
}

// admits reports whether the next charge is sent at all.
func (w *stripeWalk) admits() bool {
	w.closed--
	return w.closed < 0
}

// interfere lets somebody else act between two steps of a process, but nobody between theirs.
func (w *stripeWalk) interfere() {
	if !w.between.TryLock() {
		return
	}
	defer w.between.Unlock()
	if w.rand.IntN(8) == 0 {
		w.act()
	}
}

// act does one random thing.
func (w *stripeWalk) act() {
	w.t.Helper()
	ctx, b := w.t.Context(), w.buyers[w.rand.IntN(len(w.buyers))]
	switch w.rand.IntN(13) {
	case 0, 1, 2:
		w.prepares(b)
	case 3, 4, 5:
		w.pays(b)
	case 6:
		if w.rand.IntN(3) == 0 && b.open.ID != uuid.Nil {
			_, _ = w.process().Cancel(ctx, b.open.ID, b.name)
		}
	case 7:
		method := []string{"Begin", "BeginAnswer", "Abort", "Extend", "Payable"}[w.rand.IntN(5)]
		w.tickets.Fail(method, errs.ErrUnavailable)
	case 8:
		w.stripe.SetRules(fake.Rules{Decline: []string{"", "", "do_not_honor"}[w.rand.IntN(3)]})
	case 9:
		w.closed = w.rand.IntN(3)
	case 10:
		w.pass(time.Duration(w.rand.IntN(240)) * time.Second)
	default:
		w.pass(time.Duration(w.rand.IntN(20)) * time.Second)
	}
	for _, x := range w.stripe.Webhooks.Take() {
		_ = w.process().Webhook(ctx, stripe.Name, x.Header, x.Body)
	}
	if w.rand.IntN(2) == 0 {
		w.deliver()
	}
}

// prepares asks for the page of the buyer's places, or holds others first.
func (w *stripeWalk) prepares(b *stripeBuyer) {
	hold := w.tickets.Hold(b.ref)
	if b.ref == "" || hold.UserID == "" || w.clock.Now().After(hold.ExpiresAt) {
		b.ref = w.tickets.Add(b.name, amount, 5*time.Minute)
		b.refs = append(b.refs, b.ref)
	}
	p, page, err := w.process().Prepare(w.t.Context(), payment.PrepareRequest{
		Reference: payment.Reference{Type: payment.Reservation, ID: uuid.MustParse(b.ref)}, UserID: b.name, IdempotencyKey: newIdempotencyKey(),
	})
	if err == nil && page.URL != "" {
		b.open, b.page = p, page
	}
}

// pays makes a choice on the latest page, and comes back from it, in two tabs, or not at all.
func (w *stripeWalk) pays(b *stripeBuyer) {
	w.t.Helper()
	if b.page.URL == "" {
		return
	}
	choice := []string{fake.Pay, fake.Pay, fake.Close, fake.Decline, fake.Back}[w.rand.IntN(5)]
	params := w.chooseAt(b.page.URL, choice)
	for range w.rand.IntN(3) {
		_, _ = w.process().Return(w.t.Context(), stripe.Name, params, false)
	}
}

// pass lets time pass, at the end of which somebody sweeps.
func (w *stripeWalk) pass(d time.Duration) {
	w.clock.Advance(min(d, 10*time.Second))
	w.stripe.Calls.Arrive()
	w.clock.Advance(max(0, d-10*time.Second))
	s := w.process()
	s.ExtendDue(w.t.Context())
	s.SweepOnce(w.t.Context())
}

// deliver lets ticket apply the events of payments: it honours one whose hold is claimed for it, and
// rejects others.
func (w *stripeWalk) deliver() {
	w.t.Helper()
	for _, p := range w.all() {
		ref := p.Reference.ID.String()
		if p.Captured == 0 || w.applied[p.ID] {
			continue
		}
		w.applied[p.ID] = true
		hold := w.tickets.Hold(ref)
		if hold.Payment == p.ID.String() && !w.clock.Now().After(hold.ExpiresAt) {
			w.sold[ref] = p.ID
			w.tickets.Settle(ref)
			continue
		}
		require.NoError(w.t, w.service.Compensate(w.t.Context(), payment.Rejection{EventKey: p.ID.String(), PaymentID: p.ID, Reason: "HOLD_EXPIRED"}))
	}
}

// settle ends all faults and lets two days pass.
func (w *stripeWalk) settle() {
	w.t.Helper()
	require.NoError(w.t, w.stripe.Calls.SetFaults(fakes.Faults{}))
	w.stripe.SetRules(fake.Rules{})
	w.closed = 0
	for _, method := range []string{"Begin", "BeginAnswer", "Abort", "Extend", "Payable"} {
		w.tickets.Fail(method)
	}
	w.clock.Advance(10 * time.Second)
	w.stripe.Calls.Arrive()
	w.rest(60, 15*time.Second)
	w.rest(26, time.Hour)
	w.rest(30, 30*time.Second)
}

func (w *stripeWalk) rest(rounds int, d time.Duration) {
	w.t.Helper()
	for range rounds {
		w.clock.Advance(d)
		w.service.ExtendDue(w.t.Context())
		w.service.SweepOnce(w.t.Context())
		w.deliver()
	}
}

func (w *stripeWalk) all() (list []payment.Payment) {
	w.t.Helper()
	for _, b := range w.buyers {
		for _, ref := range b.refs {
			ids, err := w.store().OfReference(w.t.Context(), payment.Reference{Type: payment.Reservation, ID: uuid.MustParse(ref)})
			require.NoError(w.t, err)
			for _, id := range ids {
				p, err := w.store().Get(w.t.Context(), id)
				require.NoError(w.t, err)
				list = append(list, p)
			}
		}
	}
	return list
}

// check requires that the books agree with Stripe, and that nothing is left undone.
func (w *stripeWalk) check() {
	w.t.Helper()
	kept := map[string]int64{} // what Stripe has kept, by reference
	for _, p := range w.all() {
		order := w.stripe.Order(p.OrderID)
		require.False(w.t, p.Status.Uncharged() || p.Status.Unsettled(), "%s is left %s", p.OrderID, p.Status)
		require.False(w.t, p.AbortDue || p.CancelDue || p.Hinted, "%s: %+v", p.OrderID, p)
		require.Equal(w.t, order.Received, p.Captured, "%s is %s, and %s at Stripe", p.OrderID, p.Status, order.Status)
		require.Equal(w.t, order.Refunded, p.Refunded, p.OrderID)
		require.NotContains(w.t, []string{"requires_capture", "open"}, order.Status, "%s is %s", p.OrderID, p.Status)
		kept[p.Reference.ID.String()] += order.Received - order.Refunded
		if p.Captured == 0 {
			require.NotEqual(w.t, p.ID.String(), w.tickets.Hold(p.Reference.ID.String()).Payment, "places are left claimed")
		}
	}
	for _, b := range w.buyers {
		for _, ref := range b.refs {
			want := int64(0)
			if w.sold[ref] != uuid.Nil {
				want = amount
			}
			require.Equal(w.t, want, kept[ref], "money and tickets of %s", ref)
		}
	}
}
