package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/harness"
)

type shownTransfer struct {
	TransferID, Status, Role, Claim, Reason, TicketID string
	Price                                             int64
}

// offer offers a ticket to anybody who has the link.
func (b *buyer) offer(ticketID string, price int64) (t shownTransfer) {
	b.t.Helper()
	a := b.With("Idempotency-Key", uuid.NewString()).MustCall(b.t.Context(), http.MethodPost, "/api/v1/my/tickets/"+ticketID+"/transfers",
		map[string]any{"price": price}, &t)
	require.Equal(b.t, http.StatusCreated, a.Status)
	return t
}

func (b *buyer) accept(claim string) (t shownTransfer) {
	b.t.Helper()
	b.MustCall(b.t.Context(), http.MethodPost, "/api/v1/transfers/accept", map[string]any{"claim": claim}, &t)
	return t
}

// awaitTransfer polls the user's transfers until the one with this id has the status.
func (b *buyer) awaitTransfer(p *harness.Platform, id, status string) (found shownTransfer) {
	b.t.Helper()
	p.Eventually(func(ctx context.Context) error {
		var page struct{ Items []shownTransfer }
		a, err := b.Call(ctx, http.MethodGet, "/api/v1/my/transfers", nil)
		if err == nil {
			err = a.Decode(&page)
		}
		for _, t := range page.Items {
			if found = t; t.TransferID == id && t.Status == status {
				return nil
			}
		}
		return errors.Join(err, fmt.Errorf("transfer %s is not %s: %+v", id, status, page.Items))
	})
	return found
}

// TestTransfers passes one ticket on for money, to a buyer who was never in the line, and another
// as a gift. The seller gets the price once, as a refund of the seller's payment. An offer that is
// cancelled just before its buyer pays charges nothing.
func TestTransfers(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Options{})
	event := newSale(t, p)
	seller := newBuyer(t, p, event)
	paid := seller.buySeats(p, "A-1-1", "A-1-2", "A-1-3")
	tickets := seller.shownTickets()
	friend := &buyer{t: t, user: "friend-" + uuid.NewString()[:8], event: event}
	friend.Client = p.Client(friend.user)

	sold := seller.offer(tickets[0].TicketID, 40000)
	accepted := friend.accept(sold.Claim)
	require.Equal(t, []string{"AWAITING_PAYMENT", "BUYER"}, []string{accepted.Status, accepted.Role})
	payment := friend.prepareFor("transfer", sold.TransferID)
	require.EqualValues(t, 40000, payment.Amount)
	friend.confirm(payment, "ok-"+uuid.NewString())
	completed := friend.awaitTransfer(p, sold.TransferID, "COMPLETED")
	require.NotEqual(t, tickets[0].TicketID, completed.TicketID)
	require.Equal(t, "SELLER", seller.awaitTransfer(p, sold.TransferID, "COMPLETED").Role)
	seller.awaitStatusAt(p, "/api/v1/my/tickets/"+tickets[0].TicketID, "TRANSFERRED")
	friendTickets := friend.shownTickets()
	require.Len(t, friendTickets, 1)
	require.Equal(t, tickets[0].Seat, friendTickets[0].Seat)
	require.NotEmpty(t, friendTickets[0].Code)
	p.Eventually(func(ctx context.Context) error {
		a, err := seller.Call(ctx, http.MethodGet, "/api/v1/payments/"+paid.PaymentID, nil)
		if err == nil && !strings.Contains(string(a.Body), `"refundedAmount":40000`) {
			err = fmt.Errorf("the seller is not paid: %s", a.Body)
		}
		return err
	})
	requireCharged(t, p, paid, 40000)
	requireCharged(t, p, payment, 0)

	gift := friend.accept(seller.offer(tickets[1].TicketID, 0).Claim)
	require.Equal(t, "COMPLETED", gift.Status)
	require.Len(t, friend.shownTickets(), 2)

	cancelled := seller.offer(tickets[2].TicketID, 55000)
	friend.accept(cancelled.Claim)
	latePayment := friend.prepareFor("transfer", cancelled.TransferID)
	seller.MustCall(t.Context(), http.MethodPost, "/api/v1/my/transfers/"+cancelled.TransferID+"/cancel", map[string]any{}, nil)
	a, _ := friend.confirm(latePayment, "ok-"+uuid.NewString())
	require.Equal(t, http.StatusConflict, a.Status, "%s", a.Body)
	require.Equal(t, "SELLER", friend.awaitTransfer(p, cancelled.TransferID, "CANCELLED").Reason)

	requireNoFaults(t, p, event)
}
