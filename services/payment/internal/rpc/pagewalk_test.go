package rpc_test

import (
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/payment/internal/guard"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres"
	"urr.guru/services/payment/internal/rpc/paymenttest"
	"urr.guru/services/payment/internal/ticket"
)

// pageWalk is a run of random steps: buyers pay on pages, processes die and answers are lost.
type pageWalk struct {
	*bundle

	rand       *rand.Rand
	authorizer *authorizer
	// other is the provider; nil: the sandbox.
	other           *otherProvider
	tickets         payment.Tickets
	refuseNext      int       // how many of the next charges are not sent
	ticketAwayUntil time.Time // no event reaches the ticket service earlier
	// keepsClaims says that charges extend holds, and that all claims are prolonged in time.
	keepsClaims bool
	between     sync.Mutex // held while interfere runs
	buyers      []*buyer
	sold        map[string]uuid.UUID // the payments that have tickets, by reference
	applied     map[uuid.UUID]bool   // the confirmed payments whose event is applied
}

// otherProvider is a provider other than the sandbox. act does something random at it.
type otherProvider struct {
	payment.Provider

	name string
	act  func()
}

// buyer pays for one reference at a time.
type buyer struct {
	name string
	ref  string
	refs []string
	open payment.Payment // the payment of the buyer's latest page
	page payment.Page
}

// Whatever buyers do, whichever process dies or is overtaken between any two calls, and whichever
// answer is lost: in the end nobody is charged twice, money that was taken has become a ticket or
// was refunded, no seat stays claimed for an ended payment, and no authorisation stays open.
func TestPageWalks(t *testing.T) {
	t.Parallel()
	eachSeed(t, 20, func(t *testing.T, seed uint64) {
		t.Helper()
		w := newPageWalk(t, seed)
		walkThrough(w)
	})
}

// walkThrough makes 120 random steps, then ends all faults, and requires that all sums agree.
func walkThrough(w interface {
	act()
	settle()
	check()
}) {
	for range 120 {
		w.act()
	}
	w.settle()
	w.check()
}

var full = flag.Bool("full", false, "the long form of the walks: make chaos")

// eachSeed runs walk with n seeds, or with 300 if the flag full is set.
func eachSeed(t *testing.T, n uint64, walk func(t *testing.T, seed uint64)) {
	t.Helper()
	if *full {
		n = 300
	}
	for seed := range n {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			walk(t, seed)
		})
	}
}

func newPageWalk(t *testing.T, seed uint64) *pageWalk {
	t.Helper()
	w := &pageWalk{rand: rand.New(rand.NewPCG(seed, 2)), sold: map[string]uuid.UUID{}, applied: map[uuid.UUID]bool{}}
	option := withPage
	if seed%2 == 1 {
		w.authorizer = newAuthorizer()
		option = withAuthorizer(w.authorizer)
	}
	w.bundle = setup(t, option)
	w.tickets = ticket.NewClient(w.dialTickets())
	w.buyers = threeBuyers()
	return w.keep(seed)
}

// keep sets keepsClaims in half of the walks.
func (w *pageWalk) keep(seed uint64) *pageWalk {
	if w.keepsClaims = seed/2%2 == 1; w.keepsClaims {
		w.bundle.tickets.Lengthen()
	}
	return w
}

// newWalkAt makes a walk with a provider other than the sandbox.
func newWalkAt(b *bundle, seed uint64, other *otherProvider) *pageWalk {
	w := &pageWalk{
		bundle: b, rand: rand.New(rand.NewPCG(seed, 3)), other: other, tickets: ticket.NewClient(b.dialTickets()), buyers: threeBuyers(),
		sold: map[string]uuid.UUID{}, applied: map[uuid.UUID]bool{},
	}
	return w.keep(seed)
}

func threeBuyers() []*buyer { return []*buyer{{name: "buyer 0"}, {name: "buyer 1"}, {name: "buyer 2"}} }

// replica makes a process that dies after a number of steps. interfere runs between its steps.
func (w *pageWalk) replica(steps int) *payment.Service {
	l := &lifetime{remaining: steps, between: w.interfere}
	provider := payment.Provider(guard.New(w.sandbox, unlimited))
	if w.authorizer != nil {
		provider = w.authorizer
	}
	providers := onlyProvider(mortalProvider{provider, l, w.admits})
	if o := w.other; o != nil {
		providers = payment.Providers{Default: o.name, ByName: map[string]payment.Provider{o.name: mortalProvider{o.Provider, l, w.admits}}}
	}
	store := mortalStore{postgres.NewStore(w.pool, postgres.Options{Now: w.clock.Now, PagesPerHour: 1000}), l}
	return payment.New(store, mortalTickets{w.tickets, l}, providers, slog.New(slog.DiscardHandler), payment.Options{Now: w.clock.Now})
}

