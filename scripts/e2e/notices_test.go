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

// TestNotices sells tickets, gives one back and passes one on. A webhook is told of each, signed
// and in order, although its receiver fails at first; the buyer gets e-mails.
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
	var told []string
	ofOrder := map[string][]string{} // what was told of an order, in the order of arrival
	attempts := 0
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n struct {
			Type string
			Data struct{ ReservationID string }
		}
		body, err := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		attempts++
		if errors.Join(err, verifier.Verify(body, r.Header), json.Unmarshal(body, &n)) != nil || attempts%2 == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		} else {
			told = append(told, n.Type)
			ofOrder[n.Data.ReservationID] = append(ofOrder[n.Data.ReservationID], n.Type)
		}
	}))
	t.Cleanup(receiver.Close)
	p.Operator().Must(t.Context(), http.MethodPut, "/api/v1/admin/webhooks/e2e", map[string]any{
		"url": receiver.URL, "secret": secret, "types": []string{"TICKETS_ISSUED", "TICKETS_REFUNDED", "TICKET_TRANSFERRED", "EVENT_CANCELLED"},
	}, nil)

	seller := letIn(t, p, event)
	held := seller.hold("A-1-1", "A-1-2")
	_, err = p.DB(platform.Ticket).Exec(t.Context(), "UPDATE reservations SET email = 'seller@example.com' WHERE reservation_id = $1", held.ReservationID)
	require.NoError(t, err)
	paying := seller.prepare(held)
	seller.confirm(paying, "ok-notices")
	seller.awaitStatus(p, held, "CONFIRMED")
	tickets := seller.shownTickets()
	friend := &buyer{t: t, user: "friend-of-" + seller.user, event: event}
	friend.Client = p.Client(friend.user)
	friend.accept(seller.offer(tickets[0].TicketID, 0).Claim)
	p.Operator().Must(t.Context(), http.MethodPost, "/api/v1/admin/events/"+event+"/cancel", map[string]any{"graceSeconds": 0}, nil)

	p.Eventually(func(context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if len(told) < 5 {
			return fmt.Errorf("told only %q", told)
		}
		return nil
	})
	require.ElementsMatch(t, []string{"TICKETS_ISSUED", "TICKET_TRANSFERRED", "EVENT_CANCELLED", "TICKETS_REFUNDED", "TICKETS_REFUNDED"}, told)
	mu.Lock()
	require.Greater(t, len(ofOrder[held.ReservationID]), 1, "%q", ofOrder)
	require.Equal(t, "TICKETS_ISSUED", ofOrder[held.ReservationID][0])
	mu.Unlock()
	var log struct {
		Items []struct {
			NoticeID, Status string
			Attempts         int
		}
	}
	p.Operator().Must(t.Context(), http.MethodGet, "/api/v1/admin/webhooks/e2e/deliveries", nil, &log)
	require.NotEmpty(t, log.Items)
	var replayed struct{ Queued int }
	p.Operator().Must(t.Context(), http.MethodPost, "/api/v1/admin/webhooks/e2e/replay",
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
