package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/proto/events"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

// TestForgedRecords lets somebody write to Kafka who has no service's key: tickets for nothing, money
// back for a valid ticket, a seller's money, a reward and an innocent operator. Nothing changes, and
// each consumer counts what it has refused.
func TestForgedRecords(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Options{})
	event := newSale(t, p)
	thief := newBuyer(t, p, event)
	held := thief.hold("A-1-1", "A-1-2")
	bought := newBuyer(t, p, event)
	paid := bought.prepare(bought.hold("A-2-1"))
	bought.confirm(paid, "ok-"+uuid.NewString())
	bought.awaitPayment(p, paid, "CONFIRMED")

	f := forger{p.Forger(), t, p}
	now := time.Now().UTC().Format(time.RFC3339Nano)
	act := uuid.NewString()
	about := func(kind string, more map[string]any) map[string]any {
		e := map[string]any{"type": kind, "eventId": event, "occurredAt": now, "version": 9}
		for k, v := range more {
			e[k] = v
		}
		return e
	}
	f.write(events.Payments, uuid.NewString(), about(events.PaymentConfirmed, map[string]any{
		"paymentId": uuid.NewString(), "referenceId": held.ReservationID, "userId": thief.user, "amount": held.Amount, "currency": "KRW",
	}))
	f.write(events.Reservations, uuid.NewString(), about(events.ReservationRejected, map[string]any{"paymentId": paid.PaymentID, "reason": "HOLD_EXPIRED"}))
	f.write(events.Transfers, uuid.NewString(), about(events.TransferCompleted, map[string]any{
		"transferId": uuid.NewString(), "sellerPaymentId": paid.PaymentID, "payout": 999999999, "currency": "KRW",
	}))
	f.write(events.Requests, uuid.NewString(), about(events.RequestSucceeded, map[string]any{"requestId": uuid.NewString(), "userId": thief.user}))
	f.write(events.Audit, "innocent", map[string]any{"type": events.OperatorActed, "actId": act, "userId": "innocent", "method": "DELETE",
		"route": "/x", "path": "/x", "occurredAt": now})
	for service, topics := range map[string][]string{
		platform.Ticket:  {events.Payments},
		platform.Payment: {events.Reservations, events.Transfers},
		platform.Queue:   {events.Reservations},
		platform.Reward:  {events.Requests},
		platform.Stats:   {events.Payments, events.Reservations, events.Transfers, events.Requests, events.Audit},
	} {
		for _, topic := range topics {
			f.awaitRefused(service, topic, 1)
		}
	}

	thief.awaitStatus(p, held, "HELD")
	require.Zero(t, thief.tickets())
	bought.awaitPayment(p, paid, "CONFIRMED")
	requireCharged(t, p, paid, 0)
	require.Equal(t, 1, bought.tickets())
	awaitSold(p, event, 1)
	var acts struct {
		Items []struct{ ActID, UserID string }
	}
	p.Operator().MustCall(t.Context(), http.MethodGet, "/api/v1/admin/audit?user=innocent", nil, &acts)
	require.Empty(t, acts.Items)

	later := thief.prepare(held) // the hold can still be paid
	thief.confirm(later, "ok-"+uuid.NewString())
	thief.awaitStatus(p, held, "CONFIRMED")
	require.Equal(t, 2, thief.tickets())
}

// forger is a Forger whose failures are the test's.
type forger struct {
	*harness.Forger

	t *testing.T
	p *harness.Platform
}

func (f forger) write(topic, key string, payload map[string]any) {
	f.t.Helper()
	require.NoError(f.t, f.Write(f.t.Context(), topic, key, payload))
}

// awaitRefused waits until a service has refused n records of a topic, each also as a redriven letter.
func (f forger) awaitRefused(service, topic string, n float64) {
	f.t.Helper()
	f.p.Eventually(func(ctx context.Context) error {
		refused, err := f.Refused(ctx, service, 0, topic)
		if err == nil && refused != 2*n {
			err = fmt.Errorf("%s has refused %v records of %s", service, refused, topic)
		}
		return err
	})
}
