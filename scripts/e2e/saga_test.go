package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
	"urr.guru/services/payment/sandbox"
)

// TestKilledBetweenCommitAndPublish kills the payment and the ticket service immediately before and
// after an event is published. After the restart it is published, and takes effect exactly once.
func TestKilledBetweenCommitAndPublish(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Options{})
	for _, service := range []string{platform.Payment, platform.Ticket} {
		for _, point := range []string{"outbox.before_publish", "outbox.after_publish"} {
			t.Logf("killing %s at %s", service, point)
			killAndRecover(t, p, service, point)
		}
	}
}

func killAndRecover(t *testing.T, p *harness.Platform, service, point string) {
	t.Helper()
	event := newSale(t, p)
	b := newBuyer(t, p, event)
	held := b.hold("A-1-1", "A-1-2")
	payment := b.prepare(held)
	awaitOutbox(t, p, service)

	p.Service(service).RestartWithFailpoints(0, point+"=exit")
	b.awaitPayment(p, payment, "PREPARED") // so that the gateway is connected to the new processes
	b.awaitStatus(p, held, "HELD")
	confirmUntilKilled(t, p, b, payment, service)
	require.Equal(t, "signal: killed", p.Service(service).AwaitEnd(0))
	p.Service(service).Start(0)

	b.awaitStatus(p, held, "CONFIRMED")
	require.Equal(t, 2, b.tickets())
	awaitSold(p, event, 2)
	requireOneEvent(t, p, "payment-events", "PAYMENT_CONFIRMED", payment.OrderID)
	requireOneEvent(t, p, "reservation-events", "RESERVATION_CONFIRMED", held.ReservationID)
	requireCharged(t, p, payment, 0)
}

// confirmUntilKilled sends the payment as a page does: with one key, and again while a service
// restarts. It returns when the payment is confirmed or the service was killed.
func confirmUntilKilled(t *testing.T, p *harness.Platform, b *buyer, payment preparedPayment, service string) {
	t.Helper()
	key, paymentKey := uuid.NewString(), "ok-"+uuid.NewString()
	p.Eventually(func(context.Context) error {
		answer, err := b.confirmAs(key, payment, paymentKey)
		switch {
		case !p.Service(service).Running(0), err == nil && answer.Status == http.StatusOK:
			return nil
		case err != nil:
			return err
		default:
			return fmt.Errorf("not confirmed: %d %s", answer.Status, answer.Body)
		}
	})
}

// awaitOutbox waits until the service's outbox is empty, so that only the event under test triggers
// the failpoint.
func awaitOutbox(t *testing.T, p *harness.Platform, service string) {
	t.Helper()
	db := p.DB(service)
	p.Eventually(func(ctx context.Context) error {
		var rows int
		if err := db.QueryRow(ctx, "SELECT count(*) FROM outbox").Scan(&rows); err != nil {
			return err
		}
		if rows > 0 {
			return fmt.Errorf("%d events are not published", rows)
		}
		return nil
	})
}

// requireOneEvent requires that the topic has one event of this type for the key. The event may be
// published more than once, under the same id.
func requireOneEvent(t *testing.T, p *harness.Platform, topic, eventType, key string) {
	t.Helper()
	records, err := p.Records(t.Context(), topic)
	require.NoError(t, err)
	ids := map[string]bool{}
	for _, r := range records {
		headers := map[string]string{}
		for _, h := range r.Headers {
			headers[h.Key] = string(h.Value)
		}
		if string(r.Key) == key && headers["ce_type"] == eventType {
			ids[headers["ce_id"]] = true
		}
	}
	require.Len(t, ids, 1, "%s of %s in %s", eventType, key, topic)
}

