package chaos_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"urr.guru/scripts/harness"
)

// hall is a sale of standing places. Each order has the same quantity of places.
type hall struct {
	*run

	event    string
	quantity int
}

// buyer is a signed-in user with an order.
type buyer struct {
	*harness.Client
	ReservationID, OrderID, PaymentID string
	Amount                            int64
}

// openHall opens a sale of capacity places. A hold lasts holdSeconds.
func openHall(r *run, quantity, capacity, holdSeconds int) *hall {
	r.t.Helper()
	h := &hall{run: r, event: "hall-" + uuid.NewString()[:8], quantity: quantity}
	now := time.Now().UTC()
	h.Operator().MustCall(h.t.Context(), http.MethodPut, "/api/v1/admin/events/"+h.event, map[string]any{
		"title": "Hall", "artist": "Somebody", "venue": "Hall", "seating": "GENERAL", "currency": "KRW", "maxPerUser": quantity,
		"startsAt": now.AddDate(0, 1, 0), "salesOpenAt": now.Add(-time.Hour), "salesCloseAt": now.AddDate(0, 0, 20), "holdSeconds": holdSeconds,
		"slotSeconds": 3600, "threshold": 100_000, "sections": []map[string]any{{"section": "A", "price": 55000, "capacity": capacity}},
	}, nil)
	return h
}

// each admits n new buyers and calls do for each of them, for several at a time.
func (h *hall) each(n int, do func(context.Context, *buyer)) []*buyer {
	buyers := make([]*buyer, n)
	for i := range buyers {
		buyers[i] = &buyer{Client: h.Client("u-" + uuid.NewString()[:8])}
	}
	forEach(buyers, func(b *buyer) {
		h.enter(b)
		do(h.t.Context(), b)
	})
	return buyers
}

// forEach calls do for each element of a list, for 16 at a time.
func forEach[T any](list []T, do func(T)) {
	var all sync.WaitGroup
	slots := make(chan struct{}, 16)
	for _, element := range list {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			do(element)
		})
	}
	all.Wait()
}

// enter waits until the line admits a buyer.
func (h *hall) enter(b *buyer) {
	h.Eventually(func(ctx context.Context) error {
		var place struct{ Status string }
		a, err := b.Call(ctx, http.MethodPost, "/api/v1/queue/check/"+h.event, map[string]any{})
		if err == nil && (a.Decode(&place) != nil || place.Status != "active") {
			err = fmt.Errorf("not let in: %d %s", a.Status, a.Body)
		}
		return err
	})
}

func (h *hall) hold(ctx context.Context, b *buyer) {
	b.With("Idempotency-Key", uuid.NewString()).MustCall(ctx, http.MethodPost, "/api/v1/reservations",
		map[string]any{"eventId": h.event, "section": "A", "quantity": h.quantity}, b)
}

// requireStatus waits until the buyers' reservations have a status.
func (h *hall) requireStatus(buyers []*buyer, want string) {
	for _, b := range buyers {
		h.Eventually(func(ctx context.Context) error {
			var r struct{ Status string }
			a, err := b.Call(ctx, http.MethodGet, "/api/v1/my/reservations/"+b.ReservationID, nil)
			if err == nil && (a.Decode(&r) != nil || r.Status != want) {
				err = fmt.Errorf("reservation %s is %s, not %s", b.ReservationID, r.Status, want)
			}
			return err
		})
	}
}
