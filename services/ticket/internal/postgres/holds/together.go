package holds

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

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

// lockKeys are the keys of users' locks, in the order that all transactions keep.
func (t *together) lockKeys(users []string) []int64 {
	keys := make([]int64, len(users))
	for i, u := range users {
		keys[i] = postgres.User{EventID: t.eventID, UserID: u}.LockKey()
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// queueSale reads the sale; pgx.ErrNoRows without one.
func (t *together) queueSale(b *pgx.Batch) {
	b.Queue(db.SaleOf, t.AsOf, t.eventID).QueryRow(func(r pgx.Row) error {
		s := &t.sale
		return r.Scan(&s.Seating, &s.State, &s.SalesOpenAt, &s.SalesCloseAt, &s.MaxPerUser, &s.Currency, &s.HoldSeconds, &s.Now)
	})
}

// queueUsed reads what users have bought or hold.
func (t *together) queueUsed(b *pgx.Batch, users []string) {
	b.Queue(db.UsedBy, users, t.eventID, t.AsOf).Query(func(rows pgx.Rows) error {
		all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[db.UsedByRow])
		t.used = make(map[string]int64, len(all))
		for _, r := range all {
			t.used[r.UserID] = r.Used
		}
		return err
	})
}

// hold makes the reservation that a request gets.
func (t *together) hold(i int, h reservation.Hold) *reservation.Reservation {
	h.ID, h.EventID, h.Currency, h.For = reservation.NewID(), t.eventID, t.sale.Currency, t.store.lifetime(t.sale)
	r := reservation.NewHeld(h, t.sale.Now.UTC())
	t.events = append(t.events, r.TakeEvents()...)
	t.results[i].Value = r
	return r
}

// later sends statements at once with others. Their results are not known when Exec returns.
type later struct {
	pgx.Tx

	batch pgx.Batch
}

// Exec queues a statement.
func (l *later) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	l.batch.Queue(sql, args...)
	return pgconn.CommandTag{}, nil
}

// expect queues a statement that must change as many rows.
func (l *later) expect(rows int, what, sql string, args ...any) {
	l.batch.Queue(sql, args...).Exec(func(tag pgconn.CommandTag) error {
		return postgres.ExpectRows(tag.RowsAffected(), rows, what, nil)
	})
}

// save sends what was queued, and with it the answers to requests that got something and what
// happened: the fewer exchanges with the database, the shorter the locks.
func (t *together) save(ctx context.Context, l *later, held []int) error {
	keys, replies := make([]*idempotency.Key, len(held)), make([]string, len(held))
	for n, i := range held {
		keys[n], replies[n] = t.keys[i], t.results[i].Value.ID.String()
	}
	if err := answers.KeepAll(ctx, l, keys, replies); err != nil {
		return err
	}
	if err := reservations.InsertEvents(ctx, l, t.events); err != nil {
		return err
	}
	if l.batch.Len() == 0 {
		return nil
	}
	return t.SendBatch(ctx, &l.batch).Close()
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
