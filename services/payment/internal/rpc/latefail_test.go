package rpc_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	fake "urr.guru/services/payment/fakes/stripe"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/reconcile"
	"urr.guru/services/payment/internal/rpc/paymenttest"
	"urr.guru/services/payment/internal/stripe"
	"urr.guru/services/payment/sandbox"
)

// compareAtNight compares the day that the test's clock shows, and returns what is found.
func (s *stripeShop) compareAtNight() (found []string) {
	s.t.Helper()
	day := s.clock.Now().Truncate(24 * time.Hour)
	_, err := reconcile.Run(s.t.Context(), s.store(), s.store(), reconcile.Source{Provider: s.guard, Name: stripe.Name}, day, func(f reconcile.Finding) error {
		found = append(found, string(f.Status)+" "+string(f.Kind))
		return nil
	})
	require.NoError(s.t, err)
	return found
}

// failLater makes the first refund of an order fail five days after it was made. Either its webhooks
// arrive, and there is no nightly comparison, or the reverse.
func (s *stripeShop) failLater(p *paymentv1.PrepareResponse, webhooks bool) {
	s.t.Helper()
	for range 5 {
		s.sweep(24 * time.Hour)
	}
	require.NoError(s.t, s.stripe.SettleRefund(s.stripe.Order(p.GetOrderId()).Refunds[0].ID, "failed"))
	s.findIt(webhooks)
}

func (s *stripeShop) findIt(webhooks bool) {
	s.t.Helper()
	if webhooks {
		s.deliverPending()
		s.follow()
		return
	}
	s.stripe.Webhooks.Take() // lost
	s.compareAtNight()
	s.follow()
	s.sweep(10 * time.Second)
	s.compareAtNight() // closes what was found
	require.Zero(s.t, s.count(`SELECT count(*) FROM differences WHERE status <> 'CLOSED'`))
}

func (s *stripeShop) requireBooksOf(p *paymentv1.PrepareResponse) {
	s.t.Helper()
	order := s.stripe.Order(p.GetOrderId())
	s.requireBooks(p, order.Received, order.Refunded)
}

func eachWay(t *testing.T, run func(t *testing.T, webhooks bool)) {
	t.Helper()
	for name, webhooks := range map[string]bool{"webhooks alone": true, "night alone": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, webhooks)
		})
	}
}

// A refund of ours that was DONE fails five days later: it is HELD, and its money counts as not
// refunded.
func TestStripeRefundFailsDaysAfterItWasDone(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, webhooks bool) {
		t.Helper()
		s := setupStripe(t)
		p := s.bought()
		s.ask(p, payment.ByUser, "k")
		s.untilRefund(p, "USER", "DONE")
		s.deliverPending()
		s.apply(p)
		s.failLater(p, webhooks)
		require.Equal(t, "FAILED", s.untilRefund(p, "USER", "HELD").reason)
		s.requireRefunded(p, 0, 1)
		s.requireBooksOf(p)
		require.NotContains(t, s.compareAtNight(), "OPEN REFUND_STATE")
	})
}

// The hotline has given all of it back, and the tickets have ended. Five days later that refund
// fails: the payer is owed the money by a refund that a person may have sent.
func TestStripeRefundByHandFailsDaysLater(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, webhooks bool) {
		t.Helper()
		s := setupStripe(t)
		p := s.bought()
		s.deliverPending()
		require.NoError(t, s.stripe.RefundByHand(p.GetOrderId(), amount))
		s.findIt(webhooks)
		s.untilRefund(p, "BY_HAND", "DONE")
		s.apply(p)
		require.Equal(t, "REFUNDED", s.get(p).GetStatus())
		s.failLater(p, webhooks)
		s.requireRefunded(p, 0, 1)
		require.Equal(t, "FAILED", s.refund(p, "BY_HAND").status)
		debt := s.refund(p, "BY_HAND_FAILED")
		require.Equal(t, storedRefund{id: debt.id, status: "HELD", reason: "FAILED", amount: amount, send: amount, published: true}, debt)
		require.Equal(t, "CONFIRMED", s.get(p).GetStatus())
		s.requireByHand(p, 0, 0, 0)
		s.requireBooksOf(p)
		require.Empty(t, s.stripe.Calls.Count(fake.CreateRefund), "nothing is sent without a person")
		require.NotContains(t, s.compareAtNight(), "OPEN REFUND_STATE")

		_, err := s.operators.RetryRefund(t.Context(), &paymentv1.RetryRefundRequest{Caller: operator(""), RefundId: debt.id})
		require.NoError(t, err)
		s.untilRefund(p, "BY_HAND_FAILED", "DONE")
		s.requireRefunded(p, amount, 2)
		s.requireBooksOf(p)
		require.Equal(t, "REFUNDED", s.get(p).GetStatus())
		require.Equal(t, []string{"PAYMENT_CONFIRMED", "PAYMENT_REFUNDED"}, s.eventTypes(p), "the tickets ended once")
		require.Empty(t, s.compareAtNight())
	})
}

