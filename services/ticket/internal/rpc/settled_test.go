package rpc_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// The payment service finds payments by their ids, and lists those of what was sold in a time, in pages.
func TestSettledPaymentsOverRPC(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.put(t, putEvent("e", "ASSIGNED", rows("A", 1, 5)))
	paid, unpaid := uuid.New(), uuid.New()
	from := time.Now().Add(-time.Minute)
	c.pay(t, c.holdSeats(t, "u", "A-1-1", "A-1-2"), paid)
	until := time.Now().Add(time.Minute)

	want := []*ticketv1.SettledPayment{{PaymentId: paid.String(), UserId: "u", Paid: 110000, Kept: 110000, Currency: "KRW"}}
	found, err := c.FindSettled(t.Context(), &ticketv1.FindSettledRequest{PaymentIds: []string{paid.String(), unpaid.String()}})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(want, found.GetPayments(), protocmp.Transform()))

	list := func(from, until time.Time, cursor string) *ticketv1.ListSettledResponse {
		t.Helper()
		page, err := c.ListSettled(t.Context(), &ticketv1.ListSettledRequest{From: timestamppb.New(from), Until: timestamppb.New(until), Cursor: cursor})
		require.NoError(t, err)
		require.Empty(t, page.GetNextCursor(), "there are few")
		return page
	}
	require.Empty(t, cmp.Diff(want, list(from, until, "").GetPayments(), protocmp.Transform()))
	require.Empty(t, list(from, from.Add(time.Second), "").GetPayments(), "before")
	require.Empty(t, list(until, until.Add(time.Hour), "").GetPayments(), "after")
	require.Empty(t, list(from, until, uuid.Max.String()).GetPayments(), "the pages before have all")
	_, err = c.ListSettled(t.Context(), &ticketv1.ListSettledRequest{From: timestamppb.New(from), Until: timestamppb.New(until), Cursor: "1"})
	requireReason(t, err, "INVALID_ID")
}
