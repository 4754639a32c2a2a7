package rpc_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/testkit"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/rpc/paymenttest"
)

func (b *bundle) pending(paymentKey string) (*paymentv1.PrepareResponse, string) {
	b.t.Helper()
	p, ref := b.prepared()
	got, err := b.confirm(p, paymentKey, newIdempotencyKey())
	require.NoError(b.t, err)
	require.Equal(b.t, "PENDING", got.GetStatus())
	return p, ref
}

func TestLostAnswerOfCharge(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.pending("timeout-1")
	b.becomes(p, "CONFIRMED")
	require.Equal(t, []string{"PAYMENT_CONFIRMED"}, b.eventTypes(p))
	require.Equal(t, 1, b.provider.Calls(paymenttest.Charges))
}

func TestLostCharge(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, ref := b.pending("lost-1")
	got := b.becomes(p, "DECLINED")
	require.Equal(t, "NOT_CHARGED", got.GetDeclineCode())
	require.EqualValues(t, "VOIDED", b.provider.Order(p.GetOrderId()).Status, "not found is final only when it cannot be charged any more")
	require.Equal(t, 1, b.tickets.Hold(ref).Aborts)
	require.Equal(t, []string{"PAYMENT_DECLINED"}, b.eventTypes(p))
}

// A charge that arrives at the provider within voidAfter is accepted.
func TestUnknownChargeIsNotVoidedEarly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.pending("lost-1")
	b.sweep(voidAfter - time.Microsecond)
	require.Equal(t, 1, b.provider.Calls(paymenttest.Lookups))
	require.Equal(t, "PENDING", b.get(p).GetStatus())
	require.Zero(t, b.provider.Calls(paymenttest.Voids))
	b.provider.Capture(p.GetOrderId(), amount)
	b.becomes(p, "CONFIRMED")
}

// If the provider cannot void, an order that it does not know for 15 min counts as not charged.
func TestNotFoundIsFinalAfterFifteenMinutes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.provider.Fail(paymenttest.Voids, 1000)
	p, _ := b.pending("lost-1")
	b.sweep(15*time.Minute - time.Microsecond)
	require.Equal(t, 1, b.provider.Calls(paymenttest.Voids))
	require.Equal(t, "PENDING", b.get(p).GetStatus())
	b.sweep(2 * time.Second)
	require.Equal(t, "DECLINED", b.get(p).GetStatus())
}

func TestPendingCharge(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]string{"CAPTURED": "CONFIRMED", "DECLINED": "DECLINED"} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p, _ := b.pending("late-1")
			b.provider.Settle(p.GetOrderId(), status)
			require.NoError(t, b.webhook("charge.captured", p.GetOrderId()))
			b.sweep(0)
			require.Equal(t, want, b.get(p).GetStatus(), "the provider's answer counts, not the webhook's word")
			require.NoError(t, b.webhook("charge.captured", p.GetOrderId()), "again")
			b.sweep(0)
			require.Equal(t, want, b.get(p).GetStatus())
			require.LessOrEqual(t, len(b.eventTypes(p)), 1)
		})
	}
}

// A charge found after DECLINED counts: the ticket service honours it or has it refunded.
func TestLateChargeOfADeclinedPayment(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.provider.Fail(paymenttest.Voids, 1)
	p, _ := b.pending("lost-1")
	b.sweep(15 * time.Minute)
	require.Equal(t, "DECLINED", b.get(p).GetStatus(), "the provider would not void, and had not heard of it")
	b.provider.Capture(p.GetOrderId(), amount)
	b.provider.Fail(paymenttest.Lookups, 1) // the provider is asked again
	require.NoError(t, b.webhook("charge.captured", p.GetOrderId()))
	b.becomes(p, "CONFIRMED")
	require.Equal(t, []string{"PAYMENT_DECLINED", "PAYMENT_CONFIRMED"}, b.eventTypes(p))
}

func TestWebhookOfAnExpiredPayment(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.prepared()
	b.exec(`UPDATE payments SET status = 'EXPIRED', check_at = NULL WHERE id = $1`, uuid.MustParse(p.GetPaymentId()))
	require.NoError(t, b.webhook("charge.captured", p.GetOrderId()))
	b.sweep(0)
	require.Equal(t, 1, b.provider.Calls(paymenttest.Lookups))
	require.Equal(t, "EXPIRED", b.get(p).GetStatus(), "the provider knows of no charge")
	b.sweep(time.Hour)
	require.Equal(t, 1, b.provider.Calls(paymenttest.Lookups), "it is asked once")
}

