package rpc_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/fakes"
	tossfake "urr.guru/services/payment/fakes/toss"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/rpc/paymenttest"
)

// paid pays for a new hold, and issues two tickets.
func (s *tossShop) paid() *paymentv1.PrepareResponse {
	s.t.Helper()
	p, _ := s.returned()
	s.becomes(p, "CONFIRMED")
	for _, price := range []int64{20000, 35000} {
		s.tickets.Issue(p.GetPaymentId(), paymenttest.Ticket{ID: uuid.NewString(), Paid: price, Fee: 1000})
	}
	return p
}

// requireGiven requires that Toss and the payment agree on the refunded amount.
func (s *tossShop) requireGiven(p *paymentv1.PrepareResponse, want int64) {
	s.t.Helper()
	charge := s.toss.Of(p.GetOrderId())[0]
	require.Equal(s.t, want, charge.TotalAmount-charge.BalanceAmount)
	require.Equal(s.t, want, s.count(`SELECT refunded FROM payments WHERE id = $1`, uuid.MustParse(p.GetPaymentId())))
}

func TestTossRefunds(t *testing.T) {
	t.Parallel()
	s := setupToss(t)
	p := s.paid()
	s.ask(p, payment.ByUser, "k1", 0)
	s.untilRefund(p, "USER", "DONE")
	s.requireGiven(p, 19000)
	s.ask(p, payment.ByOperator, "k2")
	s.untilRefund(p, "OPERATOR", "DONE")
	s.requireGiven(p, 54000)
}

// Whatever happens to the call for a refund, it is made once.
func TestTossRefundsOnce(t *testing.T) {
	t.Parallel()
	for fault, gen := range map[fakes.Fault]int{
		fakes.Lost: 1, fakes.Dropped: 1, fakes.Garbled: 1, fakes.Limited: 2,
		fakes.Failed: 2, // Toss keeps the error under the key, so another key is used
		fakes.Broken: 1, // Toss keeps the error, but has made the refund: a look-up finds it
	} {
		s := setupToss(t)
		p := s.paid()
		s.toss.Inject(tossfake.Cancels, fault)
		s.ask(p, payment.ByOperator, "k", 0)
		for range 120 { // until no call can take effect any more
			s.sweep(time.Second)
		}
		require.Equal(t, gen, s.untilRefund(p, "OPERATOR", "DONE").gen, fault)
		s.requireGiven(p, 20000)
		require.Len(t, s.toss.Of(p.GetOrderId())[0].Cancels, 1)
	}
}

// If Toss may have forgotten a refund's key, it is asked before the refund is sent again.
func TestTossForgetsTheKey(t *testing.T) {
	t.Parallel()
	for fault, gen := range map[fakes.Fault]int{fakes.Lost: 1, fakes.Dropped: 2} {
		s := setupToss(t)
		p := s.paid()
		s.toss.Inject(tossfake.Cancels, fault)
		s.ask(p, payment.ByOperator, "k", 0)
		s.sweep(0)
		require.Equal(t, "PENDING", s.refund(p, "OPERATOR").status)
		s.sweep(15 * 24 * time.Hour)
		require.Equal(t, gen, s.untilRefund(p, "OPERATOR", "DONE").gen)
		s.requireGiven(p, 20000)
	}
}

// A refund by hand at Toss is found after its webhook, and counts for a later refund.
func TestTossRefundByHand(t *testing.T) {
	t.Parallel()
	s := setupToss(t)
	p := s.paid()
	s.toss.Webhooks.Take()
	key := s.toss.Of(p.GetOrderId())[0].PaymentKey
	require.Empty(t, s.toss.GiveBack(key, 5000))
	for _, w := range s.toss.Webhooks.Take() {
		s.hook(w.Body)
		s.hook(w.Body)
	}
	s.sweep(0)
	s.sweep(6 * time.Second)
	s.requireGiven(p, 5000)
	require.EqualValues(t, 5000, s.count(`SELECT hand FROM payments WHERE id = $1`, uuid.MustParse(p.GetPaymentId())))

	// Toss refuses more than is left of the charge. Then the part refunded by hand counts.
	s.ask(p, payment.ByOperator, "k")
	done := s.untilRefund(p, "OPERATOR", "DONE")
	require.EqualValues(t, 55000, done.amount)
	require.EqualValues(t, 50000, done.send)
	s.requireGiven(p, 55000)
}
