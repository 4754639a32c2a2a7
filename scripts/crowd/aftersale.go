package crowd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"urr.guru/pkg/loop"
	"urr.guru/scripts/internal/fetch"
)

// AfterSale makes buyers use their tickets: some return one of two tickets, some pass one on, and a
// third of the kept tickets are checked in.
type AfterSale struct {
	// ProviderURL is the URL of the payment sandbox. There some orders are refunded without the
	// platform's knowledge; if the URL is empty, none are.
	ProviderURL string
}

// Each constant n stands for "one in n".
const (
	oneBackEvery = 8  // orders of two tickets of which one is returned
	byHandEvery  = 20 // orders of two tickets that are refunded at the provider
	checkInEvery = 3  // kept tickets that are checked in
	twiceEvery   = 10 // checked-in tickets that a friend tries again
)

// orderPlan says what a buyer will do with the tickets of an order.
type orderPlan int

const (
	kept    orderPlan = iota // no ticket is returned
	oneBack                  // one of the tickets is refunded
	byHand                   // the whole order is refunded at the provider
)

// statusAge is the greatest age that a sale's status may have when a visitor reads it.
const statusAge = 5 * time.Second

// afterSale counts the orders whose tickets may still be given back, and has the employees.
type afterSale struct {
	AfterSale

	doors chan *employee // the employees who are free
	// Numbers of orders of two tickets, of those that keep both (keptOrders), of offers for money, of
	// kept tickets, and of check-ins.
	twoTicketOrders, keptOrders, offers, keptTickets, checkIns atomic.Int64

	mu sync.Mutex
	// openOrders is the number of orders whose seats may still come back, and lastClosed is the time
	// when an order was last removed from that number.
	openOrders int
	lastClosed time.Time
}

func newAfterSale(c *Crowd, o AfterSale) *afterSale {
	a := &afterSale{AfterSale: o, doors: make(chan *employee, doorCount)}
	for i := range doorCount {
		rng, name := rand.New(rand.NewPCG(c.seed, uint64(i))), fmt.Sprintf("door-%d", i+1)
		a.doors <- &employee{visitor: &visitor{crowd: c, rng: rng, userID: name, roles: []string{"staff"}, session: c.api.NewSession()}}
	}
	return a
}

// planOrder decides before the payment what the buyer will do with the tickets of an order. The
// crowd must know it then, to tell whether a sold-out sale stays sold out. The caller calls end
// when no ticket of the order can come back any more.
func (a *afterSale) planOrder(places int) (plan orderPlan, end func()) {
	if a == nil || places != 2 {
		return kept, func() {}
	}
	switch n := a.twoTicketOrders.Add(1); {
	case n%byHandEvery == 5 && a.ProviderURL != "":
		plan = byHand
	case n%oneBackEvery == 1:
		plan = oneBack
	default:
		return kept, func() {}
	}
	return plan, a.beginReturn()
}

// beginReturn notes that seats will be given back. The caller calls end when they are.
func (a *afterSale) beginReturn() (end func()) {
	if a == nil {
		return func() {}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.openOrders++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.openOrders--
		a.lastClosed = time.Now()
	}
}

// soldOutForGood reports whether a sale that was sold out at the time readAt stays sold out,
// because no order may give seats back any more, and the last ones are for sale again.
func (a *afterSale) soldOutForGood(readAt time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.openOrders == 0 && a.lastClosed.Add(returnWithin*time.Second+statusAge).Before(readAt)
}

