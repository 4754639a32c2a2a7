package holds

import (
	"context"
	"maps"
	"slices"

	"urr.guru/pkg/idempotency"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/postgres/reservations"
	"urr.guru/services/ticket/internal/reservation"
)

// HoldGeneral implements reservation.Holder.
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
		results, err = s.decide(ctx, eventID, keys, func(ctx context.Context, t *together) error {
			return (&generalTx{together: t, reqs: reqs}).run(ctx)
		})
		return err
	})
	return results, err
}

// generalTx is the transaction of one batch.
type generalTx struct {
	*together

	reqs   []reservation.BestRequest
	state  reservation.GeneralSale
	prices map[string]int64
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
	if err := t.insert(ctx, held); err != nil {
		return err
	}
	return t.keep(ctx, held)
}

// lock takes the users' locks, then the sections', both in an order that every batch keeps, and
// reads what the decision needs.
func (t *generalTx) lock(ctx context.Context, pending []int) error {
	users := distinct(pending, func(i int) string { return t.reqs[i].UserID })
	sections := distinct(pending, func(i int) string { return t.reqs[i].Section })
	locks := make([]postgres.User, len(users))
	for i, u := range users {
		locks[i] = postgres.User{EventID: t.eventID, UserID: u}
	}
	if err := t.LockUsers(ctx, locks); err != nil {
		return err
	}
	rows, err := t.LockSections(ctx, db.LockSectionsParams{EventID: t.eventID, Sections: sections})
	if err != nil {
		return err
	}
	t.sale, err = t.SaleOf(ctx, db.SaleOfParams{EventID: t.eventID, Now: t.AsOf})
	if err != nil {
		return postgres.OrNotFound(err, event.ErrNotFound)
	}
	if err := t.admits(event.General); err != nil {
		return err
	}
	used, err := t.UsedBy(ctx, db.UsedByParams{EventID: t.eventID, UserIds: users, Now: t.AsOf})
	if err != nil {
		return err
	}
	t.countUsed(used)
	t.state = reservation.GeneralSale{Sale: toSale(t.sale), Now: t.sale.Now, Free: make(map[string]int64, len(rows)), Used: t.used}
	t.prices = make(map[string]int64, len(rows))
	for _, r := range rows {
		t.state.Free[r.Section], t.prices[r.Section] = r.Free, r.Price
	}
	return nil
}

// release expires holds whose time is over, until there is enough for all requests or none is left.
func (t *generalTx) release(ctx context.Context, pending []int) error {
	sections := slices.Collect(maps.Keys(t.state.Free))
	for {
		ids, err := t.DueInSections(ctx, db.DueInSectionsParams{EventID: t.eventID, Sections: sections, Now: t.AsOf, Max: maxReleased})
		if err != nil || len(ids) == 0 {
			return err
		}
		locked, err := reservations.LockGeneral(ctx, t.Tx, ids)
		if err != nil {
			return err
		}
		for _, r := range locked.Expire() {
			t.state.Free[r.Section] += int64(r.Quantity)
		}
		events, err := locked.Save(ctx, t.Tx)
		if err != nil {
			return err
		}
		t.events = append(t.events, events...)
		if len(ids) < maxReleased || t.enoughFree(pending) {
			return nil
		}
	}
}

func (t *generalTx) enoughFree(pending []int) bool {
	wanted := make(map[string]int64)
	for _, i := range pending {
		wanted[t.reqs[i].Section] += int64(t.reqs[i].Quantity)
	}
	for section, n := range wanted {
		if t.state.Free[section] < n {
			return false
		}
	}
	return true
}

// allot decides in the order of arrival and returns the indexes of the requests that got something.
func (t *generalTx) allot(pending []int) []int {
	var held []int
	for _, i := range pending {
		req := t.reqs[i]
		if err := t.state.Allot(req); err != nil {
			t.results[i].Err = err
			continue
		}
		t.hold(i, reservation.Hold{
			UserID: req.UserID, SlotID: req.SlotID, Section: req.Section, Quantity: req.Quantity, Amount: t.prices[req.Section] * int64(req.Quantity),
		})
		held = append(held, i)
	}
	return held
}

func (t *generalTx) insert(ctx context.Context, held []int) error {
	if len(held) == 0 {
		return nil
	}
	c, now := t.rows(held), t.sale.Now.UTC()
	err := t.InsertGeneralHolds(ctx, db.InsertGeneralHoldsParams{
		EventID: t.eventID, Currency: t.sale.Currency, ExpiresAt: now.Add(t.store.lifetime(t.sale)), CreatedAt: now, ReservationIds: c.ids,
		UserIds: c.users, SlotIds: c.slots, Sections: c.sections, Quantities: c.quantities, Amounts: c.amounts,
	})
	if err != nil {
		return err
	}
	taken := make(map[reservations.Section]reservations.Counters)
	for n, name := range c.sections {
		section := reservations.Section{EventID: t.eventID, Name: name}
		taken[section] = reservations.Counters{Held: taken[section].Held + int64(c.quantities[n])}
	}
	return reservations.MoveCounters(ctx, t.Queries, taken)
}