func TestWebhookSignatures(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.prepared()
	headers, body := paymenttest.Webhook(secret, "charge.captured", p.GetOrderId(), b.clock.Now())
	call := func(provider string, headers map[string]string, body []byte) error {
		_, err := b.client.HandleWebhook(t.Context(), &paymentv1.HandleWebhookRequest{Provider: provider, Headers: headers, Body: body})
		return err
	}
	require.NoError(t, call("sandbox", headers, body))
	require.ErrorIs(t, call("stripe", headers, body), errs.ErrProviderUnknown)
	require.ErrorIs(t, call("sandbox", headers, append(body, ' ')), errs.ErrWebhookSignature)
	require.ErrorIs(t, call("sandbox", nil, body), errs.ErrWebhookSignature)
	for _, signature := range []string{"t=x,v1=00", "v1=00", "t=1", "t=1,v1=zz"} {
		require.ErrorIs(t, call("sandbox", map[string]string{"x-sandbox-signature": signature}, body), errs.ErrWebhookSignature, signature)
	}
	old, oldBody := paymenttest.Webhook(secret, "charge.captured", p.GetOrderId(), b.clock.Now().Add(-6*time.Minute))
	require.ErrorIs(t, call("sandbox", old, oldBody), errs.ErrWebhookSignature, "recorded and sent again much later")
	other, otherBody := paymenttest.Webhook("another-secret-of-thirty-two-bytes", "charge.captured", p.GetOrderId(), b.clock.Now())
	require.ErrorIs(t, call("sandbox", other, otherBody), errs.ErrWebhookSignature)
	b.sandbox.Rekey("another-secret-of-thirty-two-bytes," + secret)
	require.NoError(t, call("sandbox", other, otherBody), "one of a set")
	require.NoError(t, call("sandbox", headers, body))
	b.sandbox.Rekey("another-secret-of-thirty-two-bytes")
	require.ErrorIs(t, call("sandbox", headers, body), errs.ErrWebhookSignature)
	b.sandbox.Rekey(secret)
	unknown, unknownBody := paymenttest.Webhook(secret, "charge.captured", "no-such-order", b.clock.Now())
	require.NoError(t, call("sandbox", unknown, unknownBody), "of another shop: a provider turns off webhooks that are refused")
	require.Equal(t, int64(1), b.unknownOrders.Load())
}

// A provider that does not answer look-ups may send only one webhook about a late charge. So the
// webhook is stored and answered without a call to the provider.
func TestWebhookOfASilentProvider(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.provider.Fail(paymenttest.Voids, 1)
	p, _ := b.pending("lost-1")
	b.sweep(15 * time.Minute)
	require.Equal(t, "DECLINED", b.get(p).GetStatus())
	b.provider.Capture(p.GetOrderId(), amount)
	answer := b.provider.Block(paymenttest.Lookups)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // the timeout of the gateway's route
	defer cancel()
	headers, body := paymenttest.Webhook(secret, "charge.captured", p.GetOrderId(), b.clock.Now())
	_, err := b.client.HandleWebhook(ctx, &paymentv1.HandleWebhookRequest{Provider: "sandbox", Headers: headers, Body: body})
	require.NoError(t, err)
	answer()
	b.becomes(p, "CONFIRMED")
	require.Equal(t, []string{"PAYMENT_DECLINED", "PAYMENT_CONFIRMED"}, b.eventTypes(p))
}

// If a webhook comes before the request of its charge ends, the provider is asked at once. The
// charge is never voided while that request may be running.
func TestWebhookDuringTheCharge(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.prepared()
	release := b.provider.Block(paymenttest.Charges)
	charging := make(chan error, 1)
	go func() {
		_, err := b.confirm(p, "ok-1", newIdempotencyKey())
		charging <- err
	}()
	b.untilCharging(1)
	require.NoError(t, b.webhook("charge.captured", p.GetOrderId()))
	b.sweep(voidAfter)
	require.Equal(t, 1, b.provider.Calls(paymenttest.Lookups))
	require.Zero(t, b.provider.Calls(paymenttest.Voids))
	release()
	require.NoError(t, testkit.Receive(t, charging, "the answer"))
	require.Equal(t, "CONFIRMED", b.get(p).GetStatus())
	b.sweep(0)
	lookups := b.provider.Calls(paymenttest.Lookups)
	b.sweep(time.Hour)
	require.Equal(t, lookups, b.provider.Calls(paymenttest.Lookups), "the hint was followed up")
	require.Equal(t, []string{"PAYMENT_CONFIRMED"}, b.eventTypes(p))
}

// If the provider cannot be asked after a webhook about a PREPARED payment, it is asked later, even
// after the payment has expired.
func TestWebhookOfAPreparedPayment(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.prepared()
	b.provider.Capture(p.GetOrderId(), amount)
	b.provider.Fail(paymenttest.Lookups, 1)
	require.NoError(t, b.webhook("charge.captured", p.GetOrderId()))
	b.sweep(0)
	b.sweep(holdTime)
	require.Equal(t, "EXPIRED", b.get(p).GetStatus())
	b.becomes(p, "CONFIRMED")
}

