package holds

import (
	"context"
	"maps"
	"slices"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/idempotency/answers"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/postgres/reservations"
	"urr.guru/services/ticket/internal/reservation"
)

// HoldGeneral implements reservation.Holder.
func (s *Store) HoldGeneral(ctx context.Context, req reservation.BestRequest) (*reservation.Reservation, error) {
	return s.batchOf(req.EventID).Do(ctx, req)
}

func (s *Store) batchOf(eventID string) *generalBatch {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.batches[eventID]
	if b == nil {
		b = batch.NewItems(batch.Config{Max: maxBatch, Queue: maxWaiting, Timeout: timeout},
			func(ctx context.Context, reqs []reservation.BestRequest) (results []result, err error) {
				// The batch's context, not one detached from it: when it ends all callers get its
				// error, so nothing may be held for them.
				err = s.limiter.Do(ctx, func() error {
					results, err = s.holdGeneral(ctx, eventID, reqs)
					return err
				})
				return results, err
			})
		s.batches[eventID] = b
	}
	return b
}

// holdGeneral decides on requests of one event in one transaction. A refused request fails no
// other.
func (s *Store) holdGeneral(ctx context.Context, eventID string, reqs []reservation.BestRequest) ([]result, error) {
	var results []result
	err := s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		t := &generalTx{Tx: tx, store: s, eventID: eventID, reqs: reqs, results: make([]result, len(reqs))}
		results = t.results
		return t.run(ctx)
	})
	if err != nil {
		return nil, err
	}
	failpoint.Hit("ticket.hold.after_commit")
	s.database.Published()
	return results, nil
}

// generalTx is the transaction of one batch.
type generalTx struct {
	*postgres.Tx

	store   *Store
	eventID string
	reqs    []reservation.BestRequest
	results []result

	state  reservation.GeneralSale
	sale   db.SaleOfRow
	prices map[string]int64
	events []reservation.Event
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
	return reservations.InsertEvents(ctx, t, t.events)
}

// replayKnown answers repeated requests by their first answer, and returns the indexes of the
// others.
func (t *generalTx) replayKnown(ctx context.Context) ([]int, error) {
	keys := make([]*idempotency.Key, len(t.reqs))
	for i, r := range t.reqs {
		keys[i] = r.IdempotencyKey
	}
	states, err := answers.ClaimAll(ctx, t, keys)
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

// lock takes the users' locks, then the sections', both in an order that every batch keeps, and
// reads what the decision needs.
func (t *generalTx) lock(ctx context.Context, pending []int) error {
	users, sections := make(map[string]struct{}), make(map[string]struct{})
	var locks []postgres.User
	for _, i := range pending {
		users[t.reqs[i].UserID], sections[t.reqs[i].Section] = struct{}{}, struct{}{}
		locks = append(locks, postgres.User{EventID: t.eventID, UserID: t.reqs[i].UserID})
	}
	if err := t.LockUsers(ctx, locks); err != nil {
		return err
	}
	rows, err := t.LockSections(ctx, db.LockSectionsParams{EventID: t.eventID, Sections: slices.Collect(maps.Keys(sections))})
	if err != nil {
		return err
	}
	t.sale, err = t.SaleOf(ctx, db.SaleOfParams{EventID: t.eventID, Now: t.AsOf})
	if err != nil {
		return postgres.OrNotFound(err, event.ErrNotFound)
	}
	if event.Seating(t.sale.Seating) != event.General {
		return event.ErrSeatingMismatch
	}
	used, err := t.usedBy(ctx, slices.Collect(maps.Keys(users)))
	if err != nil {
		return err
	}
	t.state = reservation.GeneralSale{Sale: toSale(t.sale), Now: t.sale.Now, Free: make(map[string]int64, len(rows)), Used: used}
	t.prices = make(map[string]int64, len(rows))
	for _, r := range rows {
		t.state.Free[r.Section], t.prices[r.Section] = r.Free, r.Price
	}
	return nil
}

// usedBy counts the places that users have bought or hold.
func (t *generalTx) usedBy(ctx context.Context, users []string) (map[string]int64, error) {
	rows, err := t.UsedBy(ctx, db.UsedByParams{EventID: t.eventID, UserIds: users, Now: t.AsOf})
	if err != nil {
		return nil, err
	}
	used := make(map[string]int64, len(rows))
	for _, r := range rows {
		used[r.UserID] = r.Used
	}
	return used, nil
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
	now := t.sale.Now.UTC()
	var held []int
	for _, i := range pending {
		req := t.reqs[i]
		if err := t.state.Allot(req); err != nil {
			t.results[i].Err = err
			continue
		}
		r := reservation.NewHeld(reservation.Hold{
			ID: reservation.NewID(), EventID: t.eventID, UserID: req.UserID, SlotID: req.SlotID, Section: req.Section,
			Quantity: req.Quantity, Amount: t.prices[req.Section] * int64(req.Quantity), Currency: t.sale.Currency,
			For: t.store.lifetime(t.sale),
		}, now)
		t.events = append(t.events, r.TakeEvents()...)
		t.results[i].Value = r
		held = append(held, i)
	}
	return held
}

func (t *generalTx) insert(ctx context.Context, held []int) error {
	if len(held) == 0 {
		return nil
	}
	now := t.sale.Now.UTC()
	arg := db.InsertGeneralHoldsParams{
		EventID: t.eventID, Currency: t.sale.Currency, ExpiresAt: now.Add(t.store.lifetime(t.sale)), CreatedAt: now,
	}
	keys, replies := make([]*idempotency.Key, len(held)), make([]string, len(held))
	taken := make(map[reservations.Section]reservations.Counters)
	for n, i := range held {
		r := t.results[i].Value
		arg.ReservationIds, arg.UserIds = append(arg.ReservationIds, r.ID), append(arg.UserIds, r.UserID)
		arg.SlotIds, arg.Sections = append(arg.SlotIds, r.SlotID), append(arg.Sections, r.Section)
		arg.Quantities = append(arg.Quantities, int32(r.Quantity)) //nolint:gosec // ≤ 1000
		arg.Amounts = append(arg.Amounts, r.Amount)
		section := reservations.Section{EventID: t.eventID, Name: r.Section}
		taken[section] = reservations.Counters{Held: taken[section].Held + int64(r.Quantity)}
		keys[n], replies[n] = t.reqs[i].IdempotencyKey, r.ID.String()
	}
	if err := t.InsertGeneralHolds(ctx, arg); err != nil {
		return err
	}
	if err := reservations.MoveCounters(ctx, t.Queries, taken); err != nil {
		return err
	}
	return answers.KeepAll(ctx, t, keys, replies)
}