// admits reports whether the next charge is sent at all (refuseNext).
func (w *pageWalk) admits() bool {
	w.refuseNext--
	return w.refuseNext < 0
}

// steps returns after how many steps the next process dies. Two of three processes do not die.
func (w *pageWalk) steps() int {
	if w.rand.IntN(3) == 0 {
		return w.rand.IntN(14)
	}
	return 1 << 30
}

// interfere does something between two steps of a process, unless it is running already.
func (w *pageWalk) interfere() {
	if !w.between.TryLock() {
		return
	}
	defer w.between.Unlock()
	switch {
	case w.rand.IntN(8) != 0:
	case w.other != nil:
		w.other.act()
	default:
		w.act()
	}
}

// act does one random thing.
func (w *pageWalk) act() {
	w.t.Helper()
	ctx, b := w.t.Context(), w.buyers[w.rand.IntN(len(w.buyers))]
	switch w.rand.IntN(15) {
	case 0, 1, 2:
		w.prepares(b)
	case 3, 4:
		w.pays(b)
	case 5:
		_, _ = w.replica(w.steps()).Confirm(ctx, payment.ConfirmRequest{
			OrderID: b.open.OrderID, UserID: b.name, PaymentKey: w.key(), Amount: amount, IdempotencyKey: newIdempotencyKey(),
		})
	case 6:
		if w.rand.IntN(3) == 0 && b.open.ID != uuid.Nil {
			_, _ = w.replica(w.steps()).Cancel(ctx, b.open.ID, b.name)
		}
	case 7:
		if b.open.ID != uuid.Nil {
			headers, body := paymenttest.Webhook(secret, "charge.captured", b.open.OrderID, w.clock.Now())
			_ = w.replica(w.steps()).Webhook(ctx, "sandbox", headers, body)
		}
	case 8, 9:
		w.fail()
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

// prepares opens a page for the buyer's hold, or for a new hold if that has ended.
func (w *pageWalk) prepares(b *buyer) {
	hold := w.bundle.tickets.Hold(b.ref)
	if b.ref == "" || hold.UserID == "" || w.clock.Now().After(hold.ExpiresAt) {
		b.ref = w.bundle.tickets.Add(b.name, amount, 5*time.Minute)
		b.refs = append(b.refs, b.ref)
	}
	p, page, err := w.replica(w.steps()).Prepare(w.t.Context(), payment.PrepareRequest{
		Reference: payment.Reference{Type: payment.Reservation, ID: uuid.MustParse(b.ref)}, UserID: b.name, IdempotencyKey: newIdempotencyKey(),
	})
	if err == nil && page.URL != "" {
		b.open, b.page = p, page
	}
}

func (w *pageWalk) key() string {
	prefixes := []string{"ok-", "ok-", "ok-", "decline-", "timeout-", "lost-", "late-"}
	return prefixes[w.rand.IntN(len(prefixes))] + uuid.NewString()
}

// pays pays on the latest page. Then the buyer comes back once, in two tabs, or not at all.
func (w *pageWalk) pays(b *buyer) {
	w.t.Helper()
	if b.page.URL == "" {
		return
	}
	address, err := url.Parse(w.provider.Session(b.open.OrderID).ReturnURL)
	require.NoError(w.t, err)
	params := map[string]string{"orderId": address.Query().Get("orderId"), "token": address.Query().Get("token")}
	if w.authorizer != nil && w.provider.Order(b.open.OrderID).Status != "VOIDED" {
		w.authorizer.authorize(b.open.OrderID)
	}
	for range w.rand.IntN(3) {
		if w.authorizer == nil {
			params["paymentKey"] = w.key()
		}
		_, _ = w.replica(w.steps()).Return(w.t.Context(), "sandbox", params, false)
	}
}

// fail makes the next calls of a kind fail, lose their answers, or take effect late.
func (w *pageWalk) fail() {
	call := []string{paymenttest.Charges, paymenttest.Lookups, paymenttest.Voids}[w.rand.IntN(3)]
	switch w.rand.IntN(6) {
	case 0:
		w.refuseNext = 1 + w.rand.IntN(3)
	case 1:
		w.provider.Fail(call, 1+w.rand.IntN(3))
	case 2:
		w.provider.Lose(call, 1)
	case 3:
		w.provider.Delay(paymenttest.Charges, 1)
	case 4:
		w.failTicket()
	default:
		w.provider.Arrive()
	}
}

// ticketCalls are the calls to the ticket service that can fail.
var ticketCalls = []string{"Begin", "BeginAnswer", "Abort", "Extend", "Payable"} //nolint:gochecknoglobals // a constant

// failTicket makes the next call of a kind to the ticket service fail.
func (w *pageWalk) failTicket() {
	if call := ticketCalls[w.rand.IntN(len(ticketCalls))]; call != "Extend" || !w.keepsClaims {
		w.bundle.tickets.Fail(call, errs.ErrUnavailable)
	}
}

// cutOffTicket stops events from reaching the ticket service for some minutes.
func (w *pageWalk) cutOffTicket() {
	w.ticketAwayUntil = w.clock.Now().Add(time.Duration(w.rand.IntN(10)) * time.Minute)
}

// mend ends the faults of the ticket service, and those of admits, but not the provider's.
func (w *pageWalk) mend() {
	w.refuseNext, w.ticketAwayUntil = 0, time.Time{}
	for _, call := range ticketCalls {
		w.bundle.tickets.Fail(call)
	}
}

func (w *pageWalk) pass(d time.Duration) { w.passWith(d, w.provider.Arrive) }

// passWith lets time pass, and then sweeps. Delayed calls take effect within the first 10 s.
func (w *pageWalk) passWith(d time.Duration, arrive func()) {
	w.advance(min(d, 10*time.Second))
	arrive()
	w.advance(max(0, d-10*time.Second))
	s := w.replica(w.steps())
	if !w.keepsClaims {
		s.ExtendDue(w.t.Context())
	}
	s.SweepOnce(w.t.Context())
}

// advance lets time pass. With keepsClaims, it prolongs claims meanwhile.
func (w *pageWalk) advance(d time.Duration) {
	const step = 20 * time.Second
	for ; w.keepsClaims && d > 0; d -= step {
		w.clock.Advance(min(d, step))
		w.service.ExtendDue(w.t.Context())
	}
	w.clock.Advance(max(d, 0))
}

// deliver applies the payments' events as the ticket service does: it gives tickets for a payment
// that has the claim of its hold, and rejects the others.
func (w *pageWalk) deliver() {
	w.t.Helper()
	if w.clock.Now().Before(w.ticketAwayUntil) {
		return
	}
	rows, err := w.pool.Query(w.t.Context(), `SELECT id, reference_id FROM payments WHERE captured > 0 ORDER BY id`)
	require.NoError(w.t, err)
	type confirmed struct{ id, ref uuid.UUID }
	var list []confirmed
	for rows.Next() {
		var c confirmed
		require.NoError(w.t, rows.Scan(&c.id, &c.ref))
		list = append(list, c)
	}
	require.NoError(w.t, rows.Err())
	for _, c := range list {
		ref := c.ref.String()
		if w.applied[c.id] {
			continue
		}
		w.applied[c.id] = true
		hold := w.bundle.tickets.Hold(ref)
		if hold.Payment == c.id.String() && !w.clock.Now().After(hold.ExpiresAt) {
			w.sold[ref] = c.id
			w.bundle.tickets.Settle(ref)
			continue
		}
		require.True(w.t, !w.keepsClaims || w.hasEnded(c.id) || !hold.ExpiresAt.Before(hold.Last), "payment %s was charged in time, and its places are lost", c.id)
		w.bundle.tickets.Reject(c.id.String())
		require.NoError(w.t, w.service.Compensate(w.t.Context(), payment.Rejection{EventKey: c.id.String(), PaymentID: c.id, Reason: "HOLD_EXPIRED"}))
	}
}

// hasEnded reports whether a payment was ever EXPIRED or DECLINED.
func (w *pageWalk) hasEnded(id uuid.UUID) (ended bool) {
	w.t.Helper()
	require.NoError(w.t, w.pool.QueryRow(w.t.Context(),
		`SELECT EXISTS (SELECT FROM payment_timeline WHERE payment_id = $1 AND status IN ('EXPIRED', 'DECLINED'))`, id).Scan(&ended))
	return ended
}