// requireCharged requires one charge with this refunded amount in the provider's ledger.
func requireCharged(t *testing.T, p *harness.Platform, paid preparedPayment, refunded int64) {
	t.Helper()
	charges, _, err := p.Ledger(t.Context())
	require.NoError(t, err)
	var found []sandbox.Charge
	for _, c := range charges {
		if c.OrderID == paid.OrderID && c.Status == sandbox.Captured {
			found = append(found, c)
		}
	}
	require.Len(t, found, 1, "charges of the order")
	require.Equal(t, paid.Amount, found[0].Amount)
	require.Equal(t, refunded, found[0].RefundedAmount)
}

// TestLatePaymentIsRefunded lets a hold expire before the provider responds. The late charge is
// refunded automatically: no ticket is issued, and the seats are free.
func TestLatePaymentIsRefunded(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Options{})
	event := newSale(t, p)
	// The provider captures the charge after 3 s. On a busy machine this may be before the hold has
	// expired. Then the purchase is completed, and another buyer tries the next seats.
	var (
		b       *buyer
		seats   []string
		held    reservation
		payment preparedPayment
		sold    int64
	)
	for row := 1; ; row += 2 {
		b, seats = newBuyer(t, p, event), []string{fmt.Sprintf("A-2-%d", row), fmt.Sprintf("A-2-%d", row+1)}
		held = b.hold(seats...)
		payment = b.prepare(held)
		pending := payLate(t, p, b, payment)
		p.Service(platform.Sandbox).Pause(0) // or its success may arrive before the hold expires
		late := pending && expireHold(t, p, held)
		p.Service(platform.Sandbox).Resume(0)
		if late {
			break
		}
		b.awaitStatus(p, held, "CONFIRMED")
		sold += 2
	}
	b.awaitStatus(p, held, "REJECTED")
	b.awaitPayment(p, payment, "REFUNDED")
	require.Zero(t, b.tickets())
	requireCharged(t, p, payment, payment.Amount)
	awaitSold(p, event, sold)

	next := newBuyer(t, p, event)
	again := next.hold(seats...)
	require.Equal(t, "HELD", again.Status, "the seats are free")
}

// payLate sends a payment that the provider captures later, and reports whether the provider has
// received the charge and not decided yet.
func payLate(t *testing.T, p *harness.Platform, b *buyer, payment preparedPayment) bool {
	t.Helper()
	answer, _ := b.confirm(payment, "late-"+uuid.NewString())
	require.Equal(t, http.StatusOK, answer.Status, "%s", answer.Body)
	var confirmed struct{ Status string }
	require.NoError(t, answer.Decode(&confirmed))
	charges, _, err := p.Ledger(t.Context())
	require.NoError(t, err)
	for _, c := range charges {
		if c.OrderID == payment.OrderID && c.Status == sandbox.Pending {
			require.Equal(t, "PENDING", confirmed.Status)
			return true
		}
	}
	return false
}

// expireHold moves the end of the hold into the past, if it is being paid, and waits until this
// payment has ended. It reports whether the reservation expired before it was confirmed.
func expireHold(t *testing.T, p *harness.Platform, held reservation) (expired bool) {
	t.Helper()
	db := p.DB(platform.Ticket)
	tag, err := db.Exec(t.Context(), `UPDATE reservations SET expires_at = now() - interval '1 second' WHERE reservation_id = $1 AND status = 'PAYING'`,
		held.ReservationID)
	require.NoError(t, err)
	if tag.RowsAffected() == 0 {
		return false
	}
	_, err = db.Exec(t.Context(), `UPDATE seats SET held_until = now() - interval '1 second' WHERE reservation_id = $1 AND status = 'HELD'`, held.ReservationID)
	require.NoError(t, err)
	p.Eventually(func(ctx context.Context) error {
		var status string
		if err := db.QueryRow(ctx, `SELECT status FROM reservations WHERE reservation_id = $1`, held.ReservationID).Scan(&status); err != nil {
			return err
		}
		if status == "PAYING" {
			return errors.New("the reservation is still being paid")
		}
		expired = status != "CONFIRMED" // the success was processed before the expiry
		return nil
	})
	return expired
}
