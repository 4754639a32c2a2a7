package crowd

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"urr.guru/pkg/loop"
)

const (
	// doorAfter is when the door opens after the start of a run: until then visitors come who wait for it.
	doorAfter = 4 * time.Second
	// askingTime is the time over which the requests for positions are spread after that.
	askingTime = 5 * time.Second
	// Every impatienceth visitor asks every impatientPause, whatever the advice is.
	impatienceth   = 10
	impatientPause = time.Second
)

// OpenDoor starts another round of the sale's waiting room, for which a crowd waits: half of expected
// visitors have got their ids in the round before, whose positions are void.
func (s Sale) OpenDoor(ctx context.Context, api *API, operator string, expected int) error {
	admin := api.NewSession()
	if err := admin.DevLogin(ctx, operator, "admin"); err != nil {
		return err
	}
	const path = "/api/v1/admin/vwr/"
	if err := callAsOperator(ctx, admin, http.MethodPost, path+"deactivate/"+s.EventID, map[string]any{}); err != nil {
		return err
	}
	room := s.room()
	room["expected"], room["askRate"] = expected, max(1, expected*int(time.Second)/int(askingTime))
	return callAsOperator(ctx, admin, http.MethodPost, path+"activate/"+s.EventID, room)
}

// beforeTheDoor changes the times of arrival so that every second visitor comes before the door opens.
func (c *Crowd) beforeTheDoor(arrivals []time.Duration) {
	for i := range arrivals {
		if i%2 == 0 {
			arrivals[i] = time.Duration(c.rng.Int64N(int64(doorAfter * 3 / 4)))
		} else {
			arrivals[i] += doorAfter
		}
	}
}

// openDoor opens the door in time, and then closes opened.
func (c *Crowd) openDoor(ctx context.Context, opened chan<- struct{}) {
	defer close(opened)
	if !loop.Sleep(ctx, doorAfter) {
		return
	}
	if err := c.door(ctx); err != nil && ctx.Err() == nil {
		c.tally.addOpeningFault("the door did not open: " + err.Error())
	}
}

// waitAtTheDoor gets an id from the room and waits for the door.
func (v *visitor) waitAtTheDoor(ctx context.Context, opened <-chan struct{}) {
	_, _ = v.session.Call(ctx, StepAssign, http.MethodPost, v.assignPath(), map[string]any{}, nil) // without an id the visitor waits longer
	select {
	case <-opened:
	case <-ctx.Done():
	}
}

// awaitTurn waits until the visitor may ask for a position, after the refusal of a request that came
// before. An impatient visitor does not wait so long. A turn must never come earlier than was said.
func (v *visitor) awaitTurn(ctx context.Context, refusal *Answer) error {
	turn := time.UnixMilli(refusal.Problem().AsksAt)
	if turn.Before(v.turn) {
		v.crowd.tally.addOpeningFault(fmt.Sprintf("asking again brought a turn forward by %s", v.turn.Sub(turn)))
	}
	v.turn = turn
	v.crowd.tally.Early.Add(1)
	pause := time.Until(turn)
	if v.impatient {
		pause = min(pause, impatientPause)
	}
	loop.Sleep(ctx, pause)
	return ctx.Err()
}

// countTurn notes a position that the visitor got before the turn.
func (v *visitor) countTurn() {
	if early := time.Until(v.turn); early > 0 {
		v.crowd.tally.addOpeningFault(fmt.Sprintf("a position was given %s before the visitor's turn", early))
	}
}

func (t *Tally) addOpeningFault(fault string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.openingFaults = append(t.openingFaults, fault)
}
