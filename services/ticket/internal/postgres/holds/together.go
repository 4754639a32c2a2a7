package holds

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/google/uuid"

	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/idempotency/answers"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/postgres/reservations"
	"urr.guru/services/ticket/internal/reservation"
)

// errAlone is the result of a request that its batch could not decide on: the batch met something
// that another transaction had locked, or it failed. The request is decided in a transaction of its
// own, in which it may wait.
var errAlone = errors.New("to be decided alone")

// together decides on requests of one event in one transaction. A refused request fails no other.
type together struct {
	*postgres.Tx

	store   *Store
	eventID string
	keys    []*idempotency.Key // of the requests
	results []result           // of the requests

	sale   db.SaleOfRow
	used   map[string]int64 // places that users have bought or hold
	events []reservation.Event
}

// decide runs fn in a transaction that it commits, and returns the results.
func (s *Store) decide(ctx context.Context, eventID string, keys []*idempotency.Key, fn func(context.Context, *together) error) ([]result, error) {
	var results []result
	err := s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		t := &together{Tx: tx, store: s, eventID: eventID, keys: keys, results: make([]result, len(keys))}
		results = t.results
		return fn(ctx, t)
	})
	if err != nil {
		return nil, err
	}
	failpoint.Hit("ticket.hold.after_commit")
	s.database.Published()
	return results, nil
}

// replayKnown answers repeated requests by their first answer, and returns the indexes of the
// others.
func (t *together) replayKnown(ctx context.Context) ([]int, error) {
	states, err := answers.ClaimAll(ctx, t, t.keys)
	if err != nil {
		return nil, err
	}
	var pending []int
	for i, p := range states {
		switch {
		case p.Err != nil:
			t.results[i].Err = p.Err
		case p.Answer != "":
			if t.results[i].Value, err = replayAnswer(ctx, t.Tx, p.Answer); err != nil {
				return nil, err
			}
		default:
			pending = append(pending, i)
		}
	}
	return pending, nil
}

// refuse gives requests an error.
func (t *together) refuse(pending []int, err error) {
	for _, i := range pending {
		t.results[i].Err = err
	}
}

// admits checks that the event is sold in this way.
func (t *together) admits(seating event.Seating) error {
	if event.Seating(t.sale.Seating) != seating {
		return event.ErrSeatingMismatch
	}
	return nil
}

// countUsed keeps what users have bought or hold.
func (t *together) countUsed(rows []db.UsedByRow) {
	t.used = make(map[string]int64, len(rows))
	for _, r := range rows {
		t.used[r.UserID] = r.Used
	}
}

// hold makes the reservation that a request gets.
func (t *together) hold(i int, h reservation.Hold) *reservation.Reservation {
	h.ID, h.EventID, h.Currency, h.For = reservation.NewID(), t.eventID, t.sale.Currency, t.store.lifetime(t.sale)
	r := reservation.NewHeld(h, t.sale.Now.UTC())
	t.events = append(t.events, r.TakeEvents()...)
	t.results[i].Value = r
	return r
}

// keep stores the answers to requests that got something, and what happened.
func (t *together) keep(ctx context.Context, held []int) error {
	keys, replies := make([]*idempotency.Key, len(held)), make([]string, len(held))
	for n, i := range held {
		keys[n], replies[n] = t.keys[i], t.results[i].Value.ID.String()
	}
	if err := answers.KeepAll(ctx, t, keys, replies); err != nil {
		return err
	}
	return reservations.InsertEvents(ctx, t, t.events)
}

// holdRows are new reservations as columns.
type holdRows struct {
	ids                    []uuid.UUID
	users, slots, sections []string
	quantities             []int32
	amounts                []int64
}

func (t *together) rows(held []int) (c holdRows) {
	for _, i := range held {
		r := t.results[i].Value
		c.ids, c.users, c.slots = append(c.ids, r.ID), append(c.users, r.UserID), append(c.slots, r.SlotID)
		c.sections, c.amounts = append(c.sections, r.Section), append(c.amounts, r.Amount)
		c.quantities = append(c.quantities, int32(r.Quantity)) //nolint:gosec // ≤ 1000
	}
	return c
}

// distinct lists what of gives for the pending requests, each value once.
func distinct(pending []int, of func(i int) string) []string {
	values := make(map[string]struct{}, len(pending))
	for _, i := range pending {
		values[of(i)] = struct{}{}
	}
	return slices.Collect(maps.Keys(values))
}
