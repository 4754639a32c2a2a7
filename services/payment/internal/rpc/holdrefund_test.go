package rpc_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/errs"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/rpc/paymenttest"
)

func (b *bundle) hold(id string) (*paymentv1.Refund, error) {
	return b.operators.HoldRefund(b.t.Context(), &paymentv1.HoldRefundRequest{Caller: operator(""), RefundId: id})
}

func (b *bundle) retry(id string) error {
	_, err := b.operators.RetryRefund(b.t.Context(), &paymentv1.RetryRefundRequest{Caller: operator(""), RefundId: id})
	return err
}

func (b *bundle) paidElsewhere(id string) error {
	_, err := b.operators.ResolveRefund(b.t.Context(), &paymentv1.ResolveRefundRequest{
		Caller: operator(""), RefundId: id, PaidOtherwise: proto.Bool(true), Note: "by bank",
	})
	return err
}

// An operator holds a refund that the provider does not make, and decides about it. Only a PENDING one
// can be held.
func TestHoldRefund(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.paid(20000, 35000)
	b.provider.Fail(paymenttest.Refunds, 1000)
	id := b.ask(p, payment.ByUser, "k", 0).ID.String()
	_, err := b.hold(id)
	require.ErrorIs(t, err, errs.ErrRefundNotPending, "its tickets are not claimed yet")
	b.sweep(0)
	_, err = b.operators.HoldRefund(t.Context(), &paymentv1.HoldRefundRequest{Caller: caller(user, ""), RefundId: id})
	require.ErrorIs(t, err, errs.ErrRoleRequired)
	_, err = b.hold(uuid.NewString())
	require.ErrorIs(t, err, errs.ErrRefundNotFound)
	held, err := b.hold(id)
	require.NoError(t, err)
	require.Equal(t, "HELD", held.GetStatus())
	require.Equal(t, "OPERATOR", b.refund(p, "USER").reason)
	_, err = b.hold(id)
	require.ErrorIs(t, err, errs.ErrRefundNotPending)
	calls := b.provider.Calls(paymenttest.Refunds)
	for range 10 {
		b.sweep(time.Hour)
	}
	require.Equal(t, calls, b.provider.Calls(paymenttest.Refunds), "it is not sent any more")
	b.provider.Fail(paymenttest.Refunds, 0)
	require.NoError(t, b.retry(id))
	b.untilRefund(p, "USER", "DONE")
	require.Len(t, b.provider.RefundsOf(p.GetOrderId()), 1)
	b.requireBalanced(p)
}

// A refund is held while a call for it may still take effect. Whatever the operator does, and whether
// the call arrives or not, it is made once.
func TestHoldRefundInFlight(t *testing.T) {
	t.Parallel()
	for _, arrives := range []string{"at once", "before the decision", "after the decision", "never"} {
		for _, way := range []string{"retry", "otherwise"} {
			t.Run(way+", arrives "+arrives, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				p, _ := b.paid(20000, 35000)
				b.provider.Delay(paymenttest.Refunds, 1)
				id := b.ask(p, payment.ByUser, "k", 0).ID.String()
				b.sweep(0)
				arrive := func(when string) {
					if arrives == when {
						b.provider.Arrive()
					}
				}
				arrive("at once")
				_, err := b.hold(id)
				require.NoError(t, err)
				arrive("before the decision")
				decide := b.retry
				if way == "otherwise" {
					decide = b.paidElsewhere
				}
				err = decide(id)
				arrive("after the decision")
				if way == "otherwise" {
					require.Error(t, err, "a call may take effect, or has")
					b.clock.Advance(callsEndAfter)
					err = decide(id)
				}
				made := arrives != "never"
				if way == "otherwise" && made {
					require.ErrorIs(t, err, errs.ErrRefundNotHeld, "it is made")
				} else {
					require.NoError(t, err)
				}
				for range 5 {
					b.sweep(time.Minute)
				}
				want, refunds := "DONE", 1
				if way == "otherwise" && !made {
					want, refunds = "RESOLVED", 0
				}
				require.Equal(t, want, b.refund(p, "USER").status)
				require.Len(t, b.provider.RefundsOf(p.GetOrderId()), refunds)
				b.requireBalanced(p)
			})
		}
	}
}

// While the provider cannot be asked whether a held refund was made, nobody says that it was paid
// otherwise.
func TestHeldRefundIsAskedFor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.paid(20000, 35000)
	b.provider.Lose(paymenttest.Refunds, 1)
	id := b.ask(p, payment.ByUser, "k", 0).ID.String()
	b.sweep(0)
	_, err := b.hold(id)
	require.NoError(t, err)
	b.clock.Advance(time.Hour)
	b.provider.Fail(paymenttest.RefundLists, 1)
	require.ErrorIs(t, b.paidElsewhere(id), errs.ErrUnavailable)
	require.Equal(t, "HELD", b.refund(p, "USER").status)
	require.ErrorIs(t, b.paidElsewhere(id), errs.ErrRefundNotHeld)
	require.Equal(t, "DONE", b.refund(p, "USER").status)
	b.requireBalanced(p)
}