// A refund by hand is recorded while it is pending, and fails. Without webhooks it is asked about
// every day.
func TestStripePendingRefundByHandFails(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, webhooks bool) {
		t.Helper()
		s := setupStripe(t)
		p := s.bought()
		s.deliverPending()
		s.stripe.SetRules(fake.Rules{PendingRefunds: true})
		require.NoError(t, s.stripe.RefundByHand(p.GetOrderId(), amount))
		s.findIt(webhooks)
		s.untilRefund(p, "BY_HAND", "DONE")
		s.apply(p)
		s.failLater(p, webhooks)
		s.sweep(24 * time.Hour)
		require.Equal(t, amount, s.refund(p, "BY_HAND_FAILED").send)
		s.requireRefunded(p, 0, 1)
		s.requireBooksOf(p)
		require.Zero(t, s.count(`SELECT count(*) FROM payments WHERE id = $1 AND check_at IS NOT NULL`, uuid.MustParse(p.GetPaymentId())))
	})
}

// A refund by hand that fails before it was recorded changes nothing.
func TestStripeRefundByHandFailsAtOnce(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, webhooks bool) {
		t.Helper()
		s := setupStripe(t)
		p := s.bought()
		s.deliverPending()
		require.NoError(t, s.stripe.RefundByHand(p.GetOrderId(), amount))
		require.NoError(t, s.stripe.SettleRefund(s.stripe.Order(p.GetOrderId()).Refunds[0].ID, "failed"))
		s.findIt(webhooks)
		require.Empty(t, s.get(p).GetRefunds())
		require.Equal(t, "CONFIRMED", s.get(p).GetStatus())
		s.requireBooksOf(p)
	})
}

// The payer withdraws a dispute that the shop had lost, so the bank gives the money back. The tickets
// have ended, and a person decides what the payer gets.
func TestStripeLostDisputeIsWonLater(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, webhooks bool) {
		t.Helper()
		s := setupStripe(t)
		p := s.bought()
		s.disputes(p, "")
		s.disputes(p, "lost")
		s.requireLost(p)
		s.apply(p)
		s.clock.Advance(5 * 24 * time.Hour)
		require.NoError(t, s.stripe.Dispute(p.GetOrderId(), "won"))
		s.findIt(webhooks)
		require.Equal(t, "FAILED", s.refund(p, "BY_HAND").status)
		debt := s.refund(p, "BY_HAND_FAILED")
		require.Equal(t, []any{"HELD", "DISPUTE_WON", amount}, []any{debt.status, debt.reason, debt.send})
		s.requireRefunded(p, 0, 0)
		s.requireBooksOf(p)
		require.Empty(t, s.compareAtNight())
	})
}

// failByHand makes the first refund by hand of an order fail, and delivers its webhook.
func (b *bundle) failByHand(p *paymentv1.PrepareResponse) {
	b.t.Helper()
	for _, r := range b.provider.RefundsOf(p.GetOrderId()) {
		if r.Reference == "" && r.Status == sandbox.RefundDone {
			b.provider.SettleRefund(r.RefundID, sandbox.RefundFailed)
			break
		}
	}
	b.hearOfFailure(p)
}

func (b *bundle) hearOfFailure(p *paymentv1.PrepareResponse) {
	b.t.Helper()
	require.NoError(b.t, b.webhook("refund.failed", p.GetOrderId()))
	for range 4 {
		b.sweep(6 * time.Second)
	}
}

