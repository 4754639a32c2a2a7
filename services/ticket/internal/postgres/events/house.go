package events

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/ids"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/postgres/purchases"
)

const (
	// dueBatch limits the expired holds that are ended at a time to free places for the house.
	dueBatch = 1000
	// houseAttempts is how often a change is tried, again each time after expired holds were ended.
	houseAttempts = 20
)

func (s *Store) House(ctx context.Context, id string) (house event.House, err error) {
	err = s.database.InSnapshot(ctx, func(ctx context.Context, q *postgres.Queries) error {
		if house.Sections, err = houseSections(ctx, q, id); err != nil {
			return err
		}
		house.SeatIDs, err = q.HouseSeats(ctx, id)
		return err
	})
	return house, err
}

func houseSections(ctx context.Context, q *postgres.Queries, id string) ([]event.HouseSection, error) {
	rows, err := q.HouseSections(ctx, id)
	if err == nil && len(rows) == 0 { // every event has a section
		err = event.ErrNotFound
	}
	sections := make([]event.HouseSection, len(rows))
	for i, r := range rows {
		sections[i] = event.HouseSection{
			Name: r.Section, Seated: r.Seated, Capacity: r.Capacity, Sold: r.Sold - r.Comps, House: r.House, Returning: r.Returns, Comps: r.Comps,
		}
	}
	return sections, err
}

// ChangeHouse moves places between the sale and the house (what the organiser keeps). Expired holds
// count as free, as they do for buyers. Those of places that the house takes are ended first, in
// separate transactions, since a transaction must lock all seats before the row of a hold.
func (s *Store) ChangeHouse(ctx context.Context, id string, c event.HouseChange) error {
	for range houseAttempts {
		var due []uuid.UUID
		err := s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) (err error) {
			t := houseTx{Tx: tx, id: id, change: c, deltas: make(postgres.CounterDeltas)}
			due, err = t.run(ctx)
			return err
		})
		if err != nil || len(due) == 0 {
			return err
		}
		if err := purchases.ExpireReservations(ctx, s.database, due); err != nil {
			return err
		}
	}
	return fmt.Errorf("holds of event %s end again and again", id)
}

// houseTx is the transaction that changes a house. Like all transactions it locks seats first, then
// sections of general admission, then sections with seats.
type houseTx struct {
	*postgres.Tx

	id     string
	change event.HouseChange
	deltas postgres.CounterDeltas
	due    []uuid.UUID // expired holds of places that the change takes
}

// run makes the change, or returns the expired holds that must be ended before it can be made.
func (t *houseTx) run(ctx context.Context) (due []uuid.UUID, err error) {
	sections, err := houseSections(ctx, t.Queries, t.id)
	if err != nil {
		return nil, err
	}
	if err := t.change.CheckStanding(sections); err != nil {
		return nil, err
	}
	take, release, err := t.lockSeats(ctx)
	if err != nil {
		return nil, err
	}
	if err := t.lockGeneralSections(ctx); err != nil || len(t.due) > 0 {
		return t.due, err
	}
	if err := t.moveSeats(ctx, take, event.SeatStatusFree, event.SeatStatusHouse, 1); err != nil {
		return nil, err
	}
	if err := t.moveSeats(ctx, release, event.SeatStatusHouse, event.SeatStatusFree, -1); err != nil {
		return nil, err
	}
	return nil, t.AddToCounters(ctx, t.deltas)
}

func (t *houseTx) lockSeats(ctx context.Context) (take, release []string, err error) {
	seats := slices.Concat(t.change.Take, t.change.Release)
	if len(seats) == 0 {
		return nil, nil, nil
	}
	rows, err := postgres.LockSeatsForHouse.Take(ctx, t.Tx, db.LockSeatsForHouseParams{EventID: t.id, SeatIds: seats, Now: t.AsOf})
	if err != nil {
		return nil, nil, err
	}
	locked := make(map[string]event.HouseSeat, len(rows))
	for _, r := range rows {
		locked[r.SeatID] = event.HouseSeat{Status: r.Status, Due: r.Due != uuid.Nil}
		if r.Due != uuid.Nil && slices.Contains(t.change.Take, r.SeatID) && !slices.Contains(t.due, r.Due) {
			t.due = append(t.due, r.Due)
		}
	}
	take, release, err = t.change.SeatsToMove(locked)
	return take, release, err
}

// lockGeneralSections locks sections of general admission, and notes their counters' changes.
func (t *houseTx) lockGeneralSections(ctx context.Context) error {
	if len(t.change.Standing) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(t.change.Standing))
	rows, err := postgres.LockStanding.Take(ctx, t.Tx, db.LockStandingParams{EventID: t.id, Sections: names})
	if err != nil {
		return err
	}
	for _, r := range rows {
		delta := t.change.Standing[r.Section] - r.House
		t.deltas.Add(t.id, r.Section, postgres.CounterDelta{House: delta})
		if delta <= r.Free {
			continue
		}
		due, err := t.DueInSections(ctx, db.DueInSectionsParams{EventID: t.id, Sections: []string{r.Section}, Now: t.AsOf, Max: dueBatch})
		if err != nil {
			return err
		}
		if len(due) == 0 {
			return errs.ErrSoldOut.With("section", r.Section)
		}
		t.due = append(t.due, due...)
	}
	return nil
}

func (t *houseTx) moveSeats(ctx context.Context, seats []string, fromStatus, toStatus string, houseDelta int64) error {
	if len(seats) == 0 {
		return nil
	}
	n, err := t.MoveHouseSeats(ctx, db.MoveHouseSeatsParams{EventID: t.id, SeatIds: seats, Was: fromStatus, Status: toStatus})
	if err := postgres.ExpectRows(n, len(seats), "seats", err); err != nil {
		return err
	}
	for _, id := range seats {
		section, _, _, _ := ids.SplitSeat(id)
		t.deltas.Add(t.id, section, postgres.CounterDelta{House: houseDelta})
	}
	return nil
}
