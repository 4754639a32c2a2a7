package crowd

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
)

// hoardedPasses is the number of browsers with which one hoarder enters the waiting room.
const hoardedPasses = 20

// hoard gets a position in the waiting room in each of many browsers. It then joins the line as the
// same user with one pass after another, each time after its last slot has ended. Only the first
// pass may give a slot.
func (v *visitor) hoard(ctx context.Context) error {
	browsers := []*visitor{v}
	for len(browsers) < hoardedPasses {
		browsers = append(browsers, &visitor{
			crowd: v.crowd, behaviour: v.behaviour, rng: rand.New(rand.NewPCG(v.rng.Uint64(), v.rng.Uint64())),
			userID: v.userID, session: v.crowd.api.NewSession(),
		})
	}
	failed := make([]error, len(browsers))
	var wg sync.WaitGroup
	for i, b := range browsers {
		wg.Go(func() { failed[i] = b.waitInRoom(ctx) })
	}
	wg.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	for i, b := range browsers {
		if err := b.takeSlot(ctx); err != nil {
			return err
		}
		if i > 0 {
			v.crowd.tally.Rejoined.Add(1)
		}
	}
	return errLeft
}

// takeSlot waits in the line for a slot, and gives it back at once.
func (v *visitor) takeSlot(ctx context.Context) error {
	if err := v.login(ctx); err != nil {
		return err
	}
	if err := v.waitInLine(ctx); err != nil {
		return err
	}
	_, err := v.callWithRetries(ctx, StepLeave, http.MethodPost, "/api/v1/queue/leave/"+v.crowd.sale.EventID, map[string]any{}, nil)
	return err
}