// debts returns how many refunds owe money because a refund by hand has failed, and how much.
func (b *bundle) debts(p *paymentv1.PrepareResponse) (n, sum int64) {
	b.t.Helper()
	id := uuid.MustParse(p.GetPaymentId())
	return b.count(`SELECT count(*) FROM refunds WHERE payment_id = $1 AND cause = 'BY_HAND_FAILED'`, id),
		b.count(`SELECT coalesce(sum(send), 0)::bigint FROM refunds WHERE payment_id = $1 AND cause = 'BY_HAND_FAILED' AND status = 'HELD'`, id)
}

// What a failed refund by hand has counted for is taken back: first what is unassigned, then goodwill,
// then what it has covered, which is owed again.
func TestWhatAFailedRefundByHandHasCountedFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given                     func(b *bundle) *paymentv1.PrepareResponse
		used, goodwill, unsettled int64 // what is left
		owed                      int64
	}{
		"nothing": {given: func(b *bundle) *paymentv1.PrepareResponse { return b.paidInPart() }},
		"goodwill": {given: func(b *bundle) *paymentv1.PrepareResponse {
			p := b.paidInPart()
			_, err := b.callGoodwill(p, "k", half)
			require.NoError(b.t, err)
			return p
		}},
		"a ticket": {owed: half, given: func(b *bundle) *paymentv1.PrepareResponse {
			p := b.paidInPart()
			_, err := b.assign(p, "k", 0)
			require.NoError(b.t, err)
			b.apply(p)
			return p
		}},
		"all tickets": {owed: amount, given: func(b *bundle) *paymentv1.PrepareResponse {
			p, _ := b.paid(half, half)
			b.giveByHand(p, amount)
			b.apply(p)
			return p
		}},
		"a part of a ticket": {used: 10000, owed: half - 10000, given: func(b *bundle) *paymentv1.PrepareResponse {
			p := b.paidInPart()
			_, err := b.assign(p, "k", 0)
			require.NoError(b.t, err)
			b.provider.RefundManually(p.GetOrderId(), 10000)
			b.hearOfFailure(p) // of none: the second refund by hand is found
			b.requireByHand(p, half, 0, 10000)
			return p
		}},
		"goodwill, of two": {goodwill: 10000, given: func(b *bundle) *paymentv1.PrepareResponse {
			p := b.paidInPart()
			_, err := b.callGoodwill(p, "k", 20000)
			require.NoError(b.t, err)
			b.provider.RefundManually(p.GetOrderId(), 10000)
			b.hearOfFailure(p)
			return p
		}},
		"a refund of ours": {owed: half, given: func(b *bundle) *paymentv1.PrepareResponse {
			p := b.paidInPart()
			b.ask(p, payment.ByOperator, "k")
			b.untilRefund(p, "OPERATOR", "DONE")
			b.requireByHand(p, half, 0, 0)
			b.apply(p)
			return p
		}},
		"a held refund": {owed: half - 1000, given: func(b *bundle) *paymentv1.PrepareResponse {
			p := b.paidInPart()
			b.ask(p, payment.ByUser, "k", 0)
			b.untilRefund(p, "USER", "HELD")
			_, err := b.resolve(p, "USER")
			require.NoError(b.t, err)
			b.apply(p)
			return p
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := c.given(b)
			b.failByHand(p)
			for range 2 { // a repeated webhook changes nothing
				n, owed := b.debts(p)
				require.Equal(t, c.owed, owed)
				require.LessOrEqual(t, n, int64(1))
				b.requireByHand(p, c.used, c.goodwill, c.unsettled)
				b.requireBalanced(p)
				b.hearOfFailure(p)
			}
			if c.owed > 0 {
				_, err := b.operators.RetryRefund(t.Context(), &paymentv1.RetryRefundRequest{Caller: operator(""), RefundId: b.refund(p, "BY_HAND_FAILED").id})
				require.NoError(t, err)
				b.untilRefund(p, "BY_HAND_FAILED", "DONE")
				b.requireBalanced(p)
			}
			code, out := b.reconcile()
			require.Zero(t, code, out)
		})
	}
}

