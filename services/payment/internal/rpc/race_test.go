package rpc_test

import (
	"cmp"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/testkit"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres"
	"urr.guru/services/payment/internal/rpc/paymenttest"
	"urr.guru/services/payment/internal/ticket"
)

// racingStore is a store that calls before, once, right before the next change of a payment.
type racingStore struct {
	payment.Stores

	before func()
}

func (r *racingStore) Apply(ctx context.Context, id uuid.UUID, decide payment.Decide) (payment.Payment, error) {
	if before := r.before; before != nil {
		r.before = nil
		before()
	}
	return r.Stores.Apply(ctx, id, decide)
}

// hookedProvider is a provider with hooks. beforeCharge runs before a charge, which is not sent if
// it returns an error. afterAsk runs once, after a look-up.
type hookedProvider struct {
	payment.Provider

	beforeCharge func() error
	afterAsk     func()
}

func (g *hookedProvider) Charge(ctx context.Context, p payment.Payment, seen payment.Outcome) (payment.Outcome, error) {
	if g.beforeCharge != nil {
		if err := g.beforeCharge(); err != nil {
			return payment.Outcome{}, err
		}
	}
	return g.Provider.Charge(ctx, p, seen)
}

func (g *hookedProvider) Ask(ctx context.Context, p payment.Payment) (payment.Outcome, error) {
	out, err := g.Provider.Ask(ctx, p)
	if afterAsk := g.afterAsk; afterAsk != nil {
		g.afterAsk = nil
		afterAsk()
	}
	return out, err
}

// Capabilities sets a short ChargeTime, so that the sweeper may take over a charge during a hold.
func (g *hookedProvider) Capabilities() payment.Capabilities {
	caps := g.Provider.Capabilities()
	caps.ChargeTime = 8 * time.Second
	return caps
}

// withHooks is an option of setup: it puts g in front of the provider.
func withHooks(g *hookedProvider) func(*bundle) {
	return func(b *bundle) {
		wrap := b.wrap
		b.wrap = func(p payment.Provider) payment.Provider {
			if wrap != nil {
				p = wrap(p)
			}
			g.Provider = p
			return g
		}
	}
}

func (b *bundle) store() *postgres.Store {
	return postgres.NewStore(b.pool, postgres.Options{Now: b.clock.Now, PagesPerHour: cmp.Or(b.pagesPerHour, 1000)})
}

// process returns another replica, with these dependencies.
func (b *bundle) process(store payment.Stores, tickets payment.Tickets, provider payment.Provider) *payment.Service {
	return payment.New(store, tickets, onlyProvider(provider), slog.New(slog.DiscardHandler), payment.Options{Now: b.clock.Now})
}

func (b *bundle) inStatus(paymentID, status string) bool {
	b.t.Helper()
	return b.count(`SELECT count(*) FROM payments WHERE id = $1 AND status = $2`, paymentID, status) == 1
}

// A sweeper does not charge a payment that a request is charging. If its charge then failed, it
// would set the payment back to OPEN during the other charge, and nothing would keep the claim.
func TestTakenPaymentIsNotChargedTwice(t *testing.T) {
	t.Parallel()
	b := setup(t, withPage)
	p, _ := b.prepared()
	_, err := b.comeBack(b.returnParams(p, "ok-1"))
	require.NoError(t, err)
	release := b.provider.Block(paymenttest.Charges)
	charging := make(chan error, 1)
	store := &racingStore{Stores: b.store(), before: func() {
		go func() {
			_, err := b.confirm(p, "ok-1", newIdempotencyKey())
			charging <- err
		}()
		b.untilCharging(1)
	}}
	tries := 0
	other := &hookedProvider{Provider: b.sandbox, beforeCharge: func() error { tries++; return payment.ErrNotAdmitted }}
	b.process(store, ticket.NewClient(b.dialTickets()), other).SweepOnce(t.Context())
	require.Zero(t, tries)
	require.True(t, b.inStatus(p.GetPaymentId(), "CONFIRMING"))
	_, err = b.cancel(p, user)
	require.ErrorIs(t, err, errs.ErrPaymentInProgress)
	release()
	require.NoError(t, testkit.Receive(t, charging, "the answer"))
	require.Equal(t, "CONFIRMED", b.get(p).GetStatus())
}

