package crowd

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"
)

// NewAPIOver is NewAPI with a custom transport.
func NewAPIOver(network http.RoundTripper, rec *Recorder) *API {
	api := NewAPI("http://gateway.test", rec)
	api.http.Transport = network
	return api
}

// Login signs a new visitor in.
func (a *API) Login(ctx context.Context, userID string) error {
	v := &visitor{userID: userID, session: a.NewSession(), rng: rand.New(rand.NewPCG(1, 1))}
	return v.login(ctx)
}

// AskForPosition asks for a position of the waiting room as one visitor, and returns what was seen.
func (a *API) AskForPosition(ctx context.Context, impatient bool) (*Tally, error) {
	c := &Crowd{sale: Sale{EventID: "e"}}
	v := &visitor{crowd: c, session: a.NewSession(), rng: rand.New(rand.NewPCG(1, 1)), impatient: impatient}
	_, err := v.requestPosition(ctx)
	return &c.tally, err
}

// Pay pays for a reservation as a visitor who tries the given number of valid cards.
func (a *API) Pay(ctx context.Context, cards int) error {
	v := &visitor{crowd: &Crowd{cards: cards}, session: a.NewSession(), rng: rand.New(rand.NewPCG(1, 1))}
	return v.pay(ctx, reservation{ReservationID: "r"})
}

// PayOnPage pays for a reservation as a visitor whose random choices the seed determines.
func (a *API) PayOnPage(ctx context.Context, seed uint64, behaviour Behaviour) error {
	v := &visitor{
		crowd: &Crowd{cards: 1, sale: Sale{EventID: "e"}}, session: a.NewSession(), rng: rand.New(rand.NewPCG(seed, 1)), behaviour: behaviour,
	}
	return v.pay(ctx, reservation{ReservationID: "r"})
}

// UseTickets uses the tickets of an order with the given ids, as a buyer of the crowd does.
func (c *Crowd) UseTickets(ctx context.Context, paymentID string, ids ...string) error {
	plan, end := c.after.planOrder(len(ids))
	defer end()
	v := &visitor{crowd: c, session: c.api.NewSession(), rng: rand.New(rand.NewPCG(1, 1)), userID: "u"}
	for _, id := range ids {
		t := ticket{TicketID: id, Code: "code-" + id, PaymentID: paymentID}
		t.Seat.SeatID = "seat of " + id
		v.tickets = append(v.tickets, t)
	}
	return v.useTickets(ctx, plan)
}

// OrderBegins chooses what a buyer will do with the tickets of an order of two.
func (c *Crowd) OrderBegins() (end func()) {
	_, end = c.after.planOrder(2)
	return end
}

// WaitAsEntitled waits for a slot as a visitor who may buy in the presale.
func (c *Crowd) WaitAsEntitled(ctx context.Context) error {
	v := &visitor{crowd: c, session: c.api.NewSession(), rng: rand.New(rand.NewPCG(1, 1)), userID: "u", entitled: true}
	if err := v.passRoom(ctx); err != nil {
		return err
	}
	return v.waitInLine(ctx)
}

// SoldForGood reports whether a sale that was sold out at the time readAt stays sold out.
func (c *Crowd) SoldForGood(readAt time.Time) bool { return c.after.soldOutForGood(readAt) }

// Tamper and Arrivals export internal functions for tests.
var (
	Tamper   = tamper
	Arrivals = spreadArrivals
)

// Ticket exports Tally.addTicket.
func (t *Tally) Ticket(seat, user string) { t.addTicket(seat, user) }

// ArrivalTimes returns when those arrive who may buy in the presale, and when others do.
func (c *Crowd) ArrivalTimes() (entitled, others []time.Duration) {
	for i, at := range c.arrivals() {
		if slices.Contains(c.entitled, i) {
			entitled = append(entitled, at)
		} else {
			others = append(others, at)
		}
	}
	return entitled, others
}