func (b *bundle) reject(p *paymentv1.PrepareResponse, eventKey string) {
	b.t.Helper()
	b.tickets.Reject(p.GetPaymentId())
	require.NoError(b.t, b.service.Compensate(b.t.Context(), payment.Rejection{
		EventKey: eventKey, PaymentID: uuid.MustParse(p.GetPaymentId()), Reason: "HOLD_EXPIRED",
	}))
}

func TestCompensation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, ref := b.confirmed()
	b.provider.Fail(paymenttest.Refunds, 2)
	b.reject(p, "e1")
	b.reject(p, "e1") // the same Kafka event again
	b.reject(p, "e2") // a second rejection
	got := b.becomes(p, "REFUNDED")
	require.Equal(t, amount, got.GetRefundedAmount())
	require.Equal(t, amount, b.provider.Order(p.GetOrderId()).RefundedAmount)
	require.Equal(t, 3, b.provider.Calls(paymenttest.Refunds), "two that failed and one")

	events := b.events(p)
	require.Len(t, events, 2)
	refund := events[1]
	require.Equal(t, "PAYMENT_REFUNDED", refund.GetType())
	require.Equal(t, "COMPENSATION", refund.GetCause())
	require.Equal(t, amount, refund.GetAmount())
	require.Equal(t, ref, refund.GetReferenceId())
	require.NotEmpty(t, refund.GetRefundId())
	require.Greater(t, refund.GetVersion(), events[0].GetVersion())
}

// Several replicas share the refunds; each refund is made once and published once.
func TestConcurrentSweepers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	replicas := []*payment.Service{b.service}
	for range 3 {
		replicas = append(replicas, b.newService(voidAfter))
	}
	var paid []*paymentv1.PrepareResponse
	for range 12 {
		p, _ := b.confirmed()
		paid = append(paid, p)
	}
	for _, p := range paid {
		b.reject(p, newIdempotencyKey())
	}
	var sweeps sync.WaitGroup
	for _, s := range replicas {
		sweeps.Go(func() { s.SweepOnce(t.Context()) })
	}
	sweeps.Wait()
	require.Equal(t, len(paid), b.provider.Calls(paymenttest.Refunds))
	for _, p := range paid {
		require.Equal(t, "REFUNDED", b.get(p).GetStatus())
		require.Equal(t, amount, b.provider.Order(p.GetOrderId()).RefundedAmount)
		require.Equal(t, []string{"PAYMENT_CONFIRMED", "PAYMENT_REFUNDED"}, b.eventTypes(p))
	}
}

func TestFreePaymentIsRefundedWithoutTheProvider(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, err := b.prepare(b.tickets.Add(user, 0, holdTime), newIdempotencyKey())
	require.NoError(t, err)
	_, err = b.confirm(p, "free", newIdempotencyKey())
	require.NoError(t, err)
	b.reject(p, "e1")
	b.becomes(p, "REFUNDED")
	require.Zero(t, b.provider.Calls(paymenttest.Refunds))
}

func TestRejectionOfAnUnknownPayment(t *testing.T) {
	t.Parallel()
	b := setup(t)
	err := b.service.Compensate(t.Context(), payment.Rejection{EventKey: "e", PaymentID: uuid.New()})
	require.ErrorIs(t, err, errs.ErrPaymentNotFound)
}

// If a webhook arrives before the reference is released, the provider is asked after the release.
func TestLateChargeDuringRelease(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.tickets.Fail("Abort", errs.ErrUnavailable, errs.ErrUnavailable, errs.ErrUnavailable)
	p, _ := b.prepared()
	got, err := b.confirm(p, "decline-1", newIdempotencyKey())
	require.NoError(t, err)
	require.Equal(t, "DECLINED", got.GetStatus())
	b.provider.Capture(p.GetOrderId(), amount)
	b.provider.Fail(paymenttest.Lookups, 1)
	require.NoError(t, b.webhook("charge.captured", p.GetOrderId()))
	b.becomes(p, "CONFIRMED")
	require.Equal(t, []string{"PAYMENT_DECLINED", "PAYMENT_CONFIRMED"}, b.eventTypes(p))
}

// A payer whose card was declined can pay again only after the release. If that fails, it is
// retried within seconds, not only when the sweeper's lease ends.
func TestFailedReleaseIsRetriedSoon(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.tickets.Fail("Abort", errs.ErrUnavailable, errs.ErrUnavailable, errs.ErrUnavailable)
	p, ref := b.prepared()
	_, err := b.confirm(p, "decline-1", newIdempotencyKey())
	require.NoError(t, err)
	for range 15 {
		b.sweep(time.Second)
	}
	require.Equal(t, 1, b.tickets.Hold(ref).Aborts)
}
