package rpc_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

func TestRefundClaimsOverRPC(t *testing.T) {
	t.Parallel()
	c := serve(t)
	ctx := t.Context()
	c.put(t, putEvent("e", "ASSIGNED", rows("A", 1, 5)))
	r := c.holdSeats(t, "u", "A-1-1", "A-1-2")
	payment := uuid.New()
	c.pay(t, r, payment)
	page, err := c.ListMyTickets(ctx, &ticketv1.ListMyTicketsRequest{Caller: signedIn("u")})
	require.NoError(t, err)
	first, second := page.GetItems()[1].GetTicketId(), page.GetItems()[0].GetTicketId()

	begin := &ticketv1.BeginRefundRequest{
		RefundId: uuid.NewString(), PaymentId: payment.String(), PaymentType: "reservation", ReferenceId: r.GetReservationId(),
		Cause: "USER", UserId: "u", TicketIds: []string{first}, AskedAt: timestamppb.New(c.clock.Now()),
	}
	requireClaim := func(want *ticketv1.RefundClaim) {
		t.Helper()
		got, err := c.BeginRefund(ctx, begin)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(want, got, protocmp.Transform()))
	}
	begun := &ticketv1.RefundClaim{Status: "BEGUN", Items: []*ticketv1.RefundClaimItem{{TicketId: first, Amount: 55000}}}
	requireClaim(begun)
	requireClaim(begun)
	tk, err := c.GetMyTicket(ctx, &ticketv1.GetMyTicketRequest{Caller: signedIn("u"), TicketId: first})
	require.NoError(t, err)
	require.Equal(t, "REFUNDING", tk.GetStatus())
	require.Empty(t, tk.GetCode(), "it admits nobody while it is given back")
	abort := &ticketv1.AbortRefundRequest{RefundId: begin.GetRefundId()}
	_, err = c.AbortRefund(ctx, abort)
	require.NoError(t, err)
	requireClaim(&ticketv1.RefundClaim{Status: "ABORTED"})

	original := proto.CloneOf(begin)
	begin.RefundId, begin.PaymentId, begin.TicketIds = uuid.NewString(), uuid.NewString(), nil
	requireClaim(&ticketv1.RefundClaim{Status: "REFUSED", Reason: "TICKETS_PENDING"})
	_, err = c.pool.Exec(ctx, `INSERT INTO ended_payments (payment_id, why) VALUES ($1, 'HOLD_EXPIRED')`, begin.GetPaymentId())
	require.NoError(t, err)
	requireClaim(&ticketv1.RefundClaim{Status: "REFUSED", Reason: "TICKETS_PENDING"}) // the first answer
	begin.RefundId = uuid.NewString()
	requireClaim(&ticketv1.RefundClaim{Status: "REFUSED", Reason: "NOT_REFUNDABLE"})

	begin = original
	begin.RefundId, begin.UserId = uuid.NewString(), "v"
	requireClaim(&ticketv1.RefundClaim{
		Status: "REFUSED", Reason: "NOT_REFUNDABLE", Problems: []*ticketv1.ExcludedTicket{{TicketId: first, Reason: "NOT_YOURS"}},
	})
	begin.RefundId, begin.Cause, begin.Fees, begin.TicketIds = uuid.NewString(), "OPERATOR", ptr(false), []string{second}
	requireClaim(&ticketv1.RefundClaim{Status: "BEGUN", Items: []*ticketv1.RefundClaimItem{{TicketId: second, Amount: 55000}}})
	begin.RefundId, begin.TicketIds, begin.ShownAmount = uuid.NewString(), []string{first}, ptr(int64(55001))
	requireClaim(&ticketv1.RefundClaim{Status: "REFUSED", Reason: "AMOUNT_CHANGED", PresentAmount: 55000})
	begin.TicketIds, begin.ShownAmount = []string{second}, nil
	begin.RefundId, begin.AskedAt = uuid.NewString(), timestamppb.New(c.clock.Now().Add(-7*24*time.Hour))
	requireClaim(&ticketv1.RefundClaim{Status: "REFUSED", Reason: "REQUEST_TOO_OLD"})
	for kind, reason := range map[string]string{"transfer": "NOT_REFUNDABLE", "membership": "TICKETS_PENDING"} {
		begin.RefundId, begin.PaymentId, begin.PaymentType, begin.TicketIds = uuid.NewString(), uuid.NewString(), kind, nil
		begin.AskedAt = timestamppb.New(c.clock.Now())
		requireClaim(&ticketv1.RefundClaim{Status: "REFUSED", Reason: reason})
	}
	for field, change := range map[string]func(*ticketv1.BeginRefundRequest){
		"refundId":    func(r *ticketv1.BeginRefundRequest) { r.RefundId = "x" },
		"cause":       func(r *ticketv1.BeginRefundRequest) { r.Cause = "TRANSFER" },
		"askedAt":     func(r *ticketv1.BeginRefundRequest) { r.AskedAt = nil },
		"paymentType": func(r *ticketv1.BeginRefundRequest) { r.PaymentType = "gift" },
	} {
		bad := &ticketv1.BeginRefundRequest{
			RefundId: uuid.NewString(), PaymentId: uuid.NewString(), PaymentType: "reservation", ReferenceId: uuid.NewString(), Cause: "USER",
			AskedAt: timestamppb.Now(),
		}
		change(bad)
		_, err := c.BeginRefund(ctx, bad)
		requireReason(t, err, "INVALID_REQUEST", field)
	}
}
