package rpc_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
)

func TestReconcileArguments(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, args := range [][]string{{"now"}, {"--day", "yesterday"}, {"--day", "2126-05-01"}, {"--kind", "x"}} {
		code, out := b.reconcile(args...)
		require.Equal(t, 2, code, args)
		require.Empty(t, out)
	}
	code, _ := b.reconcile("--provider", "toss")
	require.Equal(t, 1, code)
	code, _ = b.reconcile("--provider", "sandbox")
	require.Zero(t, code)
}

// Operators list open differences and close them with a note. Only other values reopen one.
func TestOperatorsCloseDifferences(t *testing.T) {
	t.Parallel()
	b := setup(t)
	orders := []string{uuid.NewString(), uuid.NewString()}
	for _, order := range orders {
		b.provider.Capture(order, 1000)
	}
	b.reconcile()
	operator := &commonv1.Caller{UserId: "op", Roles: []string{"admin"}}
	list := func(status, cursor string) *paymentv1.ListDifferencesResponse {
		t.Helper()
		out, err := b.differences.ListDifferences(t.Context(), &paymentv1.ListDifferencesRequest{Caller: operator, Status: status, Limit: 1, Cursor: cursor})
		require.NoError(t, err)
		return out
	}
	first := list("", "")
	second := list("OPEN", first.GetNextCursor())
	require.Empty(t, second.GetNextCursor())
	d := first.GetItems()[0]
	require.ElementsMatch(t, orders, []string{d.GetOrderId(), second.GetItems()[0].GetOrderId()})
	require.Equal(t, "CAPTURE_UNKNOWN", d.GetKind())
	require.Equal(t, "no payment", d.GetOurs())
	require.Equal(t, "captured 1000 KRW", d.GetTheirs())
	require.Equal(t, "2026-05-01", d.GetDay())
	require.Empty(t, d.GetPaymentId())

	closing := &paymentv1.CloseDifferenceRequest{Caller: operator, DifferenceId: d.GetDifferenceId(), Note: "of the old shop"}
	closed, err := b.differences.CloseDifference(t.Context(), closing)
	require.NoError(t, err)
	require.Equal(t, []string{"CLOSED", "op", "of the old shop"}, []string{closed.GetStatus(), closed.GetClosedBy(), closed.GetNote()})
	_, err = b.differences.CloseDifference(t.Context(), closing)
	require.ErrorIs(t, errs.From(err), errs.ErrDifferenceNotOpen)
	closing.DifferenceId = uuid.NewString()
	_, err = b.differences.CloseDifference(t.Context(), closing)
	require.ErrorIs(t, errs.From(err), errs.ErrDifferenceNotFound)
	closing.Caller = caller(user, "")
	_, err = b.differences.CloseDifference(t.Context(), closing)
	require.Equal(t, "ROLE_REQUIRED", errs.From(err).Reason)
	_, err = b.differences.ListDifferences(t.Context(), &paymentv1.ListDifferencesRequest{Caller: caller(user, "")})
	require.Equal(t, "ROLE_REQUIRED", errs.From(err).Reason)

	_, out := b.reconcile()
	require.Empty(t, found(out, d.GetOrderId()), "it stays closed")
	require.Contains(t, out, "differences=1\n")
	require.Equal(t, d.GetDifferenceId(), list("CLOSED", "").GetItems()[0].GetDifferenceId())
	b.exec(`UPDATE differences SET theirs = 'captured 999 KRW' WHERE id = $1`, d.GetDifferenceId())
	_, out = b.reconcile()
	require.Equal(t, []string{"OPEN CAPTURE_UNKNOWN"}, found(out, d.GetOrderId()), "it has changed")
}
