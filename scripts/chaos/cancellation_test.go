package chaos_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

// cancelledSize is the size of a cancelled sale, in orders of two tickets: how many are sold, held
// at checkout, being charged at a cancellation, and refunded by users or by hand. waiting visitors
// are in the line. undoAfter is the time from the first cancellation to its undo.
type cancelledSize struct {
	sold, held, charged, refunding, waiting int
	undoAfter                               time.Duration
}

var (
	longCancellation  = cancelledSize{sold: 1000, held: 200, charged: 20, refunding: 50, waiting: 200, undoAfter: 4 * time.Minute}
	shortCancellation = cancelledSize{sold: 12, held: 4, charged: 2, refunding: 4, waiting: 3, undoAfter: 2 * time.Second}
)

// cancelled is a sale that is cancelled while buyers are at checkout.
type cancelled struct {
	*hall

	cancelledSize
}

// TestCancelledSale cancels a sale while buyers are at checkout and being charged, and undoes that
// shortly before the refunds would begin. It requires that no ticket and no waiting place is lost,
// and that open charges became tickets. It cancels the sale again while buyers pay, request refunds
// and are refunded by hand. Every payment is refunded once, whatever is killed meanwhile.
func TestCancelledSale(t *testing.T) {
	parallelIfShort(t)
	seed, _ := seededRandom(t)
	size := shortCancellation
	if *full {
		size = longCancellation
	}
	c := &cancelled{cancelledSize: size, hall: openHall(setup(t, shortSale, seed), 2, 100_000, 3600)}
	sold := c.each(c.sold, func(ctx context.Context, b *buyer) { c.buy(ctx, b, "ok-") })
	c.requireStatus(sold, "CONFIRMED")
	held := c.each(c.held, c.hold)

	awaitCharged := c.charge()
	c.act("pause", map[string]any{})
	places := c.join()
	c.act("cancel", map[string]any{}) // refunds begin in five minutes
	paid := append(sold, awaitCharged()...)
	c.stayInLine(places)
	c.act("cancel/undo", map[string]any{})
	c.requireTickets()
	c.requirePlaces(places)
	c.act("resume", map[string]any{})

	awaitLate := c.charge()
	var others sync.WaitGroup
	others.Go(func() { c.tryToPay(held[:c.held/2]) })
	others.Go(func() { c.refundByHand(sold[:c.refunding/2]) })
	others.Go(func() { c.requestRefunds(sold[c.refunding/2 : c.refunding]) })
	c.act("cancel", map[string]any{})
	require.Zero(t, c.tryToPay(held[c.held/2:]), "paid for a cancelled event")
	c.act("cancel/refund", map[string]any{})
	if *full {
		for i := range 2 {
			c.Service(platform.Ticket).Kill(i)
			c.Service(platform.Payment).Kill(i)
			c.Service(platform.Ticket).Start(i)
			c.Service(platform.Payment).Start(i)
		}
	}
	others.Wait()
	c.requireRefunded(append(paid, awaitLate()...))
}

// charge lets new buyers pay by charges that the provider makes some seconds later, and returns
// when all payments have begun. wait returns the buyers once all are answered.
func (c *cancelled) charge() (wait func() []*buyer) {
	ticket := c.DB(platform.Ticket)
	begun := func(ctx context.Context) (n int, err error) {
		err = ticket.QueryRow(ctx, `SELECT count(*) FROM reservations WHERE event_id = $1 AND status IN ('PAYING', 'CONFIRMED')`, c.event).Scan(&n)
		return n, err
	}
	before, err := begun(c.t.Context())
	require.NoError(c.t, err)
	done := make(chan []*buyer, 1)
	go func() { done <- c.each(c.charged, func(ctx context.Context, b *buyer) { c.buy(ctx, b, "late-") }) }()
	c.Eventually(func(ctx context.Context) error {
		n, err := begun(ctx)
		if err == nil && n < before+c.charged {
			err = fmt.Errorf("%d payments have begun, not %d", n-before, c.charged)
		}
		return err
	})
	return func() []*buyer { return <-done }
}

func (c *cancelled) act(act string, body any) {
	c.Operator().MustCall(c.t.Context(), http.MethodPost, "/api/v1/admin/events/"+c.event+"/"+act, body, nil)
}

func (c *cancelled) buy(ctx context.Context, b *buyer, key string) {
	c.hold(ctx, b)
	b.With("Idempotency-Key", uuid.NewString()).MustCall(ctx, http.MethodPost, "/api/v1/payments/prepare",
		map[string]any{"paymentType": "reservation", "referenceId": b.ReservationID}, b)
	b.With("Idempotency-Key", uuid.NewString()).MustCall(ctx, http.MethodPost, "/api/v1/payments/confirm",
		map[string]any{"orderId": b.OrderID, "paymentKey": key + uuid.NewString(), "amount": b.Amount}, nil)
}

// join puts visitors into the line of the paused sale, one after the other. It replaces a visitor
// who is admitted because the queue service does not know of the pause yet.
func (c *cancelled) join() []*harness.Client {
	visitors := make([]*harness.Client, c.waiting)
	for i := range visitors {
		c.Eventually(func(ctx context.Context) error {
			visitors[i] = c.Client("w-" + uuid.NewString()[:8])
			var place struct{ Status string }
			a, err := visitors[i].Call(ctx, http.MethodPost, "/api/v1/queue/check/"+c.event, map[string]any{})
			if err == nil && (a.Decode(&place) != nil || place.Status != "queued") {
				err = fmt.Errorf("not in the line: %d %s", a.Status, a.Body)
			}
			return err
		})
	}
	return visitors
}

