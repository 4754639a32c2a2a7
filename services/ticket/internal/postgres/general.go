package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/idempotency/answers"
	"urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/reservation"
)

const (
	// maxSettled bounds the requests of one transaction; the others wait for the next.
	maxSettled = 500
	// maxWaiting bounds the requests that wait, for one event or for their turn; above it they are told to come back.
	maxWaiting = 5000
	// maxReleased is how many holds whose time is over are freed at once.
	maxReleased = 1000
)

type (
	result        = batch.Result[*reservation.Reservation]
	generalWriter = batch.Coalescer[reservation.BestRequest, *reservation.Reservation]
)

// Holds makes holds. A section of general admission is one row that everybody writes: written hold by hold it would be a queue with a
// commit per buyer. So one writer per event settles, in one transaction, whatever has arrived while the last one was being committed.
// Named seats are rows of their own, and each request is a transaction of its own.
//
// Whatever it does in the database goes through one gate, so that payments find connections however many want to hold.
type Holds struct {
	*Store

	gate *gate

	mu      sync.Mutex
	writers map[string]*generalWriter // never more than there are events
}

var _ reservation.Holder = (*Holds)(nil)

// NewHolds makes Holds on a Store; inflight is how many of its transactions and readings there are at once.
func NewHolds(s *Store, inflight int) *Holds {
	return &Holds{Store: s, gate: newGate(inflight), writers: make(map[string]*generalWriter)}
}

// Close waits until the requests that have been accepted are answered.
func (h *Holds) Close(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var err error
	for _, w := range h.writers { // before the gate that they go through
		err = errors.Join(err, w.Close(ctx))
	}
	return errors.Join(err, h.gate.Close(ctx))
}

// Made implements reservation.Holder.
func (h *Holds) Made(ctx context.Context, key *idempotency.Key) (*reservation.Reservation, error) {
	if key == nil {
		return nil, nil //nolint:nilnil // nothing was made
	}
	return through(ctx, h.gate, func(ctx context.Context) (*reservation.Reservation, error) { return h.made(ctx, key) })
}

// CountFree implements reservation.Holder.
func (h *Holds) CountFree(ctx context.Context, eventID, section string) (int64, error) {
	return through(ctx, h.gate, func(ctx context.Context) (int64, error) { return h.countFree(ctx, eventID, section) })
}

// HoldGeneral implements reservation.Holder.
func (h *Holds) HoldGeneral(ctx context.Context, req reservation.BestRequest) (*reservation.Reservation, error) {
	return h.writer(req.EventID).Do(ctx, req)
}

func (h *Holds) writer(eventID string) *generalWriter {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.writers[eventID]
	if w == nil {
		w = batch.NewItems(batch.Config{Max: maxSettled, Queue: maxWaiting},
			func(ctx context.Context, reqs []reservation.BestRequest) ([]result, error) {
				// With the writer's own context: once its time is over nobody waits for the answers, and nothing may be held for them.
				return through(ctx, h.gate, func(context.Context) ([]result, error) { return h.settleGeneral(ctx, eventID, reqs) })
			})
		h.writers[eventID] = w
	}
	return w
}

// settleGeneral decides on requests of one event in one transaction. One that is refused fails nobody else.
func (h *Holds) settleGeneral(ctx context.Context, eventID string, reqs []reservation.BestRequest) ([]result, error) {
	var results []result
	err := postgres.InTxRetry(ctx, h.pool, func(ctx context.Context, tx pgx.Tx) error {
		g := &general{store: h.Store, tx: tx, q: h.queries(tx), eventID: eventID, reqs: reqs, results: make([]result, len(reqs))}
		results = g.results
		return g.settle(ctx)
	})
	if err != nil {
		return nil, err
	}
	failpoint.Hit("ticket.hold.after_commit")
	h.published()
	return results, nil
}

// general is the settling of one batch inside its transaction.
type general struct {
	store   *Store
	tx      pgx.Tx
	q       *queries
	eventID string
	reqs    []reservation.BestRequest
	results []result

	state  reservation.GeneralSale
	sale   db.SaleOfRow
	prices map[string]int64
	events []reservation.Event
}

func (g *general) settle(ctx context.Context) error {
	pending, err := g.answered(ctx)
	if err != nil || len(pending) == 0 {
		return err
	}
	if err := g.lock(ctx, pending); err != nil {
		return err
	}
	if err := g.release(ctx, pending); err != nil {
		return err
	}
	held := g.allot(pending)
	if err := g.insert(ctx, held); err != nil {
		return err
	}
	return g.store.insertEvents(ctx, g.tx, g.events)
}

// answered tells those requests that were made before what they were told then, and returns the others' places in the batch.
func (g *general) answered(ctx context.Context) ([]int, error) {
	keys := make([]*idempotency.Key, len(g.reqs))
	for i, r := range g.reqs {
		keys[i] = r.Once
	}
	priors, err := answers.ClaimAll(ctx, g.tx, keys)
	if err != nil {
		return nil, err
	}
	var pending []int
	for i, p := range priors {
		switch {
		case p.Err != nil:
			g.results[i].Err = p.Err
		case p.Answer != "":
			if g.results[i].Value, err = asMade(ctx, g.q, p.Answer); err != nil {
				return nil, err
			}
		default:
			pending = append(pending, i)
		}
	}
	return pending, nil
}

