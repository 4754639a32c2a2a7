package crowd

import (
	"context"
	"math/rand/v2"
	"net/http"
)

// NewAPIOver is NewAPI with a custom transport.
func NewAPIOver(network http.RoundTripper, rec *Recorder) *API {
	api := NewAPI("http://gateway.test", rec)
	api.http.Transport = network
	return api
}

// Login signs in as a visitor does.
func (a *API) Login(ctx context.Context, userID string) error {
	v := &visitor{userID: userID, session: a.NewSession(), rng: rand.New(rand.NewPCG(1, 1))}
	return v.login(ctx)
}

// Pay pays for a reservation as a visitor does who tries the given number of valid cards.
func (a *API) Pay(ctx context.Context, cards int) error {
	v := &visitor{crowd: &Crowd{cards: cards}, session: a.NewSession(), rng: rand.New(rand.NewPCG(1, 1))}
	return v.pay(ctx, reservation{ReservationID: "r"})
}

// Bend and Arrivals export internal functions for tests.
var (
	Bend     = tamper
	Arrivals = arrivals
)

// Ticket exports Tally.ticket.
func (t *Tally) Ticket(seat, user string) { t.addTicket(seat, user) }