// A refund that waits for a person only because of money by hand is sent when that money fails, with
// what the money had covered of it.
func TestRefundIsSentAfterMoneyByHandFails(t *testing.T) {
	t.Parallel()
	for name, tickets := range map[string][]int{"one ticket": {0}, "all, covered in part": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.paidInPart()
			b.ask(p, payment.ByUser, "k", tickets...)
			b.untilRefund(p, "USER", "HELD")
			b.failByHand(p)
			done := b.untilRefund(p, "USER", "DONE")
			require.Equal(t, done.amount, done.send)
			n, _ := b.debts(p)
			require.Zero(t, n)
			require.Equal(t, done.amount, b.provider.Order(p.GetOrderId()).RefundedAmount)
			b.requireByHand(p, 0, 0, 0)
			b.requireBalanced(p)
		})
	}
}

// While a call for a refund that money by hand covers in part may take effect, the failure of that
// money waits. Nothing is refunded twice.
func TestMoneyByHandFailsWhileARefundIsUnderWay(t *testing.T) {
	t.Parallel()
	for name, made := range map[string]bool{"made": true, "not made": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.paidInPart()
			b.ask(p, payment.ByOperator, "k")
			b.sweep(0) // the money covers what the provider has no more
			for range 20 {
				if r := b.refund(p, "OPERATOR"); r.status == "PENDING" && r.send == half {
					break
				}
				b.sweep(time.Second)
			}
			if made {
				b.provider.Lose(paymenttest.Refunds, 1)
			} else {
				b.provider.Delay(paymenttest.Refunds, 1)
			}
			for range 20 {
				if b.provider.Calls(paymenttest.Refunds) > 0 {
					break
				}
				b.sweep(time.Second)
			}
			require.Equal(t, 1, b.provider.Calls(paymenttest.Refunds))
			b.provider.SettleRefund(b.provider.RefundsOf(p.GetOrderId())[0].RefundID, sandbox.RefundFailed)
			require.NoError(t, b.webhook("refund.failed", p.GetOrderId()))
			for range 60 {
				b.sweep(10 * time.Second)
			}
			r := b.refund(p, "OPERATOR")
			require.Equal(t, "DONE", r.status)
			require.Equal(t, "FAILED", b.refund(p, "BY_HAND").status)
			_, owed := b.debts(p)
			require.Equal(t, []int64{half, half}, []int64{r.send, owed}, "what the refund has not sent is owed")
			b.requireByHand(p, 0, 0, 0)
			b.requireBalanced(p)
		})
	}
}

// While the ticket service has still to say for which tickets the money was, its failure waits.
func TestMoneyByHandFailsWhileItIsAssigned(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]bool{"refused": true, "accepted": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.paidInPart()
			down := make([]error, 8)
			for i := range down {
				down[i] = errs.ErrUnavailable
			}
			b.tickets.Fail("BeginRefund", down...)
			ticket := b.ticketID(p, 0)
			if refused {
				ticket = uuid.NewString()
			}
			r, err := b.operators.AssignByHand(t.Context(), &paymentv1.AssignByHandRequest{
				Caller: operator("op"), PaymentId: p.GetPaymentId(), TicketIds: []string{ticket},
			})
			require.NoError(t, err)
			require.Equal(t, "REQUESTED", r.GetStatus())
			b.failByHand(p)
			require.Equal(t, half, b.detail(p).GetByHand(), "not taken back yet")
			for range 60 {
				b.sweep(10 * time.Second)
			}
			_, owed := b.debts(p)
			require.Equal(t, map[bool]int64{true: 0, false: half}[refused], owed)
			b.requireByHand(p, 0, 0, 0)
			b.requireBalanced(p)
		})
	}
}

// Webhooks, the nightly comparison and several replicas find the failure at the same time.
func TestFailedRefundByHandIsTakenBackOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.paidInPart()
	_, err := b.assign(p, "k", 0)
	require.NoError(t, err)
	b.apply(p)
	b.provider.SettleRefund(b.provider.RefundsOf(p.GetOrderId())[0].RefundID, sandbox.RefundFailed)
	var replicas sync.WaitGroup
	for range 4 {
		service := b.newService(voidAfter)
		replicas.Go(func() {
			for range 5 {
				if err := b.webhook("refund.failed", p.GetOrderId()); err != nil {
					t.Error(err)
				}
				b.clock.Advance(6 * time.Second)
				service.SweepOnce(t.Context())
			}
		})
	}
	replicas.Wait()
	b.hearOfFailure(p)
	n, owed := b.debts(p)
	require.Equal(t, []int64{1, half}, []int64{n, owed})
	b.requireByHand(p, 0, 0, 0)
	b.requireBalanced(p)
}