// A process was suspended and did not send its charge. It neither declines nor releases the payment
// if another process has charged it since.
func TestUnsentChargeOfAStoppedProcess(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{"not sent": payment.ErrNotSent, "not admitted": payment.ErrNotAdmitted} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, withHooks(&hookedProvider{}))
			p, ref := b.prepared()
			release := b.provider.Block(paymenttest.Charges)
			swept := make(chan struct{})
			suspended := &hookedProvider{Provider: b.sandbox, beforeCharge: func() error {
				b.clock.Advance(20 * time.Second)
				go func() { defer close(swept); b.service.SweepOnce(context.WithoutCancel(t.Context())) }()
				b.untilCharging(1)
				return cause
			}}
			got, err := b.process(b.store(), ticket.NewClient(b.dialTickets()), suspended).Confirm(t.Context(), payment.ConfirmRequest{
				OrderID: p.GetOrderId(), UserID: user, PaymentKey: "ok-1", Amount: amount, IdempotencyKey: newIdempotencyKey(),
			})
			require.NoError(t, err)
			require.Equal(t, payment.Unknown, got.Status)
			require.Equal(t, p.GetPaymentId(), b.tickets.Hold(ref).Payment)
			require.Zero(t, b.tickets.Hold(ref).Aborts)
			release()
			testkit.Receive(t, swept, "the end of the sweep")
			require.Equal(t, "CONFIRMED", b.get(p).GetStatus())
		})
	}
}

// If the provider cannot be reached after the buyer has paid on the page, it is charged later.
func TestUnreachableProviderAfterThePage(t *testing.T) {
	t.Parallel()
	failures := 3
	b := setup(t, withPage, withHooks(&hookedProvider{beforeCharge: func() error {
		if failures--; failures >= 0 {
			return payment.ErrNotSent
		}
		return nil
	}}))
	p, ref := b.prepared()
	_, err := b.comeBack(b.returnParams(p, "ok-1"))
	require.NoError(t, err)
	b.becomes(p, "CONFIRMED")
	require.Zero(t, b.tickets.Hold(ref).Aborts)
}

// While no charges are sent, the waits between attempts grow, and no attempt is counted.
func TestUnsentChargesBackOff(t *testing.T) {
	t.Parallel()
	tries, sends := 0, false
	b := setup(t, withPage, withHooks(&hookedProvider{beforeCharge: func() error {
		tries++
		if sends {
			return nil
		}
		return payment.ErrNotAdmitted
	}}))
	p, _ := b.prepared()
	require.Nil(t, b.choose(p, "stay"))
	require.NoError(t, b.webhook("session.completed", p.GetOrderId()))
	for range 5 {
		b.sweep(0)
	}
	require.Equal(t, 1, tries, "the hint does not make it due at once")
	for range 120 {
		b.sweep(time.Second)
	}
	require.Less(t, tries, 12)
	require.EqualValues(t, 1, b.count(`SELECT count(*) FROM payments WHERE id = $1 AND attempt = 0 AND charged_at IS NULL`, p.GetPaymentId()))
	sends = true
	b.becomes(p, "CONFIRMED")
	require.EqualValues(t, 1, b.count(`SELECT count(*) FROM payments WHERE id = $1 AND attempt = 1 AND NOT hinted`, p.GetPaymentId()))
	b.sweep(time.Minute)
	require.Zero(t, b.provider.Calls(paymenttest.RefundLists), "the hint was about the page")
}

// A key from a confirmation before the page was opened is dropped: the page's key is charged.
func TestKeyFromBeforeThePage(t *testing.T) {
	t.Parallel()
	b := setup(t, withPage)
	ref, key := b.tickets.Add(user, amount, holdTime), newIdempotencyKey()
	b.tickets.Fail("Begin", errs.ErrUnavailable, errs.ErrUnavailable)
	p, err := b.prepare(ref, key)
	require.NoError(t, err)
	_, err = b.confirm(p, "ok-early", newIdempotencyKey())
	require.ErrorIs(t, err, errs.ErrUnavailable)
	p, err = b.prepare(ref, key)
	require.NoError(t, err)
	require.Equal(t, "OPEN", p.GetStatus())
	b.sweep(time.Second)
	require.Equal(t, "OPEN", b.get(p).GetStatus())
	_, err = b.comeBack(b.returnParams(p, "ok-page"))
	require.NoError(t, err)
	b.becomes(p, "CONFIRMED")
	require.Equal(t, "ok-page", b.provider.Order(p.GetOrderId()).PaymentKey)
}

// However many webhooks come, they cause at most one look-up of an order in 5 s.
func TestManyHints(t *testing.T) {
	t.Parallel()
	b := setup(t, withAuthorizer(newAuthorizer()))
	p, _ := b.prepared()
	for range 10 {
		require.NoError(t, b.webhook("charge.captured", p.GetOrderId()))
		b.sweep(0)
	}
	require.Equal(t, 1, b.provider.Calls(paymenttest.Lookups))
	b.sweep(5 * time.Second)
	require.Equal(t, 2, b.provider.Calls(paymenttest.Lookups), "for those that came since")
	b.sweep(5 * time.Second)
	require.Equal(t, 2, b.provider.Calls(paymenttest.Lookups))

	lease := func() int64 { return b.count(`SELECT lease FROM payments WHERE id = $1`, p.GetPaymentId()) }
	require.NoError(t, b.webhook("charge.captured", p.GetOrderId()))
	first := lease()
	require.NoError(t, b.webhook("charge.captured", p.GetOrderId()))
	require.Equal(t, first, lease(), "the look-up is still to come")
}

