package events

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/idempotency/answers"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
)

func (s *Store) PutEvent(ctx context.Context, e event.Event, match *event.Match, key *idempotency.Key) (event.Event, error) {
	id := e.ID
	err := s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		createdBefore, err := answers.Claim(ctx, tx, key)
		if err != nil {
			return err
		}
		if createdBefore != "" {
			id = createdBefore
			return nil
		}
		id = e.ID
		if err := putEvent(ctx, tx, e, match); err != nil {
			return err
		}
		return answers.Keep(ctx, tx, key, e.ID)
	})
	if err != nil {
		return event.Event{}, err
	}
	return s.FindEvent(ctx, id)
}

func putEvent(ctx context.Context, tx *postgres.Tx, e event.Event, match *event.Match) error {
	created := e
	created.Complete(nil)
	if err := created.CheckComplete(); err != nil {
		// If the event exists, its stored settings may complete the spec where the defaults do not.
		if changed := changeEvent(ctx, tx, &e, match); !errors.Is(changed, pgx.ErrNoRows) {
			return changed
		}
		return err
	}
	if err := checkPlans(ctx, tx.Queries, created.Presale); err != nil {
		return err
	}
	inserted, err := tx.InsertEvent(ctx, toRow(&created))
	if err != nil {
		return err
	}
	if inserted == 0 {
		return changeEvent(ctx, tx, &e, match)
	}
	if match != nil { // a new event has no settings that could match
		return event.ErrChanged
	}
	if err := insertPlaces(ctx, tx.Queries, &created); err != nil {
		return err
	}
	return saveLineSettings(ctx, tx.Queries, &created)
}

func saveLineSettings(ctx context.Context, q *postgres.Queries, e *event.Event) error {
	return q.PutLine(ctx, db.PutLineParams{EventID: e.ID, Threshold: e.Threshold, SlotSeconds: e.SlotSeconds})
}

// changeEvent changes an existing event. It locks the event's row, so that operators change it one
// after the other; buyers never wait for this lock. Settings that e leaves out stay unchanged.
func changeEvent(ctx context.Context, tx *postgres.Tx, e *event.Event, match *event.Match) error {
	now, old, err := lockSettings(ctx, tx, e.ID)
	if err != nil {
		return err
	}
	if match != nil && !match.Allows(old.ETag()) {
		return event.ErrChanged
	}
	if e.Threshold != nil {
		if err := tx.OrderPut(ctx, db.OrderPutParams{EventID: e.ID, Now: tx.AsOf}); err != nil {
			return err
		}
	}
	if isNewValue(e.Threshold, old.Threshold) || isNewValue(e.SlotSeconds, old.SlotSeconds) {
		if err := saveLineSettings(ctx, tx.Queries, e); err != nil {
			return err
		}
	}
	e.Complete(&old.Spec)
	diff := event.Compare(old.Spec, e.Spec)
	if !diff.Any {
		return nil
	}
	if err := checkTimes(ctx, tx.Queries, &old.Spec, e); err != nil {
		return err
	}
	if err := checkPlans(ctx, tx.Queries, e.Presale); err != nil {
		return err
	}
	if *old.SeriesID != *e.SeriesID {
		if err := checkSeries(ctx, tx.Queries, &old, now); err != nil {
			return err
		}
	}
	if diff.Structure {
		err = replacePlaces(ctx, tx.Queries, &old, e, now)
	} else {
		err = updateSections(ctx, tx, e)
	}
	if err != nil {
		return err
	}
	if err := postgres.KeepFormerTerms(ctx, tx.Queries, e.ID, now); err != nil {
		return err
	}
	return tx.UpdateEvent(ctx, db.UpdateEventParams(toRow(e)))
}

// checkTimes checks the times of a changed event. It refuses to move the start, the doors or the
// end of refunds once somebody has bought, since only Postpone informs buyers of new times.
func checkTimes(ctx context.Context, q *postgres.Queries, old *event.Spec, e *event.Event) error {
	if err := e.CheckComplete(); err != nil {
		return err
	}
	moved := event.MovedTimes(old, &e.Spec)
	if len(moved) == 0 {
		return nil
	}
	bought, err := q.HasBuyers(ctx, e.ID)
	if err == nil && bought {
		err = event.ErrUsePostpone.With("member", moved[0])
	}
	return err
}

// checkPlans refuses a presale for members of a membership plan that does not exist.
func checkPlans(ctx context.Context, q *postgres.Queries, p *event.Presale) error {
	ids := p.PlanIDs()
	if len(ids) == 0 {
		return nil
	}
	existing, err := q.KnownPlans(ctx, ids)
	if err != nil {
		return err
	}
	return p.CheckPlans(existing)
}

