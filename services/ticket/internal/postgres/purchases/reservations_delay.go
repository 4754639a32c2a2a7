package purchases

import (
	"context"
	"math/rand/v2"
	"time"

	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
)

const (
	// leastDelay and mostDelay bound the random time after which the places of a hold that has ended
	// unpaid in a scarce section are free: otherwise whoever ends a hold could hand its places over to
	// somebody who knows the moment.
	leastDelay = time.Second
	mostDelay  = 10 * time.Second
)

// delayEnded finds the reservations that end unpaid and of which a place is in a scarce section. Their
// places do not become free at once, but wait in returns, and count as held until then.
func delayEnded(ctx context.Context, q *postgres.Queries, changed []*reservationChange) error {
	ended := make(map[sectionKey][]*reservationChange)
	for _, c := range changed {
		if !c.before.Status.Unpaid() || c.current.Status.Live() {
			continue
		}
		for n := 1; n <= c.before.Quantity; n++ {
			name, seat := c.place(n)
			key := sectionKey{eventID: c.before.EventID, name: name}
			ended[key] = append(ended[key], c)
			if seat == "" { // all its places are in this section
				break
			}
		}
	}
	if len(ended) == 0 {
		return nil
	}
	arg := db.ScarceSectionsParams{WithReturns: false}
	for key := range ended {
		arg.EventIds, arg.Sections = append(arg.EventIds, key.eventID), append(arg.Sections, key.name)
	}
	scarce, err := q.ScarceSections(ctx, arg)
	for _, s := range scarce {
		for _, c := range ended[sectionKey{eventID: s.EventID, name: s.Section}] {
			c.delayed = true
		}
	}
	return err
}

// insertDelayed inserts the places of delayed reservations into returns.
func insertDelayed(ctx context.Context, q *postgres.Queries, changed []*reservationChange, now time.Time) error {
	var arg db.InsertReturnsParams
	for _, c := range changed {
		if !c.delayed {
			continue
		}
		for n := 1; n <= c.before.Quantity; n++ {
			section, seat := c.place(n)
			arg.EventIds, arg.Sections, arg.SeatIds = append(arg.EventIds, c.before.EventID), append(arg.Sections, section), append(arg.SeatIds, seat)
			arg.ReleaseAt = append(arg.ReleaseAt, now.Add(leastDelay+rand.N(mostDelay-leastDelay))) //nolint:gosec // seeded anew by each process
			arg.Givers, arg.Unpaid = append(arg.Givers, ""), append(arg.Unpaid, true)
		}
	}
	if len(arg.EventIds) == 0 {
		return nil
	}
	return q.InsertReturns(ctx, arg)
}
