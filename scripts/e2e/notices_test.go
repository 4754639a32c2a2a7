package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/harness"
	"urr.guru/scripts/mailsink"
	"urr.guru/scripts/platform"
)

// TestNotices sells tickets, passes one on, and cancels the event. A webhook gets a signed notice
// of each, in order, although its receiver refuses every other attempt. The buyer gets e-mails.
func TestNotices(t *testing.T) {
	t.Parallel()
	sink, err := mailsink.Listen(t.Context(), "127.0.0.1:0", t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sink.Close()) })
	p := harness.Start(t, harness.Options{Env: map[string][]string{platform.Ticket: {
		"SMTP_ADDR=" + sink.Addr(), "SMTP_TLS=none", "SMTP_FROM=tickets@urr.example", "PUBLIC_URL=https://urr.example",
		"SWEEP_INTERVAL=100ms", "NOTICE_RETRY_AFTER=100ms",
	}}})
	const secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"
	verifier, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	event := newSale(t, p)
	var mu sync.Mutex
	var received []string
	byReservation := map[string][]string{} // types of the notices about an order, as they arrived
	attempts, refunded := 0, int64(0)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n struct {
			Type string
			Data struct {
				ReservationID string
				Amount        int64
			}
		}
		body, err := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		attempts++
		if errors.Join(err, verifier.Verify(body, r.Header), json.Unmarshal(body, &n)) != nil || attempts%2 == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		} else {
			received = append(received, n.Type)
			if n.Type == "TICKETS_REFUNDED" {
				refunded += n.Data.Amount
			}
			byReservation[n.Data.ReservationID] = append(byReservation[n.Data.ReservationID], n.Type)
		}
	}))
	t.Cleanup(receiver.Close)
	p.Operator().MustCall(t.Context(), http.MethodPut, "/api/v1/admin/webhooks/e2e", map[string]any{
		"url": receiver.URL, "secret": secret, "types": []string{"TICKETS_ISSUED", "TICKETS_REFUNDED", "TICKET_TRANSFERRED", "EVENT_CANCELLED"},
	}, nil)

	seller := newBuyer(t, p, event)
	held := seller.hold("A-1-1", "A-1-2")
	_, err = p.DB(platform.Ticket).Exec(t.Context(), "UPDATE reservations SET email = 'seller@example.com' WHERE reservation_id = $1", held.ReservationID)
	require.NoError(t, err)
	payment := seller.prepare(held)
	seller.confirm(payment, "ok-notices")
	seller.awaitStatus(p, held, "CONFIRMED")
	tickets := seller.shownTickets()
	friend := &buyer{t: t, user: "friend-of-" + seller.user, event: event}
	friend.Client = p.Client(friend.user)
	friend.accept(seller.offer(tickets[0].TicketID, 0).Claim)
	p.Operator().MustCall(t.Context(), http.MethodPost, "/api/v1/admin/events/"+event+"/cancel", map[string]any{"graceSeconds": 0}, nil)

	p.Eventually(func(context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if len(received) < 4 {
			return fmt.Errorf("told only %q", received)
		}
		return nil
	})
	require.ElementsMatch(t, []string{"TICKETS_ISSUED", "TICKET_TRANSFERRED", "EVENT_CANCELLED", "TICKETS_REFUNDED"}, received)
	mu.Lock()
	require.Equal(t, payment.Amount, refunded, "also for the ticket that was passed on")
	require.Greater(t, len(byReservation[held.ReservationID]), 1, "%q", byReservation)
	require.Equal(t, "TICKETS_ISSUED", byReservation[held.ReservationID][0])
	mu.Unlock()
	var log struct {
		Items []struct {
			NoticeID, Status string
			Attempts         int
		}
	}
	p.Operator().MustCall(t.Context(), http.MethodGet, "/api/v1/admin/webhooks/e2e/deliveries", nil, &log)
	require.NotEmpty(t, log.Items)
	var replayed struct{ Queued int }
	p.Operator().MustCall(t.Context(), http.MethodPost, "/api/v1/admin/webhooks/e2e/replay",
		map[string]any{"noticeIds": []string{log.Items[len(log.Items)-1].NoticeID}}, &replayed)
	require.Equal(t, 1, replayed.Queued)

	p.Eventually(func(context.Context) error {
		mails, err := sink.Mails()
		var subjects []string
		for _, m := range mails {
			if m.To == "<seller@example.com>" {
				subjects = append(subjects, m.Subject)
			}
		}
		if len(subjects) < 4 {
			return errors.Join(err, fmt.Errorf("got only %q", subjects))
		}
		require.ElementsMatch(t, []string{
			"Your tickets: An evening", "Your ticket was passed on: An evening", "Cancelled: An evening", "Refund: An evening",
		}, subjects)
		return nil
	})
}
