package rpc_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/errs"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/sandbox"
)

// joined pays for a membership, and returns the payment and the membership's id.
func (b *bundle) joined() (*paymentv1.PrepareResponse, string) {
	b.t.Helper()
	id := b.tickets.Add(user, amount, holdTime)
	p, err := b.client.Prepare(b.t.Context(), &paymentv1.PrepareRequest{
		Caller: caller(user, newIdempotencyKey()), PaymentType: "membership", ReferenceId: id,
	})
	require.NoError(b.t, err)
	_, err = b.confirm(p, "ok-1", newIdempotencyKey())
	require.NoError(b.t, err)
	require.Equal(b.t, "membership", b.events(p)[0].GetPaymentType())
	b.tickets.Activate(p.GetPaymentId(), id, amount)
	return p, id
}

func (b *bundle) refundMembership(id, key string) (*paymentv1.Refund, error) {
	return b.operators.RefundMembership(b.t.Context(), &paymentv1.RefundMembershipRequest{Caller: operator(key), MembershipId: id, Reason: "moved away"})
}

// An operator refunds a membership as a whole. A repeated request returns the same refund.
func TestRefundOfAMembership(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, id := b.joined()
	_, err := b.operators.RefundMembership(t.Context(), &paymentv1.RefundMembershipRequest{Caller: caller(user, "k"), MembershipId: id, Reason: "mine"})
	require.ErrorIs(t, err, errs.ErrRoleRequired)
	_, err = b.refundBy(user, p, "k")
	require.ErrorIs(t, err, errs.ErrNotRefundable, "users do not give memberships back")
	_, err = b.refundMembership(uuid.NewString(), "k1")
	require.ErrorIs(t, err, errs.ErrMembershipNotFound)
	b.tickets.Fail("MembershipPayment", errs.ErrNotRefundable, errs.ErrRoleRequired)
	_, err = b.refundMembership(id, "k1")
	require.ErrorIs(t, err, errs.ErrNotRefundable, "it was never paid for")
	_, err = b.refundMembership(id, "k1")
	require.ErrorIs(t, err, errs.ErrUnavailable, "an answer that is not ticket's own")

	r, err := b.refundMembership(id, "k1")
	require.NoError(t, err)
	require.Equal(t, "PENDING", r.GetStatus())
	require.Equal(t, amount, r.GetAmount())
	require.Empty(t, r.GetItems())
	again, err := b.refundMembership(id, "k1")
	require.NoError(t, err)
	require.True(t, proto.Equal(r, again))
	_, err = b.refundMembership(id, "k2")
	require.ErrorIs(t, err, errs.ErrNotRefundable, "it is given back already")
	b.requireBalanced(p)
	b.untilRefunds("DONE", 1)
	require.Equal(t, "REFUNDED", b.get(p).GetStatus())
	require.Equal(t, amount, b.events(p)[1].GetAmount())
	b.requireBalanced(p)
}

// If the provider refuses the refund, the membership is active again, and the timeline says so.
func TestRefusedRefundOfAMembership(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, id := b.joined()
	b.provider.SetFaults(sandbox.Faults{Refused: 1})
	_, err := b.refundMembership(id, "k")
	require.NoError(t, err)
	b.untilRefund(p, "OPERATOR", "REFUSED")
	b.sweep(time.Second)
	require.Equal(t, "ACTIVE", b.tickets.Membership(p.GetPaymentId()).Status)
	require.Contains(t, notes(b.get(p)), "the membership is active again")
	b.requireBalanced(p)
}

// A refund by hand at the provider ends the membership only if it is the whole amount.
func TestMembershipRefundedByHand(t *testing.T) {
	t.Parallel()
	for given, status := range map[int64]string{amount - 1: "ACTIVE", amount: "REFUNDING"} {
		b := setup(t)
		p, _ := b.joined()
		b.provider.RefundManually(p.GetOrderId(), given)
		require.NoError(t, b.webhook("charge.refunded", p.GetOrderId()))
		b.untilRefund(p, "BY_HAND", "DONE")
		require.Equal(t, status, b.tickets.Membership(p.GetPaymentId()).Status)
		b.requireBalanced(p)
	}
}
