package holds

import (
	"context"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/idempotency"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/limit"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/postgres/purchases"
	"urr.guru/services/ticket/internal/reservation"
)

func (s *Store) HoldGeneral(ctx context.Context, req reservation.BestRequest) (*reservation.Reservation, error) {
	return s.general.Do(ctx, req.EventID, req)
}

// holdGeneral answers, in one transaction, requests for an event's places without seats.
func (s *Store) holdGeneral(ctx context.Context, eventID string, reqs []reservation.BestRequest) ([]result, error) {
	keys := make([]*idempotency.Key, len(reqs))
	for i, r := range reqs {
		keys[i] = r.IdempotencyKey
	}
	// The transaction uses the batch's ctx: if that ends, all callers fail and no place is held.
	return limit.Do(ctx, s.limiter, func() ([]result, error) {
		return s.runBatch(ctx, eventID, keys, func(ctx context.Context, t *holdBatch) error {
			return (&generalTx{holdBatch: t, reqs: reqs}).holdAll(ctx)
		})
	})
}

// generalTx is the transaction that answers a batch of requests for places without seats.
type generalTx struct {
	*holdBatch

	reqs []reservation.BestRequest
	sale reservation.GeneralSale
	due  []uuid.UUID // expired holds, at most releaseBatch
}

func (t *generalTx) holdAll(ctx context.Context) error {
	pending, err := t.replayRepeated(ctx)
	if err != nil || len(pending) == 0 {
		return err
	}
	if err := t.lockAndRead(ctx, pending); err != nil {
		return err
	}
	if err := t.releaseDueHolds(ctx, pending); err != nil {
		return err
	}
	held := t.decideAll(pending, func(i int) (*reservation.Reservation, error) { return t.sale.Allot(t.reqs[i]) })
	p := &pipeline{Tx: t.Tx}
	if err := t.insertReservations(ctx, p, held); err != nil {
		return err
	}
	return t.saveAnswersAndEvents(ctx, p, held)
}

// lockAndRead locks the users, then the sections, as all transactions do, and reads what the
// decision needs. The statements are sent in one round trip and run one after the other, so that
// the reads see everything that was committed before the locks were taken.
func (t *generalTx) lockAndRead(ctx context.Context, pending []int) error {
	users := distinctValues(pending, func(i int) string { return t.reqs[i].UserID })
	sections := distinctValues(pending, func(i int) string { return t.reqs[i].Section })
	t.sale = reservation.GeneralSale{Free: make(map[string]int64), Prices: make(map[string]int64), Fees: make(map[string]int64)}
	var b pgx.Batch
	if err := t.QueueUsers(&b, t.users(users)); err != nil {
		return err
	}
	err := t.QueueSections(&b, t.eventID, sections, func(r db.LockSectionsRow) {
		if r.Seated {
			t.sale.Seated = append(t.sale.Seated, r.Section)
			return
		}
		t.sale.Free[r.Section], t.sale.Prices[r.Section], t.sale.Fees[r.Section] = r.Free, r.Price, r.Fee
	})
	if err != nil {
		return err
	}
	t.queueSale(&b)
	t.queueRecords(&b, users)
	b.Queue(db.DueInSections, sections, t.eventID, t.AsOf, releaseBatch).Query(func(rows pgx.Rows) (err error) {
		t.due, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		return err
	})
	if err := t.SendBatch(ctx, &b).Close(); err != nil {
		return postgres.OrNotFound(err, event.ErrNotFound)
	}
	if err := t.checkSeries(); err != nil {
		return err
	}
	t.sale.LockedSale = t.lockedSale()
	return t.sale.CheckSeating(event.General)
}

// releaseDueHolds ends expired holds until there are places for all requests or no such hold is
// left.
func (t *generalTx) releaseDueHolds(ctx context.Context, pending []int) error {
	wanted := make(map[string]int64)
	for _, i := range pending {
		wanted[t.reqs[i].Section] += int64(t.reqs[i].Quantity)
	}
	for len(t.due) > 0 {
		locked, err := purchases.LockGeneralReservations(ctx, t.Tx, t.due)
		if err != nil {
			return err
		}
		expired := locked.Expire()
		events, err := locked.Save(ctx, t.Tx)
		if err != nil {
			return err
		}
		t.sale.Release(locked.Freed(expired))
		t.events = append(t.events, events...)
		if len(t.due) < releaseBatch || t.sale.HasFree(wanted) {
			return nil
		}
		t.due, err = t.DueInSections(ctx, db.DueInSectionsParams{
			EventID: t.eventID, Sections: slices.Collect(maps.Keys(t.sale.Free)), Now: t.AsOf, Max: releaseBatch,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *generalTx) insertReservations(ctx context.Context, p *pipeline, held []int) error {
	if len(held) == 0 {
		return nil
	}
	c, now := t.columnsOf(held), t.sale.Now
	err := db.New(p).InsertGeneralHolds(ctx, db.InsertGeneralHoldsParams{
		EventID: t.eventID, Currency: t.sale.Currency, ExpiresAt: now.Add(t.sale.HoldFor), CreatedAt: now, ReservationIds: c.ids,
		UserIds: c.users, Emails: c.emails, Languages: c.languages, SlotIds: c.slots, Sections: c.sections, Quantities: c.quantities, Amounts: c.amounts, Fees: c.fees,
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
	p.expectRows(len(taken), "sections", db.MoveCounters, move.EventIds, move.Sections, move.Held, move.Sold)
	return nil
}