// useTickets returns, passes on or checks in the tickets of an order, as the buyer has planned.
func (v *visitor) useTickets(ctx context.Context, plan orderPlan) error {
	a := v.crowd.after
	if a == nil {
		return nil
	}
	var returned []ticket
	remaining := v.tickets
	switch {
	case plan == kept || len(v.tickets) < 2:
	case plan == oneBack:
		returned, remaining = v.tickets[:1], v.tickets[1:]
	default:
		returned, remaining = v.tickets, nil
	}
	if len(returned) > 0 {
		if err := v.giveBack(ctx, plan, returned); err != nil {
			return err
		}
	}
	for i, t := range remaining {
		owner := v
		if i == 0 && plan == kept {
			var err error
			if owner, t, err = v.passOn(ctx, t); err != nil {
				return err
			}
		}
		if a.keptTickets.Add(1)%checkInEvery == 0 {
			if err := owner.checkIn(ctx, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// giveBack requests refunds of tickets, and then tries to get in with the refunded tickets.
func (v *visitor) giveBack(ctx context.Context, plan orderPlan, tickets []ticket) error {
	tally := &v.crowd.tally
	for _, t := range tickets {
		tally.dropTicket(t.Seat.SeatID, v.userID) // the seat may be sold again before the buyer hears of the refund
	}
	var err error
	if plan == byHand {
		err = v.refundByHand(ctx, tickets[0].PaymentID)
	} else {
		err = v.requestRefund(ctx, tickets[0])
	}
	if err != nil {
		return err
	}
	for _, t := range tickets {
		refunded, err := v.awaitRefund(ctx, t)
		switch {
		case err != nil:
			return err
		case !refunded:
			tally.addTicket(t.Seat.SeatID, v.userID)
			continue
		case plan == byHand:
			tally.ByHand.Add(1)
		default:
			tally.GivenBack.Add(1)
		}
		if err := v.showRefunded(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// requestRefund asks for the refund of a ticket, as the page of the order does.
func (v *visitor) requestRefund(ctx context.Context, t ticket) error {
	body := map[string]any{"ticketIds": []string{t.TicketID}, "reason": "cannot come"}
	var r struct{ Status string }
	err := v.post(ctx, StepRefund, "/api/v1/payments/"+t.PaymentID+"/refund", body, &r)
	if refused, ok := errors.AsType[*refusalError](err); ok && refused.status < http.StatusInternalServerError && refused.status != http.StatusTooManyRequests {
		v.crowd.tally.addWrongAnswer("the refund of ticket %s was refused: %v", t.TicketID, err)
	}
	if err == nil && r.Status != "REQUESTED" { // REQUESTED: it is not decided yet
		v.crowd.tally.addRefund(t.TicketID, time.Now())
	}
	return err
}

// refundByHand refunds a whole order at the provider, as the organiser could do on the provider's
// website. The platform learns of it from a webhook.
func (v *visitor) refundByHand(ctx context.Context, paymentID string) error {
	var p preparedPayment
	if err := v.get(ctx, StepPayment, "/api/v1/payments/"+paymentID, &p); err != nil {
		return err
	}
	var last error
	for range maxAttempts {
		status, err := v.crowd.after.postRefund(ctx, v.crowd.api.http, p.OrderID)
		// 422: nothing is left to refund, since an earlier attempt succeeded and its answer was lost.
		if err == nil && (status/100 == 2 || status == http.StatusUnprocessableEntity) {
			return nil
		}
		last = cmp.Or(err, errors.New(http.StatusText(status)))
		if !loop.Sleep(ctx, time.Second) {
			return ctx.Err()
		}
	}
	return fmt.Errorf("refund by hand: %w", last)
}

// postRefund asks the provider to refund what is left of an order, and returns the HTTP status.
func (a *afterSale) postRefund(ctx context.Context, client *http.Client, orderID string) (status int, err error) {
	ans, err := fetch.Call(ctx, client, http.MethodPost, a.ProviderURL+"/v1/charges/"+orderID+"/refunds/by-hand", "{}")
	if err != nil {
		return 0, err
	}
	return ans.Status, nil
}

// awaitRefund polls a ticket until it is refunded, or valid again because the provider refused.
func (v *visitor) awaitRefund(ctx context.Context, t ticket) (refunded bool, err error) {
	tally := &v.crowd.tally
	for {
		var current ticket
		if err := v.get(ctx, StepTicket, "/api/v1/my/tickets/"+t.TicketID, &current); err != nil {
			return false, err
		}
		switch {
		case current.Status == "VALID" && tally.dropRefund(t.TicketID):
			return false, nil
		case current.Status == "REFUNDING" || current.Status == "REFUNDED":
			tally.addRefund(t.TicketID, time.Now())
		}
		if current.Status == "REFUNDED" {
			return true, nil
		}
		if !loop.Sleep(ctx, paymentPoll) {
			return false, ctx.Err()
		}
	}
}
