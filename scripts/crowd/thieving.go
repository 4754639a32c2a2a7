package crowd

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/loop"
)

// loot is a hold, and its seats.
type loot struct {
	reservation
	seats []string
}

// grab holds the wanted seats or, if there are none, two free ones. It returns nil if it got none,
// after which the account rests.
func (v *thief) grab(ctx, playing context.Context, wanted []string) (*loot, error) {
	if !v.inside {
		if err := v.enter(playing); err != nil {
			return nil, err
		}
	}
	if len(wanted) == 0 {
		free, err := v.freeSeats(playing, v.seats)
		if err == nil && len(free) == 0 {
			err = v.waitForFreeSeat(playing)
		}
		if err != nil || len(free) == 0 {
			return nil, err
		}
		wanted = v.chooseSeats(free, thiefPlaces)
	}
	body, key := map[string]any{"eventId": v.crowd.sale.EventID, "seatIds": wanted}, map[string]string{"Idempotency-Key": uuid.NewString()}
	ans, err := v.session.Call(ctx, StepReserve, http.MethodPost, "/api/v1/seats/reserve", body, key)
	switch {
	case err != nil:
		return nil, err
	case ans.Status == http.StatusForbidden:
		return nil, errSlotEnded
	case ans.Problem().Code == "SEAT_TAKEN":
		loop.Sleep(playing, jitter(v.rng, takenRetryDelay))
		return nil, nil
	case !ans.OK():
		v.rest(retryAfter(ans))
		return nil, nil
	}
	got := &loot{seats: wanted}
	if err := decode(StepReserve, ans, &got.reservation); err != nil {
		return nil, err
	}
	v.refusals = 0
	v.thieves.Held.Add(int64(len(wanted)))
	return got, nil
}

// buyAndGiveBack is a round of a returner: it buys places, and asks for all the money back.
func (g *gang) buyAndGiveBack(ctx, playing context.Context, v *thief) error {
	held, err := v.grab(ctx, playing, nil)
	if err != nil || held == nil {
		return err
	}
	end := g.after.beginReturn()
	defer end()
	p, err := v.openPage(ctx, held)
	if err != nil {
		return errors.Join(err, v.drop(ctx, held))
	}
	if outcome, err := v.sendKey(ctx, p, okKey(), p.Amount); err != nil || outcome != confirmed {
		return errors.Join(err, v.drop(ctx, held))
	}
	if status, err := g.await(ctx, v, held, "HELD", "PAYING"); err != nil || status != confirmed {
		return err
	}
	g.Bought.Add(int64(len(held.seats)))
	var refund struct{}
	if err := v.post(ctx, StepRefund, "/api/v1/payments/"+p.PaymentID+"/refund", map[string]any{"reason": "cannot come"}, &refund); err != nil {
		return err
	}
	if _, err := g.await(ctx, v, held, confirmed); err != nil {
		return err
	}
	g.GivenBack.Add(int64(len(held.seats)))
	return nil
}

// holdAndHandOver is a round of a holder, which cancels for the accomplice, or lets a hold expire.
func (g *gang) holdAndHandOver(ctx, playing context.Context, v *thief) error {
	wanted := g.wanted
	g.wanted = nil
	held, err := v.grab(ctx, playing, wanted)
	if err != nil || held == nil {
		return err
	}
	v.openPages(ctx, held)
	if g.turn%expireEvery == 0 {
		expiring, cancel := context.WithTimeout(playing, time.Duration(g.sale.Hold)*time.Second+longestRest)
		defer cancel()
		_, _ = g.await(expiring, v, held, "HELD", "PAYING") // whatever is left is dropped
		return v.drop(ctx, held)
	}
	loop.Sleep(playing, jitter(v.rng, holdsFor))
	g.wanted = held.seats
	return v.drop(ctx, held)
}

// openPages opens one payment page after another, and closes each, until one is refused.
func (v *thief) openPages(ctx context.Context, held *loot) {
	for range pagesTried {
		p, err := v.openPage(ctx, held)
		if err != nil {
			v.thieves.Refused.Add(1)
			return
		}
		v.thieves.Pages.Add(1)
		if _, err := v.callWithRetries(ctx, StepCancel, http.MethodPost, "/api/v1/payments/"+p.PaymentID+"/cancel", map[string]any{}, nil); err != nil {
			return
		}
	}
}

// openPage prepares a payment. It does not wait longer than a thief rests.
func (v *thief) openPage(ctx context.Context, held *loot) (preparedPayment, error) {
	ctx, cancel := context.WithTimeout(ctx, longestRest)
	defer cancel()
	return v.prepare(ctx, held.payable())
}

// await polls a reservation while it has one of the given statuses, and returns the next one.
func (g *gang) await(ctx context.Context, v *thief, held *loot, passing ...string) (string, error) {
	for {
		var r reservation
		if err := v.get(ctx, StepReservation, "/api/v1/my/reservations/"+held.ReservationID, &r); err != nil {
			return "", err
		}
		if !slices.Contains(passing, r.Status) {
			return r.Status, nil
		}
		if !loop.Sleep(ctx, paymentPoll) {
			return "", ctx.Err()
		}
		g.keepSlots(ctx)
	}
}

// drop cancels a hold. That it has ended already is no error.
func (v *thief) drop(ctx context.Context, held *loot) error {
	_, err := v.callWithRetries(ctx, StepCancel, http.MethodDelete, "/api/v1/my/reservations/"+held.ReservationID, nil, nil)
	return err
}
