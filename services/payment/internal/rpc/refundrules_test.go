package rpc_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/payment/internal/guard"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres"
	"urr.guru/services/payment/internal/rpc/paymenttest"
	"urr.guru/services/payment/internal/ticket"
	provider "urr.guru/services/payment/sandbox"
)

// keyLife is how long the sandbox keeps a key. callsEndAfter is the time after which a call can no
// longer take effect.
const (
	keyLife       = 20 * time.Hour
	callsEndAfter = time.Minute + 20*time.Second
)

// deliverPromise delivers the ticket service's event about a refund that it has decided.
func (b *bundle) deliverPromise(p *paymentv1.PrepareResponse, eventKey string, claim uuid.UUID, items []*ticketv1.RefundClaimItem) {
	b.t.Helper()
	r := payment.PromisedRefund{
		EventKey: eventKey, ClaimID: claim, PaymentID: uuid.MustParse(p.GetPaymentId()), Cause: payment.EventCancelled,
	}
	for _, item := range items {
		r.Items = append(r.Items, payment.RefundItem{TicketID: uuid.MustParse(item.GetTicketId()), Amount: item.GetAmount()})
	}
	require.NoError(b.t, b.service.RefundPromised(b.t.Context(), r))
}

// A refund that the ticket service has decided has the id of the claim. It is made once, even if
// its event comes several times.
func TestRefundOfCancelledEvent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.paid(30000, 25000)
	claim := uuid.New()
	items := b.tickets.Walk(p.GetPaymentId(), claim.String())
	for _, key := range []string{"e1", "e1", "e2"} {
		b.deliverPromise(p, key, claim, items)
	}
	done := b.untilRefund(p, "EVENT_CANCELLED", "DONE")
	require.Equal(t, claim.String(), done.id)
	require.Equal(t, "REFUNDED", b.get(p).GetStatus())
	events := b.events(p)
	require.Len(t, events, 2)
	require.Equal(t, claim.String(), events[1].GetRefundId())
	require.Len(t, events[1].GetItems(), 2)
	b.requireBalanced(p)
	err := b.service.RefundPromised(t.Context(), payment.PromisedRefund{EventKey: "e", PaymentID: uuid.New()})
	require.ErrorIs(t, err, payment.ErrNotFound)
}

// If the answer was lost and the key may be forgotten, the provider is asked. Nothing is sent
// again.
func TestForgottenKeyIsNotSentAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.paid(20000, 35000)
	b.provider.Lose(paymenttest.Refunds, 1)
	b.ask(p, payment.ByOperator, "k", 0)
	b.sweep(0)
	require.Equal(t, "PENDING", b.refund(p, "OPERATOR").status)
	b.sweep(25 * time.Hour)
	require.Equal(t, "DONE", b.refund(p, "OPERATOR").status)
	require.EqualValues(t, 20000, b.provider.Order(p.GetOrderId()).RefundedAmount)
	require.Equal(t, 1, b.provider.Calls(paymenttest.Refunds))
	b.requireBalanced(p)
}

// If the provider does not know a refund, and may have forgotten its key, the refund gets a new
// key, but not while an earlier call may still take effect.
func TestAbsentRefundWaitsForCallsInFlight(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.paid(20000, 35000)
	b.provider.Fail(paymenttest.Refunds, 1)
	b.ask(p, payment.ByOperator, "k", 0)
	b.sweep(0)
	b.provider.Delay(paymenttest.Refunds, 1)
	b.sweep(keyLife - callsEndAfter - time.Second)
	require.Equal(t, 2, b.provider.Calls(paymenttest.Refunds), "the key is still good")
	b.sweep(30 * time.Second)
	require.Equal(t, 2, b.provider.Calls(paymenttest.Refunds), "it is asked now")
	require.Equal(t, 1, b.provider.Calls(paymenttest.RefundLists))
	require.Equal(t, 1, b.refund(p, "OPERATOR").gen)
	b.provider.Arrive()
	b.untilRefund(p, "OPERATOR", "DONE")
	require.EqualValues(t, 20000, b.provider.Order(p.GetOrderId()).RefundedAmount)
	b.requireBalanced(p)
}

