package crowd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"urr.guru/pkg/loop"
)

// AfterSale says what buyers do with their tickets: some give one of two back, and every third goes
// to the doors.
type AfterSale struct {
	// ProviderURL is the payment sandbox, at which a person refunds some orders without the
	// platform's knowledge; empty: nobody does.
	ProviderURL string
}

// One of so many orders of two tickets, kept tickets, or check-ins.
const (
	oneBackEvery = 8
	byHandEvery  = 20
	checkInEvery = 3
	twiceEvery   = 10
)

// fate is what becomes of an order.
type fate int

const (
	kept fate = iota
	oneBack
	byHand
)

// statusAge is how old the status of a sale may be when it is read.
const statusAge = 5 * time.Second

// afterSale is the state of AfterSale in a run.
type afterSale struct {
	AfterSale

	doors, office        chan *employee
	pairs, kept, checked atomic.Int64

	mu sync.Mutex
	// open is the number of orders whose places may come back, and closed when the last one ended.
	open   int
	closed time.Time
}

func newAfterSale(c *Crowd, o AfterSale) *afterSale {
	a := &afterSale{AfterSale: o, doors: make(chan *employee, doorCount), office: make(chan *employee, 1)}
	employ := func(name, role string, stream uint64) *employee {
		rng := rand.New(rand.NewPCG(c.seed, stream))
		return &employee{visitor: &visitor{crowd: c, rng: rng, userID: name, roles: []string{role}, session: c.api.NewSession()}}
	}
	for i := range doorCount {
		a.doors <- employ(fmt.Sprintf("door-%d", i+1), "staff", uint64(i))
	}
	a.office <- employ("crowd-organiser", "admin", doorCount)
	return a
}

// begin decides what becomes of an order of some places, before it is paid: when all places are
// sold, it must be known that some may come back. end is called when they cannot any more.
func (a *afterSale) begin(places int) (f fate, end func()) {
	if a == nil || places != 2 {
		return kept, func() {}
	}
	switch n := a.pairs.Add(1); {
	case n%byHandEvery == 5 && a.ProviderURL != "":
		f = byHand
	case n%oneBackEvery == 1:
		f = oneBack
	default:
		return kept, func() {}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open++
	return f, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.open--
		a.closed = time.Now()
	}
}

// final reports whether a sale that was said to be sold out stays so: no place may come back after
// the status was asked for.
func (a *afterSale) final(asked time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.open == 0 && a.closed.Add(statusAge).Before(asked)
}

// useTickets is what a buyer does with the tickets.
func (v *visitor) useTickets(ctx context.Context, f fate) error {
	a := v.crowd.after
	if a == nil {
		return nil
	}
	var back []ticket
	remaining := v.tickets
	switch {
	case f == kept || len(v.tickets) < 2:
	case f == oneBack:
		back, remaining = v.tickets[:1], v.tickets[1:]
	default:
		back, remaining = v.tickets, nil
	}
	if len(back) > 0 {
		if err := v.giveBack(ctx, f, back); err != nil {
			return err
		}
	}
	for _, t := range remaining {
		if a.kept.Add(1)%checkInEvery == 0 {
			if err := v.checkIn(ctx, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// giveBack has tickets refunded, and then tries to get in with them.
func (v *visitor) giveBack(ctx context.Context, f fate, tickets []ticket) error {
	tally := &v.crowd.tally
	for _, t := range tickets {
		tally.dropTicket(t.Seat.SeatID, v.userID) // it is for sale again before the buyer knows it
	}
	var err error
	if f == byHand {
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
		case f == byHand:
			tally.ByHand.Add(1)
		default:
			tally.GivenBack.Add(1)
		}
		if err := v.sellAgain(ctx, t); err != nil {
			return err
		}
		if err := v.showRefunded(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// sellAgain lets the organiser put the seat of a refunded ticket on sale, who has got it if few seats
// of its section were free. Other seats stay as they are.
func (v *visitor) sellAgain(ctx context.Context, t ticket) error {
	return v.with(ctx, v.crowd.after.office, func(organiser *employee) error {
		path := "/api/v1/admin/events/" + v.crowd.sale.EventID + "/house"
		ans, err := organiser.callWithRetries(ctx, StepHouse, http.MethodPut, path, map[string]any{"release": []string{t.Seat.SeatID}}, nil)
		if err == nil && !ans.OK() {
			err = refusal(StepHouse, ans)
		}
		return err
	})
}

// requestRefund gives a ticket back, as the page of the order does.
func (v *visitor) requestRefund(ctx context.Context, t ticket) error {
	body := map[string]any{"ticketIds": []string{t.TicketID}, "reason": "cannot come"}
	var r struct{ Status string }
	err := v.post(ctx, StepRefund, "/api/v1/payments/"+t.PaymentID+"/refund", body, &r)
	if refused, ok := errors.AsType[*refusalError](err); ok && refused.status < http.StatusInternalServerError && refused.status != http.StatusTooManyRequests {
		v.crowd.tally.addWrongAnswer("the refund of ticket %s was refused: %v", t.TicketID, err)
	}
	if err == nil && r.Status != "REQUESTED" { // otherwise it is not decided yet
		v.crowd.tally.addRefund(t.TicketID, time.Now())
	}
	return err
}

// refundByHand is what a person does at the provider: all of an order is given back. The platform
// hears of it by a webhook.
func (v *visitor) refundByHand(ctx context.Context, paymentID string) error {
	var p preparedPayment
	if err := v.get(ctx, StepPayment, "/api/v1/payments/"+paymentID, &p); err != nil {
		return err
	}
	var last error
	for range maxAttempts {
		status, err := v.crowd.after.postRefund(ctx, v.crowd.api.http, p.OrderID)
		// Nothing is left to refund when the answer to an earlier attempt was lost.
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

// postRefund refunds at the provider what is left of an order.
func (a *afterSale) postRefund(ctx context.Context, client *http.Client, orderID string) (status int, err error) {
	url := a.ProviderURL + "/v1/charges/" + orderID + "/refunds/by-hand"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

// awaitRefund polls a ticket until it is refunded, or valid again since the provider has refused.
func (v *visitor) awaitRefund(ctx context.Context, t ticket) (refunded bool, err error) {
	tally := &v.crowd.tally
	for {
		var now ticket
		if err := v.get(ctx, StepTicket, "/api/v1/my/tickets/"+t.TicketID, &now); err != nil {
			return false, err
		}
		switch {
		case now.Status == "VALID" && tally.dropRefund(t.TicketID):
			return false, nil
		case now.Status == "REFUNDING" || now.Status == "REFUNDED":
			tally.addRefund(t.TicketID, time.Now())
		}
		if now.Status == "REFUNDED" {
			return true, nil
		}
		if !loop.Sleep(ctx, paymentPoll) {
			return false, ctx.Err()
		}
	}
}
