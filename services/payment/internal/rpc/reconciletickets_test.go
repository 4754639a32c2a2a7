package rpc_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/reconcile"
	"urr.guru/services/payment/internal/rpc/paymenttest"
	"urr.guru/services/payment/internal/sandbox"
	"urr.guru/services/payment/internal/ticket"
)

// compareTickets compares the day of the test's clock with ticket. It returns the statuses and kinds of
// the findings, by payment id.
func (b *bundle) compareTickets() (reconcile.Summary, map[string]string) {
	b.t.Helper()
	found := map[string]string{}
	store := b.store()
	sum, err := reconcile.RunTickets(b.t.Context(), store, store, ticket.NewClient(b.dialTickets()), []string{sandbox.Name}, testDay,
		func(f reconcile.Finding) error {
			found[f.OrderID] = string(f.Status) + " " + string(f.Kind)
			return nil
		})
	require.NoError(b.t, err)
	return sum, found
}

// mixedDay makes payments of all kinds, on which payment and ticket agree.
func (b *bundle) mixedDay() {
	b.t.Helper()
	b.prepared()
	rejected, _ := b.confirmed()
	b.reject(rejected, "rejected")
	b.untilRefund(rejected, "COMPENSATION", "DONE")
	part, _ := b.paid(30000, 25000)
	b.ask(part, payment.ByOperator, "part", 0)
	b.untilRefund(part, "OPERATOR", "DONE")
	whole, _ := b.paid(half, half)
	b.ask(whole, payment.ByOperator, "whole")
	b.untilRefund(whole, "OPERATOR", "DONE")
	cancelled, _ := b.paid(half, half)
	b.promise(cancelled, "cancelled")
	b.untilRefund(cancelled, "EVENT_CANCELLED", "DONE")
	voided, _ := b.paid(half, half)
	b.tickets.Void(voided.GetPaymentId(), 0)
	byHand, _ := b.paid(half, half)
	b.giveByHand(byHand, half)
	seller, _ := b.paid(half, half)
	b.tickets.Promise(seller.GetPaymentId(), 0, 20000)
	require.NoError(b.t, b.service.PayOut(b.t.Context(), b.payout(seller, 20000)))
	b.untilRefund(seller, "TRANSFER", "DONE")
	member, _ := b.confirmed()
	b.tickets.Activate(member.GetPaymentId(), uuid.NewString(), amount)
}

func TestTicketsAndPaymentsAgree(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.mixedDay()
	sum, found := b.compareTickets()
	require.Empty(t, found)
	require.Zero(t, sum.Compared)
	require.Greater(t, sum.Captures, 10, "in pages of two")
}

// Each kind of difference is found, and closed when it is gone.
func TestTicketsAndPaymentsDiffer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.mixedDay()
	missing, _ := b.confirmed()
	stray := uuid.NewString()
	b.tickets.Issue(stray, paymenttest.Ticket{ID: uuid.NewString(), Paid: amount})
	unpaid, _ := b.prepared()
	b.issue(unpaid, amount)
	compensated, _ := b.paid(amount)
	b.exec(`INSERT INTO refunds (id, payment_id, cause, request, reason, amount, send, status, provider, due_at, created_at)
		VALUES (gen_random_uuid(), $1, 'COMPENSATION', '', 'forged', 55000, 55000, 'HELD', 'sandbox', now(), now())`, uuid.MustParse(compensated.GetPaymentId()))
	cheap, _ := b.paid(amount - 1)
	taken, _ := b.paid(half, half)
	b.exec(`UPDATE payments SET refunded = 1000 WHERE id = $1`, uuid.MustParse(taken.GetPaymentId()))

	want := map[string]string{
		missing.GetPaymentId(): "OPEN TICKETS_MISSING", stray: "OPEN TICKETS_UNPAID", unpaid.GetPaymentId(): "OPEN TICKETS_UNPAID",
		compensated.GetPaymentId(): "OPEN TICKETS_UNPAID", cheap.GetPaymentId(): "OPEN TICKETS_AMOUNT", taken.GetPaymentId(): "WATCHED TICKETS_AMOUNT",
	}
	sum, found := b.compareTickets()
	require.Equal(t, want, found)
	require.Equal(t, []int{5, 1}, []int{sum.Differences, sum.Watched})

	b.clock.Advance(reconcile.MovesFor + time.Minute)
	want[taken.GetPaymentId()] = "OPEN TICKETS_AMOUNT"
	_, found = b.compareTickets()
	require.Equal(t, want, found, "what should have passed by itself, has not")
	page, err := b.differences.ListDifferences(t.Context(), &paymentv1.ListDifferencesRequest{Caller: operator("")})
	require.NoError(t, err)
	require.Len(t, page.GetItems(), len(want))

	b.issue(missing, amount)
	b.clock.Advance(time.Second)
	sum, found = b.compareTickets()
	require.Equal(t, "CLOSED TICKETS_MISSING", found[missing.GetPaymentId()])
	require.Equal(t, 1, sum.Gone)
	unserved, err := b.store().Unserved(t.Context(), []string{sandbox.Name})
	require.NoError(t, err)
	require.Empty(t, unserved, "ticket is no provider")
}

// A side that does not answer is not taken for one that has nothing.
func TestTicketThatDoesNotAnswerIsNotCompared(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.paid(half, half)
	store := b.store()
	for _, method := range []string{"Settled", "ListSettled"} {
		down := make([]error, 20) // calls are retried
		for i := range down {
			down[i] = errs.ErrUnavailable
		}
		b.tickets.Fail(method, down...)
		sum, err := reconcile.RunTickets(t.Context(), store, store, ticket.NewClient(b.dialTickets()), []string{sandbox.Name}, testDay, nil)
		require.ErrorIs(t, err, errs.ErrUnavailable, method)
		require.Zero(t, sum.Differences)
		b.tickets.Fail(method)
	}
}
