// Package e2e_test runs whole user journeys on real backends.
package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// newSale opens a sale of 2 rows of 10 seats without a waiting room, under a new id. Its holds
// outlast the test: otherwise the Kafka event of an expiring hold could trigger the failpoint of a
// later test.
func newSale(t *testing.T, p *harness.Platform) string {
	t.Helper()
	id := "e2e-" + uuid.NewString()[:8]
	p.Operator().MustCall(t.Context(), http.MethodPut, "/api/v1/admin/events/"+id, saleSpec(), nil)
	return id
}

// saleSpec returns the settings of an event of 20 seats that is on sale.
func saleSpec() map[string]any {
	now := time.Now().UTC()
	return map[string]any{
		"title": "An evening", "artist": "Somebody", "venue": "Hall 1", "seating": "ASSIGNED", "currency": "KRW", "maxPerUser": 4, "returnWithin": 0, "transferable": "PRICED",
		"startsAt": now.AddDate(0, 1, 0), "salesOpenAt": now.Add(-time.Hour), "salesCloseAt": now.AddDate(0, 0, 20),
		"holdSeconds": 3600, "slotSeconds": 3600, "threshold": 100,
		"sections": []map[string]any{{"section": "A", "price": 55000, "rows": 2, "seatsPerRow": 10}},
	}
}

type reservation struct {
	ReservationID, Status string
	Amount                int64
}

// buyer is a signed-in user.
type buyer struct {
	*harness.Client
	t     *testing.T
	user  string
	event string
}

// newBuyer signs a user in and joins the empty line, which admits the user at once.
func newBuyer(t *testing.T, p *harness.Platform, event string) *buyer {
	t.Helper()
	b := &buyer{t: t, user: "user-" + uuid.NewString()[:8], event: event}
	b.Client = p.Client(b.user)
	p.Eventually(func(ctx context.Context) error {
		var place struct{ Status string }
		a, err := b.Call(ctx, http.MethodPost, "/api/v1/queue/check/"+event, map[string]any{})
		if err != nil {
			return err
		}
		if a.Status != http.StatusOK || a.Decode(&place) != nil || place.Status != "active" {
			return fmt.Errorf("not let in: %d %s", a.Status, a.Body)
		}
		return nil
	})
	return b
}

func (b *buyer) hold(seats ...string) reservation {
	b.t.Helper()
	var r reservation
	a := b.With("Idempotency-Key", uuid.NewString()).MustCall(b.t.Context(), http.MethodPost, "/api/v1/seats/reserve",
		map[string]any{"eventId": b.event, "seatIds": seats}, &r)
	require.Equal(b.t, http.StatusCreated, a.Status)
	return r
}

type preparedPayment struct {
	PaymentID, OrderID string
	Amount             int64
}

func (b *buyer) prepare(r reservation) preparedPayment {
	b.t.Helper()
	p := b.prepareFor("reservation", r.ReservationID)
	require.Equal(b.t, r.Amount, p.Amount)
	return p
}

// prepareFor prepares the payment of a reservation, a transfer or a membership.
func (b *buyer) prepareFor(kind, id string) (p preparedPayment) {
	b.t.Helper()
	b.With("Idempotency-Key", uuid.NewString()).MustCall(b.t.Context(), http.MethodPost, "/api/v1/payments/prepare",
		map[string]any{"paymentType": kind, "referenceId": id}, &p)
	return p
}

// confirm sends the payment, and repeats it while the platform is overloaded. atOnce is true if it
// was sent only once.
func (b *buyer) confirm(p preparedPayment, paymentKey string) (answer *harness.Answer, atOnce bool) {
	b.t.Helper()
	key, attempts := uuid.NewString(), 0
	answer, err := harness.RepeatWhileOverloaded(b.t.Context(), b.t, func() (*harness.Answer, error) {
		attempts++
		return b.confirmAs(key, p, paymentKey)
	})
	require.NoError(b.t, err)
	return answer, attempts == 1
}

// confirmAs sends the payment once, with the given Idempotency-Key. It returns an error if there is
// no response, for example because a service was killed.
func (b *buyer) confirmAs(key string, p preparedPayment, paymentKey string) (*harness.Answer, error) {
	return b.With("Idempotency-Key", key).Call(b.t.Context(), http.MethodPost, "/api/v1/payments/confirm",
		map[string]any{"orderId": p.OrderID, "paymentKey": paymentKey, "amount": p.Amount})
}

// awaitStatus polls the buyer's reservation until it has the status.
func (b *buyer) awaitStatus(p *harness.Platform, r reservation, status string) {
	b.t.Helper()
	b.awaitStatusAt(p, "/api/v1/my/reservations/"+r.ReservationID, status)
}

// awaitPayment polls the buyer's payment until it has the status.
func (b *buyer) awaitPayment(p *harness.Platform, payment preparedPayment, status string) {
	b.t.Helper()
	b.awaitStatusAt(p, "/api/v1/payments/"+payment.PaymentID, status)
}

// awaitStatusAt polls a path until the field status of the answer has the given value.
func (b *buyer) awaitStatusAt(p *harness.Platform, path, status string) {
	b.t.Helper()
	p.Eventually(func(ctx context.Context) error {
		var current struct{ Status string }
		a, err := b.Call(ctx, http.MethodGet, path, nil)
		if err == nil {
			err = a.Decode(&current)
		}
		if err != nil {
			return err
		}
		if current.Status != status {
			return fmt.Errorf("%s is %q, not %s: %d", path, current.Status, status, a.Status)
		}
		return nil
	})
}

// tickets counts the buyer's tickets.
func (b *buyer) tickets() int {
	b.t.Helper()
	var list struct {
		Items []struct{ Code, Status string }
	}
	b.MustCall(b.t.Context(), http.MethodGet, "/api/v1/my/tickets", nil, &list)
	return len(list.Items)
}

// awaitSold waits until the public sales figures show exactly this number of sold seats.
func awaitSold(p *harness.Platform, event string, seats int64) {
	p.Eventually(func(ctx context.Context) error {
		var figures struct{ SeatsSold int64 }
		a, err := p.Visitor().Call(ctx, http.MethodGet, "/api/v1/stats/events/"+url.PathEscape(event), nil)
		if err == nil {
			err = a.Decode(&figures)
		}
		if err != nil {
			return err
		}
		if figures.SeatsSold != seats {
			return fmt.Errorf("%d seats are sold in the figures, not %d", figures.SeatsSold, seats)
		}
		return nil
	})
}
