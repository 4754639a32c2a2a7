package stripe_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/services/payment/fakes"
	fake "urr.guru/services/payment/fakes/stripe"
	"urr.guru/services/payment/internal/outbound"
	"urr.guru/services/payment/internal/payment"
)

func (b *shop) until(call string, n int) {
	b.t.Helper()
	testkit.Until(b.t, func() bool { return b.fake.Calls.Count(call) == n }, "%d calls of %s", n, call)
}

// Refunds of this service are found by its id; refunds by hand have none. Failed ones do not count.
func TestRefunds(t *testing.T) {
	t.Parallel()
	b := newShop(t)
	p := b.captured()
	r := refundCall(p, b, "1", 20000)
	answer, err := b.Refund(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, payment.ProviderDone, answer.State)
	again, err := b.Refund(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, answer, again, "once per key")
	require.NoError(t, b.fake.RefundByHand(p.OrderID, 5000))
	report, err := b.AskRefunds(t.Context(), p)
	require.NoError(t, err)
	require.Equal(t, amount, report.Captured)
	require.Equal(t, amount-25000, report.RefundableAmount())
	require.Len(t, report.Refunds, 2)
	require.ElementsMatch(t, []uuid.UUID{r.RefundID, uuid.Nil}, []uuid.UUID{report.Refunds[0].RefundID, report.Refunds[1].RefundID})

	require.NoError(t, b.fake.SettleRefund(answer.ID, "failed"))
	report, err = b.AskRefunds(t.Context(), p)
	require.NoError(t, err)
	require.Equal(t, amount-5000, report.RefundableAmount())

	b.fake.SetRules(fake.Rules{PendingRefunds: true})
	answer, err = b.Refund(t.Context(), refundCall(p, b, "2", 1000))
	require.NoError(t, err)
	require.Equal(t, payment.ProviderAccepted, answer.State)
}

func TestManyRefundsAreListed(t *testing.T) {
	t.Parallel()
	b := newShop(t)
	p := b.captured()
	for range 101 {
		require.NoError(t, b.fake.RefundByHand(p.OrderID, 1))
	}
	report, err := b.AskRefunds(t.Context(), p)
	require.NoError(t, err)
	require.Len(t, report.Refunds, 101)
	require.Equal(t, 2, b.fake.Calls.Count(fake.ListRefunds))
}

// The HTTP status of a refusal does not count, and the fake's refusals are as these.
func TestRefusals(t *testing.T) {
	t.Parallel()
	b := newShop(t)
	p := b.captured()
	for text, want := range map[string]payment.RefundAnswer{
		`"code": "charge_already_refunded"`: {State: payment.ProviderTooMuch, Code: "charge_already_refunded"},
		`"param": "amount"`:                 {State: payment.ProviderTooMuch, Code: "amount"},
		`"code": "charge_disputed"`:         {State: payment.ProviderRefused, Code: "charge_disputed"},
		`"code": "refund_disputed_payment"`: {State: payment.ProviderRefused, Code: "refund_disputed_payment"},
		`"code": "charge_not_refundable"`:   {State: payment.ProviderRefused, Code: "charge_not_refundable"},
	} {
		for _, status := range []int{400, 500} { // the status does not count
			body := fmt.Sprintf(`{"error": {"type": "invalid_request_error", "message": "m", %s}}`, text)
			got, err := b.answering(status, body).Refund(t.Context(), refundCall(p, b, "1", 1))
			require.NoError(t, err, text)
			require.Equal(t, want, got)
		}
	}
	_, err := b.Refund(t.Context(), refundCall(p, b, "1", amount+1))
	require.NoError(t, err)
	require.NoError(t, b.fake.Dispute(p.OrderID, ""))
	got, err := b.Refund(t.Context(), refundCall(p, b, "2", 1))
	require.NoError(t, err)
	require.Equal(t, payment.ProviderRefused, got.State)
}

// A process that was suspended until after NotAfter sends no refund.
func TestRefundIsNotSentLate(t *testing.T) {
	t.Parallel()
	b := newShop(t)
	p := b.captured()
	r := refundCall(p, b, "1", 1000)
	b.clock.Advance(time.Minute + 1)
	_, err := b.Refund(t.Context(), r)
	require.ErrorIs(t, err, outbound.ErrTooLate)
	require.NotErrorIs(t, err, payment.ErrKeySpent)
	require.Empty(t, b.fake.Order(p.OrderID).Refunds)
}

// A refund that an earlier call made, and that has failed since, is refused, not done.
func TestRefundOfBeforeHasFailed(t *testing.T) {
	t.Parallel()
	b := newShop(t)
	p := b.captured()
	got, err := b.answering(http.StatusOK, `{"id": "re_1", "status": "failed", "failure_reason": "expired_or_canceled_card"}`).
		Refund(t.Context(), refundCall(p, b, "1", 1000))
	require.NoError(t, err)
	require.Equal(t, payment.RefundAnswer{State: payment.ProviderRefused, ID: "re_1", Code: "expired_or_canceled_card"}, got)
}

// Two concurrent calls with the same key make one refund.
func TestRefundTwiceAtOnce(t *testing.T) {
	t.Parallel()
	b := newShop(t)
	p := b.captured()
	r := refundCall(p, b, "1", 1000)
	b.fake.Calls.Inject(fake.CreateRefund, fakes.Lost, fakes.Late)
	for range 2 {
		_, err := b.Refund(t.Context(), r)
		require.Error(t, err)
	}
	b.fake.Calls.Arrive()
	_, err := b.Refund(t.Context(), r)
	require.NoError(t, err)
	require.Len(t, b.fake.Order(p.OrderID).Refunds, 1)
}

// While a dispute is open, no refund is made. Money that a lost dispute took counts as refunded by
// hand. An unknown status counts as open.
func TestDisputes(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]struct {
		disputed bool
		left     int64
	}{
		"": {true, amount}, "under_review": {true, amount}, "a_new_status": {true, amount}, "won": {false, amount}, "prevented": {false, amount},
		"warning_needs_response": {false, amount}, "warning_under_review": {false, amount}, "warning_closed": {false, amount}, "lost": {false, 0},
	} {
		b := newShop(t)
		p := b.captured()
		require.NoError(t, b.fake.Dispute(p.OrderID, ""))
		if status != "" {
			require.NoError(t, b.fake.Dispute(p.OrderID, status))
		}
		report, err := b.AskRefunds(t.Context(), p)
		require.NoError(t, err)
		require.Equal(t, want.disputed, report.Disputed, status)
		require.Equal(t, want.left, report.RefundableAmount(), status)
		for _, x := range report.Refunds {
			require.Equal(t, uuid.Nil, x.RefundID)
		}
		b.fake.Calls.Inject(fake.ListDisputes, fakes.Garbled)
		_, err = b.AskRefunds(t.Context(), p)
		require.Error(t, err, "nothing is known")
	}
}