// A webhook about a payment that is about to be charged stores no hint.
func TestHintAfterTheKey(t *testing.T) {
	t.Parallel()
	b := setup(t, withPage)
	p, _ := b.prepared()
	_, err := b.comeBack(b.returnParams(p, "ok-1"))
	require.NoError(t, err)
	require.NoError(t, b.webhook("session.completed", p.GetOrderId()))
	require.Zero(t, b.count(`SELECT count(*) FROM payments WHERE id = $1 AND hinted`, p.GetPaymentId()))
	b.sweep(0)
	require.Equal(t, "CONFIRMED", b.get(p).GetStatus())
}

// If a webhook comes during a look-up, the provider is asked once more.
func TestHintDuringALookup(t *testing.T) {
	t.Parallel()
	d, g := newAuthorizer(), &hookedProvider{}
	b := setup(t, withAuthorizer(d), withHooks(g))
	p, _ := b.prepared()
	g.afterAsk = func() {
		d.authorize(p.GetOrderId())
		_ = b.webhook("charge.captured", p.GetOrderId())
	}
	require.NoError(t, b.webhook("charge.captured", p.GetOrderId()))
	b.sweep(0)
	require.True(t, b.inStatus(p.GetPaymentId(), "OPEN"))
	b.sweep(5 * time.Second)
	require.Equal(t, "CONFIRMED", b.get(p).GetStatus())
}

// lateClaims is a ticket service where a claim takes effect only after endFirst has ended its
// payment. The answer is lost.
type lateClaims struct {
	payment.Tickets

	endFirst func(payment.Payment)
}

func (l lateClaims) Begin(ctx context.Context, p payment.Payment, t payment.PayTime) (time.Time, error) {
	l.endFirst(p)
	_, _ = l.Tickets.Begin(ctx, p, t)
	return time.Time{}, errs.ErrUnavailable
}

// A claim that takes effect after its payment's end is released by the process that made it.
func TestClaimAfterTheEnd(t *testing.T) {
	t.Parallel()
	b := setup(t, withPage)
	ref := b.tickets.Add(user, amount, holdTime)
	tickets := lateClaims{ticket.NewClient(b.dialTickets()), func(p payment.Payment) {
		_, err := b.service.Cancel(context.WithoutCancel(t.Context()), p.ID, user)
		require.NoError(t, err)
	}}
	p, page, err := b.process(b.store(), tickets, b.sandbox).Prepare(t.Context(), payment.PrepareRequest{
		Reference: payment.Reference{Type: payment.Reservation, ID: uuid.MustParse(ref)}, UserID: user, IdempotencyKey: newIdempotencyKey(),
	})
	require.NoError(t, err)
	require.Empty(t, page.URL)
	require.Equal(t, p.ID.String(), b.tickets.Hold(ref).Payment)
	b.sweep(5 * time.Second)
	require.Empty(t, b.tickets.Hold(ref).Payment)
}

// If the process that made a late claim has died, the next payment releases the claim.
func TestForgottenClaim(t *testing.T) {
	t.Parallel()
	b := setup(t, withPage)
	p, ref := b.prepared()
	_, err := b.cancel(p, user)
	require.NoError(t, err)
	b.sweep(time.Second)
	_, err = b.tickets.BeginPayment(t.Context(), &ticketv1.BeginPaymentRequest{ReferenceId: ref, PaymentId: p.GetPaymentId(), Opens: true})
	require.NoError(t, err)
	next, err := b.prepare(ref, newIdempotencyKey())
	require.NoError(t, err)
	require.Equal(t, "OPEN", next.GetStatus())
	require.Equal(t, next.GetPaymentId(), b.tickets.Hold(ref).Payment)
}

// If the provider answers a charge slowly, charges of other pages do not wait for it.
func TestPagesAreChargedAtOnce(t *testing.T) {
	t.Parallel()
	const buyers = chargesAtOnce + 4
	b := setup(t, withPage)
	release := b.provider.Block(paymenttest.Charges)
	for range buyers {
		p, _ := b.prepared()
		_, err := b.comeBack(b.returnParams(p, "ok-"+uuid.NewString()))
		require.NoError(t, err)
	}
	s := payment.New(b.store(), ticket.NewClient(b.dialTickets()), onlyProvider(b.sandbox), slog.New(slog.DiscardHandler),
		payment.Options{Now: b.clock.Now, PagesAtOnce: buyers})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Sweep(ctx) }()
	b.untilCharging(buyers)
	release()
	testkit.Until(t, func() bool { return b.count(`SELECT count(*) FROM payments WHERE status = 'CONFIRMED'`) == buyers }, "all are charged")
	cancel()
	require.NoError(t, testkit.Receive(t, ended, "the sweeper's end"))
}
