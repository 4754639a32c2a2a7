package holds

import (
	"context"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/idempotency"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/postgres/reservations"
	"urr.guru/services/ticket/internal/reservation"
)

func (s *Store) HoldGeneral(ctx context.Context, req reservation.BestRequest) (*reservation.Reservation, error) {
	return s.general.Do(ctx, req.EventID, req)
}

// holdGeneral decides on requests of one event in one transaction.
func (s *Store) holdGeneral(ctx context.Context, eventID string, reqs []reservation.BestRequest) (results []result, err error) {
	keys := make([]*idempotency.Key, len(reqs))
	for i, r := range reqs {
		keys[i] = r.IdempotencyKey
	}
	// The batch's context, not one detached from it: when it ends all callers get its error, so
	// nothing may be held for them.
	err = s.limiter.Do(ctx, func() error {
		results, err = s.decide(ctx, eventID, keys, func(ctx context.Context, t *holdBatch) error {
			return (&generalTx{holdBatch: t, reqs: reqs}).run(ctx)
		})
		return err
	})
	return results, err
}

// generalTx is the transaction of one batch.
type generalTx struct {
	*holdBatch

	reqs []reservation.BestRequest
	sale reservation.GeneralSale
	due  []uuid.UUID // holds whose time is over, some of them
}

func (t *generalTx) run(ctx context.Context) error {
	pending, err := t.replayKnown(ctx)
	if err != nil || len(pending) == 0 {
		return err
	}
	if err := t.lock(ctx, pending); err != nil {
		return err
	}
	if err := t.release(ctx, pending); err != nil {
		return err
	}
	held := t.allot(pending)
	p := &pipeline{Tx: t.Tx}
	if err := t.insert(ctx, p, held); err != nil {
		return err
	}
	return t.save(ctx, p, held)
}

// lock takes the users' locks, then the sections', both in an order that every batch keeps, and
// reads what the decision needs. The statements are sent at once: each begins after the one before
// has ended, so that they see what was committed until the locks were taken.
func (t *generalTx) lock(ctx context.Context, pending []int) error {
	users := distinct(pending, func(i int) string { return t.reqs[i].UserID })
	sections := distinct(pending, func(i int) string { return t.reqs[i].Section })
	t.sale = reservation.GeneralSale{Free: make(map[string]int64), Prices: make(map[string]int64)}
	var b pgx.Batch
	b.Queue(db.LockUsers, t.lockKeys(users))
	b.Queue(db.LockSections, t.eventID, sections).Query(func(rows pgx.Rows) error {
		all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[db.LockSectionsRow])
		for _, r := range all {
			t.sale.Free[r.Section], t.sale.Prices[r.Section] = r.Free, r.Price
		}
		return err
	})
	t.queueSale(&b)
	t.queueUsed(&b, users)
	b.Queue(db.DueInSections, t.eventID, sections, maxReleased, t.AsOf).Query(func(rows pgx.Rows) (err error) {
		t.due, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		return err
	})
	if err := t.SendBatch(ctx, &b).Close(); err != nil {
		return postgres.OrNotFound(err, event.ErrNotFound)
	}
	t.sale.LockedSale = t.holdBatch.sale()
	return t.sale.CheckSeating(event.General)
}

// release expires holds whose time is over, until there is enough for all requests or none is left.
func (t *generalTx) release(ctx context.Context, pending []int) error {
	wanted := make(map[string]int64)
	for _, i := range pending {
		wanted[t.reqs[i].Section] += int64(t.reqs[i].Quantity)
	}
	for len(t.due) > 0 {
		locked, err := reservations.LockGeneral(ctx, t.Tx, t.due)
		if err != nil {
			return err
		}
		t.sale.Release(locked.Expire())
		events, err := locked.Save(ctx, t.Tx)
		if err != nil {
			return err
		}
		t.events = append(t.events, events...)
		if len(t.due) < maxReleased || t.sale.Suffices(wanted) {
			return nil
		}
		t.due, err = t.DueInSections(ctx, db.DueInSectionsParams{
			EventID: t.eventID, Sections: slices.Collect(maps.Keys(t.sale.Free)), Now: t.AsOf, Max: maxReleased,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// allot decides in the order of arrival and returns the indexes of the requests that got something.
func (t *generalTx) allot(pending []int) []int {
	var held []int
	for _, i := range pending {
		r, err := t.sale.Allot(t.reqs[i])
		if err != nil {
			t.results[i].Err = err
			continue
		}
		t.grant(i, r)
		held = append(held, i)
	}
	return held
}

func (t *generalTx) insert(ctx context.Context, p *pipeline, held []int) error {
	if len(held) == 0 {
		return nil
	}
	c, now := t.rows(held), t.sale.Now
	err := db.New(p).InsertGeneralHolds(ctx, db.InsertGeneralHoldsParams{
		EventID: t.eventID, Currency: t.sale.Currency, ExpiresAt: now.Add(t.sale.HoldFor), CreatedAt: now, ReservationIds: c.ids,
		UserIds: c.users, SlotIds: c.slots, Sections: c.sections, Quantities: c.quantities, Amounts: c.amounts,
	})
	if err != nil {
		return err
	}
	taken := make(map[string]int64)
	for n, name := range c.sections {
		taken[name] += int64(c.quantities[n])
	}
	var move db.MoveCountersParams
	for name, n := range taken {
		move.EventIds, move.Sections = append(move.EventIds, t.eventID), append(move.Sections, name)
		move.Held, move.Sold = append(move.Held, n), append(move.Sold, 0)
	}
	p.expect(len(taken), "sections", db.MoveCounters, move.EventIds, move.Sections, move.Held, move.Sold)
	return nil
}