// stayInLine requires that visitors keep their places until the time to undo the cancellation.
func (c *cancelled) stayInLine(places []*harness.Client) {
	for undo := time.Now().Add(c.undoAfter); time.Now().Before(undo); time.Sleep(time.Second) {
		c.requirePlaces(places)
	}
}

// requirePlaces requires that the visitors are in the line in the order in which they came.
func (c *cancelled) requirePlaces(places []*harness.Client) {
	for i, v := range places {
		require.Equal(c.t, i+1, c.position(v), "a waiting place")
	}
}

func (c *cancelled) position(v *harness.Client) int {
	var place struct{ Position int }
	v.MustCall(c.t.Context(), http.MethodGet, "/api/v1/queue/status/"+c.event, nil, &place)
	return place.Position
}

// requireTickets waits until the paid orders have their tickets, and no other tickets exist.
func (c *cancelled) requireTickets() {
	c.Eventually(func(ctx context.Context) error {
		sales, err := c.stores.Sales(ctx, c.event)
		if want := 2 * (c.sold + c.charged); err == nil && sales.Sold != want {
			err = fmt.Errorf("%d tickets, not %d", sales.Sold, want)
		}
		return err
	})
}

// tryToPay lets buyers at checkout try to pay, and returns how many paid.
func (c *cancelled) tryToPay(buyers []*buyer) (paid int) {
	for _, b := range buyers {
		var p buyer
		a, err := b.With("Idempotency-Key", uuid.NewString()).Call(c.t.Context(), http.MethodPost, "/api/v1/payments/prepare",
			map[string]any{"paymentType": "reservation", "referenceId": b.ReservationID})
		if err == nil && a.Status/100 == 2 && a.Decode(&p) == nil {
			a, err = b.With("Idempotency-Key", uuid.NewString()).Call(c.t.Context(), http.MethodPost, "/api/v1/payments/confirm",
				map[string]any{"orderId": p.OrderID, "paymentKey": "ok-" + uuid.NewString(), "amount": p.Amount})
			if err == nil && a.Status/100 == 2 {
				paid++
				continue
			}
		}
		c.expectRefusal(a, err, "EVENT_CANCELLED", "NOT_PAYABLE") // NOT_PAYABLE once the hold has ended
	}
	return paid
}

// requestRefunds lets buyers request refunds. Late requests are refused: refunds have begun then.
func (c *cancelled) requestRefunds(buyers []*buyer) {
	for _, b := range buyers {
		a, err := b.With("Idempotency-Key", uuid.NewString()).Call(c.t.Context(), http.MethodPost, "/api/v1/payments/"+b.PaymentID+"/refund",
			map[string]any{"reason": "cannot come"})
		if err != nil || a.Status != http.StatusAccepted {
			c.expectRefusal(a, err, "EVENT_CANCELLED", "NOT_REFUNDABLE", "TICKETS_PENDING")
		}
	}
}

// expectRefusal fails the test unless a request was refused with one of the codes, or the platform
// was overloaded.
func (c *cancelled) expectRefusal(a *harness.Answer, err error, codes ...string) {
	if err != nil || !a.Overloaded() && !slices.Contains(codes, a.Code()) {
		c.t.Errorf("answered %d %s: %v", a.Status, a.Body, err)
	}
}

// refundByHand refunds orders at the provider, without the payment service's knowledge.
func (c *cancelled) refundByHand(buyers []*buyer) {
	for _, b := range buyers {
		url := c.Wiring().SandboxURL + "/v1/charges/" + b.OrderID + "/refunds/by-hand"
		req, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, url, strings.NewReader("{}"))
		if err == nil {
			req.Header.Set("Content-Type", "application/json")
			var res *http.Response
			if res, err = http.DefaultClient.Do(req); err == nil {
				_ = res.Body.Close() // a refusal means that it is refunded already
			}
		}
		if err != nil {
			c.t.Errorf("refund by hand: %v", err)
		}
	}
}

// requireRefunded waits until nobody has a ticket, the audit finds no fault, and each payment in
// paid is refunded.
func (c *cancelled) requireRefunded(paid []*buyer) {
	c.Eventually(func(ctx context.Context) error {
		sales, err := c.stores.Sales(ctx, c.event)
		if err != nil {
			return err
		}
		faults, err := c.stores.CancelledFaults(ctx, c.event)
		if all := faults.All(); err == nil && (len(all) > 0 || sales.Sold > 0 || sales.Unbalanced > 0) {
			err = fmt.Errorf("%d tickets, %d unbalanced, %v", sales.Sold, sales.Unbalanced, all)
		}
		return err
	})
	for _, b := range paid {
		c.Eventually(func(ctx context.Context) error {
			var p struct{ Status string }
			a, err := b.Call(ctx, http.MethodGet, "/api/v1/payments/"+b.PaymentID, nil)
			if err == nil && (a.Decode(&p) != nil || p.Status != "REFUNDED") {
				err = fmt.Errorf("payment %s is %s", b.PaymentID, p.Status)
			}
			return err
		})
	}
}