// A refund that never arrived is sent under a new key in the end.
func TestAbsentRefundGetsNewKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.paid(20000, 35000)
	b.provider.Fail(paymenttest.Refunds, 1)
	b.ask(p, payment.ByOperator, "k", 0)
	b.sweep(0)
	b.sweep(keyLife)
	done := b.untilRefund(p, "OPERATOR", "DONE")
	require.Equal(t, 2, done.gen)
	require.EqualValues(t, 20000, b.provider.Order(p.GetOrderId()).RefundedAmount)
}

// A refusal does not count while an earlier call may still take effect.
func TestRefusalWaitsForEarlierCalls(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.paid(20000, 35000)
	b.provider.Delay(paymenttest.Refunds, 1)
	b.ask(p, payment.ByUser, "k", 0)
	b.sweep(0)
	b.provider.SetFaults(provider.Faults{Refused: 1})
	for range 10 {
		b.sweep(time.Second)
	}
	require.Equal(t, 2, b.provider.Calls(paymenttest.Refunds))
	require.Equal(t, "PENDING", b.refund(p, "USER").status)
	b.provider.SetFaults(provider.Faults{})
	b.provider.Arrive()
	b.provider.SetFaults(provider.Faults{Refused: 1}) // refused again, but the look-up finds it
	b.untilRefund(p, "USER", "DONE")
	require.Equal(t, "REFUNDING", b.tickets.Of(p.GetPaymentId())[0].Status)
	b.requireBalanced(p)
}

// Money given back by hand counts for a refund that the provider finds too large. If that refund is
// REFUSED later, the money counts for no refund again.
func TestRefusedRefundReturnsMoneyByHand(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.paid(30000, 25000)
	b.provider.RefundManually(p.GetOrderId(), 28000)
	b.ask(p, payment.ByOperator, "k", 0)
	b.sweep(0)
	require.EqualValues(t, 27000, b.refund(p, "OPERATOR").send)
	require.EqualValues(t, 3000, b.count(`SELECT hand_used FROM payments`))
	held := b.untilRefund(p, "OPERATOR", "HELD") // nobody knows what the rest by hand was for
	_, err := b.service.RetryRefund(t.Context(), uuid.MustParse(held.id), nil)
	require.NoError(t, err)
	b.provider.SetFaults(provider.Faults{Refused: 1})
	b.untilRefund(p, "OPERATOR", "REFUSED")
	b.requireByHand(p, 0, 25000, 3000)
	for range 5 {
		b.sweep(time.Second)
	}
	b.requireBalanced(p)
}

// Until this service knows that a refund has failed, Refunded may be more than Captured.
func TestRefundedMayExceedCaptured(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.paid(30000, 25000)
	b.ask(p, payment.ByUser, "k1", 0)
	b.untilRefund(p, "USER", "DONE")
	b.ask(p, payment.ByOperator, "k2", 1)
	b.untilRefund(p, "OPERATOR", "DONE")
	b.provider.SettleRefund(b.provider.RefundsOf(p.GetOrderId())[0].RefundID, provider.RefundFailed)
	b.exec(`INSERT INTO refunds (id, payment_id, cause, request, reason, amount, send, status, provider, due_at, created_at)
		VALUES (gen_random_uuid(), $1, 'TRANSFER', 't1', '', 29000, 29000, 'PENDING', 'sandbox', $2, $2)`, uuid.MustParse(p.GetPaymentId()), b.clock.Now())
	b.untilRefund(p, "TRANSFER", "DONE")
	require.EqualValues(t, 83000, b.count(`SELECT refunded FROM payments`))
	require.NoError(t, b.webhook("refund.failed", p.GetOrderId()))
	b.sweep(0)
	require.Equal(t, "HELD", b.refund(p, "USER").status)
	require.EqualValues(t, 54000, b.count(`SELECT refunded FROM payments`))
}

