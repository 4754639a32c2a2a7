package holds

import (
	"context"
	"maps"
	"slices"
	"time"

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

// holdBatch is the transaction that decides on some requests of one event. A refused request fails
// no other.
type holdBatch struct {
	*postgres.Tx

	store   *Store
	eventID string
	keys    []*idempotency.Key // of the requests
	results []result           // of the requests

	row    db.SaleOfRow     // the sale
	used   map[string]int64 // places that users have bought or hold
	events []reservation.Event
}

// decide runs fn in a transaction that it commits, and returns the results.
func (s *Store) decide(ctx context.Context, eventID string, keys []*idempotency.Key, fn func(context.Context, *holdBatch) error) ([]result, error) {
	var results []result
	err := s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		t := &holdBatch{Tx: tx, store: s, eventID: eventID, keys: keys, results: make([]result, len(keys))}
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
func (t *holdBatch) replayKnown(ctx context.Context) ([]int, error) {
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
func (t *holdBatch) refuse(pending []int, err error) {
	for _, i := range pending {
		t.results[i].Err = err
	}
}

// sale is what was read of the sale, for the domain.
func (t *holdBatch) sale() reservation.LockedSale {
	r := &t.row
	holdFor := t.store.holdFor
	if r.HoldSeconds != nil {
		holdFor = time.Duration(*r.HoldSeconds) * time.Second
	}
	return reservation.LockedSale{
		EventID: t.eventID, Seating: event.Seating(r.Seating), Currency: r.Currency, HoldFor: holdFor, Now: r.Now.UTC(), Used: t.used,
		Sale: event.Sale{State: event.State(r.State), OpenAt: r.SalesOpenAt, CloseAt: r.SalesCloseAt, MaxPerUser: int(r.MaxPerUser)},
	}
}

// lockKeys are the keys of users' locks, in the order that all transactions keep.
func (t *holdBatch) lockKeys(users []string) []int64 {
	keys := make([]int64, len(users))
	for i, u := range users {
		keys[i] = postgres.User{EventID: t.eventID, UserID: u}.LockKey()
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// queueSale reads the sale; pgx.ErrNoRows without one.
func (t *holdBatch) queueSale(b *pgx.Batch) {
	b.Queue(db.SaleOf, t.AsOf, t.eventID).QueryRow(func(r pgx.Row) error {
		s := &t.row
		return r.Scan(&s.Seating, &s.State, &s.SalesOpenAt, &s.SalesCloseAt, &s.MaxPerUser, &s.Currency, &s.HoldSeconds, &s.Now)
	})
}

// queueUsed reads what users have bought or hold.
func (t *holdBatch) queueUsed(b *pgx.Batch, users []string) {
	b.Queue(db.UsedBy, users, t.eventID, t.AsOf).Query(func(rows pgx.Rows) error {
		all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[db.UsedByRow])
		t.used = make(map[string]int64, len(all))
		for _, r := range all {
			t.used[r.UserID] = r.Used
		}
		return err
	})
}

// grant gives a request its reservation.
func (t *holdBatch) grant(i int, r *reservation.Reservation) {
	t.events = append(t.events, r.TakeEvents()...)
	t.results[i].Value = r
}

// pipeline queues statements and sends them in one round trip; their results are checked at its
// end.
type pipeline struct {
	pgx.Tx

	batch pgx.Batch
}

// Exec queues a statement; what it returns is not its result.
func (p *pipeline) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	p.batch.Queue(sql, args...)
	return pgconn.CommandTag{}, nil
}

// expect queues a statement that must change as many rows.
func (p *pipeline) expect(rows int, what, sql string, args ...any) {
	p.batch.Queue(sql, args...).Exec(func(tag pgconn.CommandTag) error {
		return postgres.ExpectRows(tag.RowsAffected(), rows, what, nil)
	})
}

// save sends what was queued, and with it the answers to requests that got something and what
// happened: the fewer exchanges with the database, the shorter the locks.
func (t *holdBatch) save(ctx context.Context, p *pipeline, held []int) error {
	keys, replies := make([]*idempotency.Key, len(held)), make([]string, len(held))
	for n, i := range held {
		keys[n], replies[n] = t.keys[i], t.results[i].Value.ID.String()
	}
	if err := answers.KeepAll(ctx, p, keys, replies); err != nil {
		return err
	}
	if err := reservations.InsertEvents(ctx, p, t.events); err != nil {
		return err
	}
	if p.batch.Len() == 0 {
		return nil
	}
	return t.SendBatch(ctx, &p.batch).Close()
}

// holdRows are new reservations as columns.
type holdRows struct {
	ids                    []uuid.UUID
	users, slots, sections []string
	quantities             []int32
	amounts                []int64
}

func (t *holdBatch) rows(held []int) (c holdRows) {
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
