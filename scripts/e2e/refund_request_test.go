package e2e_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/harness"
)

// refundAnswer is a refund in the API: the answer to a request for it.
type refundAnswer struct {
	RefundID, Status string
	Amount           int64
	Items            []struct {
		TicketID string
		Amount   int64
	}
}

type refundRefusal struct {
	Code      string
	TicketIDs []string
}

type shownTicket struct {
	TicketID, Status, PaymentID, Code string
	Seat                              struct{ SeatID string }
	Refundable                        struct {
		Amount int64
		Reason string
	}
}

func (b *buyer) shownTickets() (list []shownTicket) {
	b.t.Helper()
	var page struct{ Items []shownTicket }
	b.MustCall(b.t.Context(), http.MethodGet, "/api/v1/my/tickets", nil, &page)
	return page.Items
}

// requestRefund requests a refund of tickets, requires the status, and decodes the answer.
func requestRefund[T refundAnswer | refundRefusal](t *testing.T, c *harness.Client, path, key string, status int, tickets ...string) (r T) {
	t.Helper()
	a, err := harness.RepeatWhileOverloaded(t.Context(), t, func() (*harness.Answer, error) {
		return c.With("Idempotency-Key", key).Call(t.Context(), http.MethodPost, path, map[string]any{"ticketIds": tickets, "reason": "cannot come"})
	})
	require.NoError(t, err)
	require.Equal(t, status, a.Status, "%s", a.Body)
	require.NoError(t, json.Unmarshal(a.Body, &r))
	return r
}

// buySeats holds seats and pays for them.
func (b *buyer) buySeats(p *harness.Platform, seats ...string) preparedPayment {
	b.t.Helper()
	held := b.hold(seats...)
	payment := b.prepare(held)
	b.confirm(payment, "ok-"+uuid.NewString())
	b.awaitStatus(p, held, "CONFIRMED")
	return payment
}

// TestRefundOfOneTicket buys two tickets and returns one. The other ticket stays valid, the seat is
// sold again, and the payment agrees with the provider's ledger.
func TestRefundOfOneTicket(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Options{})
	event := newSale(t, p)
	b := newBuyer(t, p, event)
	paid := b.buySeats(p, "A-1-1", "A-1-2")
	tickets := b.shownTickets()
	i := slices.IndexFunc(tickets, func(x shownTicket) bool { return x.Seat.SeatID == "A-1-1" })
	refunded, kept := tickets[i], tickets[1-i]
	require.Equal(t, paid.PaymentID, refunded.PaymentID)
	require.EqualValues(t, 55000, refunded.Refundable.Amount)
	path := "/api/v1/payments/" + paid.PaymentID + "/refund"

	more := map[string]any{"ticketIds": []string{refunded.TicketID}, "amount": 55001}
	answer, err := b.With("Idempotency-Key", uuid.NewString()).Call(t.Context(), http.MethodPost, path, more)
	require.NoError(t, err)
	require.Equal(t, http.StatusConflict, answer.Status)
	var less struct{ Code, Amount string }
	require.NoError(t, json.Unmarshal(answer.Body, &less))
	require.Equal(t, []string{"AMOUNT_CHANGED", "55000"}, []string{less.Code, less.Amount}, "less than was shown")
	key := uuid.NewString()
	r := requestRefund[refundAnswer](t, b.Client, path, key, http.StatusAccepted, refunded.TicketID)
	require.EqualValues(t, 55000, r.Amount)
	require.Equal(t, refunded.TicketID, r.Items[0].TicketID)
	require.Equal(t, r.RefundID, requestRefund[refundAnswer](t, b.Client, path, key, http.StatusAccepted, refunded.TicketID).RefundID)
	refusal := requestRefund[refundRefusal](t, b.Client, path, uuid.NewString(), http.StatusConflict, refunded.TicketID, kept.TicketID)
	require.Equal(t, "NOT_REFUNDABLE", refusal.Code)
	require.Equal(t, []string{refunded.TicketID}, refusal.TicketIDs)

	b.awaitStatusAt(p, "/api/v1/my/tickets/"+refunded.TicketID, "REFUNDED")
	awaitSold(p, event, 1)
	for _, ticket := range b.shownTickets() {
		if ticket.TicketID == kept.TicketID {
			require.Equal(t, "VALID", ticket.Status)
			require.NotEmpty(t, ticket.Code)
		} else {
			require.Equal(t, "REFUNDED", ticket.Refundable.Reason)
		}
	}
	requireCharged(t, p, paid, 55000)
	var shown struct {
		Status         string
		RefundedAmount int64
		Refunds        []refundAnswer
	}
	b.MustCall(t.Context(), http.MethodGet, "/api/v1/payments/"+paid.PaymentID, nil, &shown)
	require.Equal(t, "CONFIRMED", shown.Status)
	require.EqualValues(t, 55000, shown.RefundedAmount)
	i = slices.IndexFunc(shown.Refunds, func(x refundAnswer) bool { return x.RefundID == r.RefundID })
	require.Equal(t, "DONE", shown.Refunds[i].Status)

	newBuyer(t, p, event).buySeats(p, "A-1-1")
	awaitSold(p, event, 2)
}

// TestRefundRaces sends two requests for a refund at once, of a user and an operator, and then the
// same request of a user twice. Each time one refund is made.
func TestRefundRaces(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Options{})
	event := newSale(t, p)
	for _, operator := range []bool{true, false} {
		b := newBuyer(t, p, event)
		seats := []string{"A-1-3", "A-1-4"}
		paid := b.buySeats(p, seats...)
		ids := []string{b.shownTickets()[0].TicketID, b.shownTickets()[1].TicketID}
		path, key := "/api/v1/payments/"+paid.PaymentID+"/refund", uuid.NewString()
		other, otherPath := b.Client, path
		if operator {
			other, otherPath = p.Operator(), "/api/v1/admin/payments/"+paid.PaymentID+"/refund"
		}
		body := map[string]any{"ticketIds": ids, "reason": "race"}
		var answers [2]*harness.Answer
		var errs [2]error
		var both sync.WaitGroup
		both.Go(func() {
			answers[0], errs[0] = b.With("Idempotency-Key", key).Call(t.Context(), http.MethodPost, path, body)
		})
		both.Go(func() {
			answers[1], errs[1] = other.With("Idempotency-Key", key).Call(t.Context(), http.MethodPost, otherPath, body)
		})
		both.Wait()
		require.NoError(t, errs[0])
		require.NoError(t, errs[1])
		statuses := []int{answers[0].Status, answers[1].Status}
		require.Contains(t, statuses, http.StatusAccepted, "%s %s", answers[0].Body, answers[1].Body)
		if operator {
			require.Contains(t, statuses, http.StatusConflict, "%s %s", answers[0].Body, answers[1].Body)
		}
		b.awaitPayment(p, paid, "REFUNDED")
		requireCharged(t, p, paid, paid.Amount)
		for _, id := range ids {
			b.awaitStatusAt(p, "/api/v1/my/tickets/"+id, "REFUNDED")
		}
		awaitSold(p, event, 0)
	}
}