// Two refunds by hand that add up to the whole charge end all tickets.
func TestPartsByHandMakeTheWhole(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.paid(30000, 25000)
	b.provider.RefundManually(p.GetOrderId(), 50000)
	b.provider.RefundManually(p.GetOrderId(), 5000)
	require.NoError(t, b.webhook("charge.refunded", p.GetOrderId()))
	for range 3 {
		b.sweep(time.Second)
	}
	require.EqualValues(t, 2, b.count(`SELECT count(*) FROM refunds WHERE cause = 'BY_HAND' AND status = 'DONE'`))
	require.Equal(t, amount, b.count(`SELECT hand_used FROM payments`))
	require.Equal(t, "REFUNDED", b.get(p).GetStatus())
	b.requireBalanced(p)
}

// suspendedProvider is the provider of a process that is suspended just before it sends a refund.
type suspendedProvider struct {
	payment.Provider

	reached, resume chan struct{}
}

func (s *suspendedProvider) Refund(ctx context.Context, c payment.RefundCall) (payment.RefundAnswer, error) {
	close(s.reached)
	<-s.resume
	return s.Provider.Refund(ctx, c)
}

// A process is suspended after it has recorded that it will send a refund, and before the call.
// Meanwhile another process sends the refund under a new key. The first then sends nothing.
func TestStoppedProcessSendsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.paid(20000, 35000)
	b.ask(p, payment.ByOperator, "k", 0)
	s := &suspendedProvider{Provider: b.sandbox, reached: make(chan struct{}), resume: make(chan struct{})}
	other := b.newServiceOn(s, payment.Options{})
	swept := make(chan struct{})
	go func() {
		other.SweepOnce(context.Background())
		close(swept)
	}()
	testkit.Receive(t, s.reached, "the call")
	b.sweep(keyLife)
	b.untilRefund(p, "OPERATOR", "DONE")
	close(s.resume)
	testkit.Receive(t, swept, "the end of the stopped sweep")
	require.EqualValues(t, 20000, b.provider.Order(p.GetOrderId()).RefundedAmount)
	require.Len(t, b.provider.RefundsOf(p.GetOrderId()), 1)
	b.requireBalanced(p)
}

// newServiceOn returns a replica that calls the given provider.
func (b *bundle) newServiceOn(provider payment.Provider, opts payment.Options) *payment.Service {
	b.t.Helper()
	conn := b.dialTickets()
	opts.Now = b.clock.Now
	return payment.New(postgres.NewStore(b.pool, postgres.Options{Now: b.clock.Now, PagesPerHour: 1000}), ticket.NewClient(conn),
		onlyProvider(guard.New(provider, unlimited)), slog.New(slog.NewTextHandler(b.t.Output(), nil)), opts)
}

// While refunds of a cancelled event wait for the provider's rate, a compensation is not delayed.
func TestCompensationPassesCancelledEvent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var cancelled []*paymentv1.PrepareResponse
	for i := range 40 {
		p, _ := b.paid(amount)
		b.promise(p, fmt.Sprint("cancelled ", i))
		cancelled = append(cancelled, p)
	}
	rate := make(chan struct{})
	s := b.newServiceOn(b.sandbox, payment.Options{AwaitRefund: func(ctx context.Context, _ string) (context.Context, error) {
		if payment.UrgencyOf(ctx) != payment.ForBulkRefund {
			return ctx, nil
		}
		select {
		case <-rate:
			return ctx, nil
		case <-ctx.Done():
			return ctx, ctx.Err()
		}
	}})
	ctx, cancel := context.WithCancel(t.Context())
	swept := make(chan error, 1)
	go func() { swept <- s.Sweep(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-swept)
	})
	late, _ := b.confirmed()
	b.reject(late, "rejected")
	testkit.Until(t, func() bool { return b.get(late).GetStatus() == "REFUNDED" }, "the compensation")
	require.EqualValues(t, 40, b.count(`SELECT count(*) FROM refunds WHERE status = 'PENDING'`))
	close(rate)
	testkit.Until(t, func() bool { return b.count(`SELECT count(*) FROM refunds WHERE status = 'PENDING'`) == 0 }, "the other refunds")
	for _, p := range cancelled {
		b.requireBalanced(p)
	}
}