// checkSeries returns ErrLocked if the event's series can no longer be changed: the sale has
// opened, or somebody holds or has bought a place. Transactions lock these users by the series.
func checkSeries(ctx context.Context, q *postgres.Queries, old *event.Event, now time.Time) error {
	live, err := q.HasLiveReservations(ctx, old.ID)
	if err != nil {
		return err
	}
	if live || !now.Before(old.Sale().OpensAt()) {
		return event.ErrLocked.With("member", "seriesId")
	}
	return nil
}

// lockSettings locks the rows of an existing event and of its line. It returns the event with all
// settings, and the database's time.
func lockSettings(ctx context.Context, tx *postgres.Tx, id string) (now time.Time, e event.Event, err error) {
	row, err := postgres.LockEvent.Take(ctx, tx, db.LockEventParams{EventID: id, Now: tx.AsOf})
	if err != nil {
		return now, e, err
	}
	if _, err := postgres.LockLine.Take(ctx, tx, id); err != nil {
		return now, e, err
	}
	sections, err := tx.Sections(ctx, []string{id})
	if err != nil {
		return now, e, err
	}
	e = toEvent(row.Event, sections)
	return row.Now, e, readLineSettings(ctx, tx.Queries, &e)
}

// readLineSettings reads the settings of an event's line into the event.
func readLineSettings(ctx context.Context, q *postgres.Queries, e *event.Event) error {
	line, err := lineSettings(ctx, q, e.ID)
	e.Threshold, e.SlotSeconds = line.Threshold, line.SlotSeconds
	return err
}

// replacePlaces replaces all seats and sections. It returns ErrLocked once the sale has opened,
// since visitors then use the seat map, and while a place is held or sold.
func replacePlaces(ctx context.Context, q *postgres.Queries, old, e *event.Event, now time.Time) error {
	live, err := q.HasLiveReservations(ctx, e.ID)
	if err != nil {
		return err
	}
	if live || !now.Before(old.Sale().OpensAt()) {
		return event.ErrLocked.With("member", "sections")
	}
	seats, err := q.DeleteFreeSeats(ctx, e.ID)
	if err != nil {
		return err
	}
	sections, err := q.DeleteUnusedSections(ctx, e.ID)
	if err != nil {
		return err
	}
	// If fewer rows were deleted, a hold that was made meanwhile has one of the places.
	if seats != int64(old.Seats()) || sections != int64(len(old.Sections)) {
		return event.ErrLocked.With("member", "sections")
	}
	return insertPlaces(ctx, q, e)
}

func insertPlaces(ctx context.Context, q *postgres.Queries, e *event.Event) error {
	n := len(e.Sections)
	arg := db.InsertSectionsParams{
		EventID: e.ID, Sections: make([]string, n), Ordinals: make([]int32, n), Prices: make([]int64, n), Fees: make([]int64, n), Capacities: make([]int64, n),
		SeatRows: make([]int32, n), SeatsPerRow: make([]int32, n), FirstIdx: make([]int32, n),
	}
	for i, s := range e.Sections {
		arg.Sections[i], arg.Ordinals[i], arg.Prices[i], arg.Capacities[i] = s.Name, int32(i), s.Price, s.Capacity //nolint:gosec // ≤ 200
		arg.Fees[i] = s.Fee
		arg.SeatRows[i], arg.SeatsPerRow[i], arg.FirstIdx[i] = int32(s.Rows), int32(s.SeatsPerRow), int32(s.First) //nolint:gosec // ≤ MaxSeats
	}
	if err := q.InsertSections(ctx, arg); err != nil {
		return err
	}
	if e.Seats() == 0 {
		return nil
	}
	seats, err := q.InsertSeats(ctx, e.ID)
	if err == nil && seats != int64(e.Seats()) {
		err = fmt.Errorf("%d seats made, not %d", seats, e.Seats())
	}
	return err
}

// updateSections sets prices and capacities. It returns ErrLocked when a capacity would be below
// the number of held and sold places.
func updateSections(ctx context.Context, tx *postgres.Tx, e *event.Event) error {
	arg := db.UpdateSectionsParams{EventID: e.ID}
	for _, s := range e.Sections {
		arg.Sections = append(arg.Sections, s.Name)
		arg.Prices, arg.Fees = append(arg.Prices, s.Price), append(arg.Fees, s.Fee)
		arg.Capacities = append(arg.Capacities, s.Capacity)
	}
	// LockSections runs first: it locks in the same order as holds do, so no deadlock is possible.
	if _, err := postgres.LockSections.Take(ctx, tx, db.LockSectionsParams{EventID: e.ID, Sections: slices.Clone(arg.Sections)}); err != nil {
		return err
	}
	n, err := tx.UpdateSections(ctx, arg)
	if err == nil && n != int64(len(e.Sections)) {
		err = event.ErrLocked.With("member", "capacity")
	}
	return err
}

// isNewValue reports whether a setting is given and differs from the current one.
func isNewValue[T comparable](setting, current *T) bool {
	return setting != nil && (current == nil || *setting != *current)
}