// lock takes the users' locks, then the sections', both in an order that every batch keeps, and reads what the decision needs.
func (g *general) lock(ctx context.Context, pending []int) error {
	var users, sections []string
	var locks []int64
	for _, i := range pending {
		users, sections = append(users, g.reqs[i].UserID), append(sections, g.reqs[i].Section)
		locks = append(locks, userLock(g.eventID, g.reqs[i].UserID))
	}
	locks = sortedUnique(locks)
	if err := g.q.LockUsers(ctx, locks); err != nil {
		return err
	}
	rows, err := g.q.LockSections(ctx, db.LockSectionsParams{EventID: g.eventID, Sections: sortedUnique(sections)})
	if err != nil {
		return err
	}
	g.sale, err = g.q.SaleOf(ctx, db.SaleOfParams{EventID: g.eventID, Now: g.q.now})
	if err != nil {
		return orNotFound(err, event.ErrNotFound)
	}
	if event.Seating(g.sale.Seating) != event.General {
		return event.ErrSeatingMismatch
	}
	used, err := usedBy(ctx, g.q, g.eventID, sortedUnique(users))
	if err != nil {
		return err
	}
	g.state = reservation.GeneralSale{Sale: toSale(g.sale), Now: g.sale.Now, Free: make(map[string]int64, len(rows)), Used: used}
	g.prices = make(map[string]int64, len(rows))
	for _, r := range rows {
		g.state.Free[r.Section], g.prices[r.Section] = r.Free, r.Price
	}
	return nil
}

// release frees holds whose time is over, until there is enough for everybody or none is left.
func (g *general) release(ctx context.Context, pending []int) error {
	var sections []string
	for s := range g.state.Free {
		sections = append(sections, s)
	}
	for {
		ids, err := g.q.DueInSections(ctx, db.DueInSectionsParams{
			EventID: g.eventID, Sections: sections, Now: g.q.now, Max: maxReleased,
		})
		if err != nil || len(ids) == 0 {
			return err
		}
		set, err := read(ctx, g.q, ids, nil)
		if err != nil {
			return err
		}
		for _, c := range set.list {
			if c.now.Expire(set.at) {
				g.state.Free[c.was.Section] += int64(c.was.Quantity)
			}
		}
		events, err := set.save(ctx, g.q)
		if err != nil {
			return err
		}
		g.events = append(g.events, events...)
		if len(ids) < maxReleased || g.enough(pending) {
			return nil
		}
	}
}

func (g *general) enough(pending []int) bool {
	wanted := make(map[string]int64)
	for _, i := range pending {
		wanted[g.reqs[i].Section] += int64(g.reqs[i].Quantity)
	}
	for section, n := range wanted {
		if g.state.Free[section] < n {
			return false
		}
	}
	return true
}

// allot decides in the order of arrival and returns the places in the batch of those who got something.
func (g *general) allot(pending []int) []int {
	now := g.sale.Now.UTC()
	var held []int
	for _, i := range pending {
		req := g.reqs[i]
		if err := g.state.Allot(req); err != nil {
			g.results[i].Err = err
			continue
		}
		r := reservation.NewHeld(reservation.Hold{
			ID: reservation.NewID(), EventID: g.eventID, UserID: req.UserID, SlotID: req.SlotID, Section: req.Section,
			Quantity: req.Quantity, Amount: g.prices[req.Section] * int64(req.Quantity), Currency: g.sale.Currency,
			For: g.store.holdTime(g.sale),
		}, now)
		g.events = append(g.events, r.TakeEvents()...)
		g.results[i].Value = r
		held = append(held, i)
	}
	return held
}

func (g *general) insert(ctx context.Context, held []int) error {
	if len(held) == 0 {
		return nil
	}
	now := g.sale.Now.UTC()
	arg := db.InsertGeneralHoldsParams{
		EventID: g.eventID, Currency: g.sale.Currency, ExpiresAt: now.Add(g.store.holdTime(g.sale)), CreatedAt: now,
	}
	keys, made := make([]*idempotency.Key, len(held)), make([]string, len(held))
	taken := make(map[string]int64)
	for n, i := range held {
		r := g.results[i].Value
		arg.ReservationIds, arg.UserIds = append(arg.ReservationIds, r.ID), append(arg.UserIds, r.UserID)
		arg.SlotIds, arg.Sections = append(arg.SlotIds, r.SlotID), append(arg.Sections, r.Section)
		arg.Quantities = append(arg.Quantities, int32(r.Quantity)) //nolint:gosec // ≤ 1000
		arg.Amounts = append(arg.Amounts, r.Amount)
		taken[r.Section] += int64(r.Quantity)
		keys[n], made[n] = g.reqs[i].Once, r.ID.String()
	}
	if err := g.q.InsertGeneralHolds(ctx, arg); err != nil {
		return err
	}
	var move db.MoveCountersParams
	for section, n := range taken {
		move.EventIds, move.Sections = append(move.EventIds, g.eventID), append(move.Sections, section)
		move.Held, move.Sold = append(move.Held, n), append(move.Sold, 0)
	}
	n, err := g.q.MoveCounters(ctx, move)
	if err := exactly(n, len(taken), "sections", err); err != nil {
		return err
	}
	return answers.KeepAll(ctx, g.tx, keys, made)
}

func sortedUnique[T cmp.Ordered](list []T) []T {
	slices.Sort(list)
	return slices.Compact(list)
}
