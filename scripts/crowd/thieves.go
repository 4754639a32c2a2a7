package crowd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"urr.guru/pkg/loop"
)

// Thieves are users with normal accounts who try to take places off sale and to pay for none, in the
// sale of a crowd. Returners buy places and give them back, again and again. Holders work in pairs:
// one holds places, opens payment pages to lengthen the hold, and cancels it when the other is ready
// to hold the same places. All take what they get, and wait after a refusal as it advises.
type Thieves struct {
	*Crowd

	// n is the number of returners, and of pairs of holders.
	n int
	// Bought, GivenBack and Held count places, Pages payment pages, and Refused refused attempts.
	Bought, GivenBack, Held, Pages, Refused atomic.Int64
}

const (
	thiefPlaces = 2 // the limit per user of the sale
	// holdsFor is how long a holder keeps places before the handover. Every expireEvery-th hold of a
	// pair is left to expire.
	holdsFor    = 3 * time.Second
	expireEvery = 3
	// pagesTried is more than the platform allows for one hold.
	pagesTried = 4
	// longestRest is the longest wait after a refusal, whatever it advises.
	longestRest = 30 * time.Second
)

// NewThieves prepares n returners and n pairs of holders for the sale of a crowd. The crowd does not
// take the sale for sold out while returners may give places back.
func NewThieves(in *Crowd, n int) *Thieves {
	t := &Thieves{Crowd: New(in.sale, in.api, Options{Seed: in.seed}), n: n}
	t.after = in.after
	return t
}

// Run lets the thieves act until over is closed or nothing will be for sale any more. Before it
// returns, they give back what they have, unless ctx ends.
func (t *Thieves) Run(ctx context.Context, over <-chan struct{}) {
	playing, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	for i := range t.n {
		returner := &gang{Thieves: t, accounts: []*thief{t.thief("returner", i)}}
		pair := &gang{Thieves: t, accounts: []*thief{t.thief("holder", i), t.thief("accomplice", i)}}
		wg.Go(func() { returner.play(ctx, playing, returner.buyAndGiveBack) })
		wg.Go(func() { pair.play(ctx, playing, pair.holdAndHandOver) })
	}
	select {
	case <-over:
	case <-ctx.Done():
	}
	stop()
	wg.Wait()
}

// thief is one account, with the sale open in a browser.
type thief struct {
	*visitor

	thieves    *Thieves
	seats      []string // the ids of all seats; empty before the account is in the shop
	inside     bool
	refusals   int // in a row
	restsUntil time.Time
}

func (t *Thieves) thief(name string, i int) *thief {
	return &thief{visitor: t.user(fmt.Sprintf("%s-%02d", name, i)), thieves: t}
}

// gang are accounts that take turns.
type gang struct {
	*Thieves

	accounts []*thief
	turn     int
	wanted   []string // seats that the last account has given up for the next one
}

// play lets the accounts act in turn until playing ends, or the sale is sold out. They wait for
// places until playing ends; what they have begun they end, with ctx.
func (g *gang) play(ctx, playing context.Context, act func(ctx, playing context.Context, v *thief) error) {
	var entering sync.WaitGroup
	for _, v := range g.accounts {
		entering.Go(func() { _ = v.enter(playing) }) // who is not inside tries again in its turn
	}
	entering.Wait()
	for playing.Err() == nil {
		v := g.next(playing)
		err := act(ctx, playing, v)
		if errors.Is(err, errSoldOut) {
			return
		}
		if err != nil {
			v.inside = v.inside && !errors.Is(err, errSlotEnded)
			v.rest(time.Second)
		}
	}
}

// next returns the account whose turn it is or, if that one rests, another. If all rest, it waits.
func (g *gang) next(ctx context.Context) *thief {
	v := g.accounts[g.turn%len(g.accounts)]
	g.turn++
	for _, other := range g.accounts {
		if time.Now().Before(v.restsUntil) && other.restsUntil.Before(v.restsUntil) {
			v = other
		}
	}
	g.keepSlots(ctx)
	for time.Now().Before(v.restsUntil) && loop.Sleep(ctx, min(time.Until(v.restsUntil), heartbeat)) {
		g.keepSlots(ctx)
	}
	return v
}

// keepSlots sends the heartbeats of all accounts. If a slot has ended, the next request tells.
func (g *gang) keepSlots(ctx context.Context) {
	for _, v := range g.accounts {
		if v.inside {
			_ = v.keepSlot(ctx)
		}
	}
}

// rest notes how long an account waits after a refusal: at least as long as is advised, longer after
// each in a row, and at most longestRest.
func (v *thief) rest(advised time.Duration) {
	v.refusals++
	v.thieves.Refused.Add(1)
	v.restsUntil = time.Now().Add(min(longestRest, max(advised, time.Duration(v.refusals)*time.Second)))
}

// enter waits for a slot, and opens the seat map.
func (v *thief) enter(ctx context.Context) error {
	steps := []func(context.Context) error{v.waitInRoom, v.login, v.waitInLine}
	if len(v.seats) > 0 { // the slot has ended
		steps = steps[2:]
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	var hall seatMap
	if err := v.callProtected(ctx, StepSeatMap, http.MethodGet, "/api/v1/seats/"+v.crowd.sale.EventID, nil, nil, &hall); err != nil {
		return err
	}
	v.seats, v.inside = hall.ids(), true
	return nil
}
