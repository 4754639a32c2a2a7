package holds

import (
	"context"
	"errors"
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
	"urr.guru/services/ticket/internal/postgres/purchases"
	"urr.guru/services/ticket/internal/reservation"
)

// holdBatch is a transaction that answers a batch of requests for holds of one event. keys and
// results have an element for each request. A refused request does not affect the others.
type holdBatch struct {
	*postgres.Tx

	store   *Store
	eventID string
	keys    []*idempotency.Key
	results []result

	// series is the series of the event as last read. Users are locked for this series.
	series  string
	row     db.SaleOfRow
	records map[string]event.Record
	events  []reservation.Event
}

// errOtherSeries means that users were locked for a series to which the event no longer belongs.
var errOtherSeries = errors.New("the event is of another series")

// runBatch runs fn in a transaction and returns the requests' results after the commit.
func (s *Store) runBatch(ctx context.Context, eventID string, keys []*idempotency.Key, fn func(context.Context, *holdBatch) error) ([]result, error) {
	var results []result
	run := func() error {
		return s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
			t := &holdBatch{Tx: tx, store: s, eventID: eventID, keys: keys, results: make([]result, len(keys)), series: s.seriesOf(eventID)}
			results = t.results
			return fn(ctx, t)
		})
	}
	err := run()
	for range seriesAttempts {
		if !errors.Is(err, errOtherSeries) {
			break
		}
		err = run()
	}
	if err != nil {
		return nil, err
	}
	failpoint.Hit("ticket.hold.after_commit")
	s.database.Published()
	return results, nil
}

// replayRepeated answers requests that were answered before with their stored answers, and returns
// the indexes of the other requests.
func (t *holdBatch) replayRepeated(ctx context.Context) ([]int, error) {
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

func (t *holdBatch) refuseAll(pending []int, err error) {
	for _, i := range pending {
		t.results[i].Err = err
	}
}

// decideAll calls decide for the pending requests in the order of their arrival, and returns the
// indexes of the requests that got a reservation.
func (t *holdBatch) decideAll(pending []int, decide func(i int) (*reservation.Reservation, error)) (held []int) {
	for _, i := range pending {
		r, err := decide(i)
		if err != nil {
			t.results[i].Err = err
			continue
		}
		t.events = append(t.events, r.TakeEvents()...)
		t.results[i].Value = r
		held = append(held, i)
	}
	return held
}

func (t *holdBatch) lockedSale() reservation.LockedSale {
	r := &t.row
	holdFor := t.store.holdFor
	if r.HoldSeconds != nil {
		holdFor = time.Duration(*r.HoldSeconds) * time.Second
	}
	return reservation.LockedSale{
		EventID: t.eventID, Seating: event.Seating(r.Seating), Currency: r.Currency, HoldFor: holdFor, Now: r.Now.UTC(), Records: t.records,
		Sale: postgres.Sale(r),
	}
}

// seriesOf returns the series of an event as this replica last read it, so that users can be locked
// without reading the event first; "" if there is none or before the first read.
func (s *Store) seriesOf(eventID string) string {
	series, _ := s.series.Load(eventID)
	id, _ := series.(string)
	return id
}

// checkSeries returns errOtherSeries if the batch has locked its users for a series that is not the
// event's. It remembers the event's series, so that the next try locks them for that one.
func (t *holdBatch) checkSeries() error {
	if t.row.SeriesID == t.series {
		return nil
	}
	t.store.series.Store(t.eventID, t.row.SeriesID)
	return errOtherSeries
}

func (t *holdBatch) users(ids []string) []postgres.User {
	users := make([]postgres.User, len(ids))
	for i, id := range ids {
		users[i] = t.user(id)
	}
	return users
}

func (t *holdBatch) user(id string) postgres.User {
	return postgres.User{EventID: t.eventID, SeriesID: t.series, UserID: id}
}

// queueSale queues the read of the event's sale. It fails with pgx.ErrNoRows if no event is found.
func (t *holdBatch) queueSale(b *pgx.Batch) {
	b.Queue(db.SaleOf, t.AsOf, t.eventID).QueryRow(func(r pgx.Row) error {
		s := &t.row
		return r.Scan(&s.Seating, &s.State, &s.ReturnsTo, &s.PresaleOpensAt, &s.SalesOpenAt, &s.SalesCloseAt, &s.MaxPerUser, &s.Currency, &s.HoldSeconds,
			&s.SeriesID, &s.MaxPerUserInSeries, &s.PresaleMaxPerUser, &s.MaxReturnsPerUser, &s.Now)
	})
}

func (t *holdBatch) queueRecords(b *pgx.Batch, users []string) {
	b.Queue(db.RecordsOf, event.Forgiven, users, t.eventID, t.AsOf, event.ForgottenAfter.Seconds()).Query(func(rows pgx.Rows) error {
		all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[db.RecordsOfRow])
		t.records = make(map[string]event.Record, len(all))
		for _, r := range all {
			t.records[r.UserID] = postgres.Record(r)
		}
		return err
	})
	if t.series == "" {
		return
	}
	b.Queue(db.UsedInSeries, users, t.series, t.AsOf).Query(func(rows pgx.Rows) error {
		all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[db.UsedInSeriesRow])
		for _, r := range all {
			record := t.records[r.UserID]
			record.InSeries = r.Used
			t.records[r.UserID] = record
		}
		return err
	})
}

// pipeline collects statements that holdBatch.saveAnswersAndEvents sends in one round trip. Their
// results are checked after that.
type pipeline struct {
	pgx.Tx

	batch pgx.Batch
}

// Exec queues a statement instead of running it, and returns an empty tag.
func (p *pipeline) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	p.batch.Queue(sql, args...)
	return pgconn.CommandTag{}, nil
}

// expectRows queues a statement on a table, which fails unless it changes this number of rows.
func (p *pipeline) expectRows(rows int, table, sql string, args ...any) {
	p.batch.Queue(sql, args...).Exec(func(tag pgconn.CommandTag) error {
		return postgres.ExpectRows(tag.RowsAffected(), rows, table, nil)
	})
}

// saveAnswersAndEvents queues the answers to requests that got a hold, and the Kafka events. It
// sends all queued statements in one round trip, so that locks are held for a shorter time.
func (t *holdBatch) saveAnswersAndEvents(ctx context.Context, p *pipeline, held []int) error {
	keys, replies := make([]*idempotency.Key, len(held)), make([]string, len(held))
	for n, i := range held {
		keys[n], replies[n] = t.keys[i], t.results[i].Value.ID.String()
	}
	if err := answers.KeepAll(ctx, p, keys, replies); err != nil {
		return err
	}
	if err := purchases.InsertReservationEvents(ctx, p, t.events); err != nil {
		return err
	}
	if p.batch.Len() == 0 {
		return nil
	}
	return t.SendBatch(ctx, &p.batch).Close()
}

// holdColumns has the values of the reservations to insert, by column.
type holdColumns struct {
	ids                    []uuid.UUID
	users, slots, sections []string
	emails, languages      []string
	quantities             []int32
	amounts, fees          []int64
}

func (t *holdBatch) columnsOf(held []int) (c holdColumns) {
	for _, i := range held {
		r := t.results[i].Value
		c.ids, c.users, c.slots = append(c.ids, r.ID), append(c.users, r.UserID), append(c.slots, r.SlotID)
		c.emails, c.languages = append(c.emails, r.Contact.Email), append(c.languages, r.Contact.Language)
		c.sections, c.amounts, c.fees = append(c.sections, r.Section), append(c.amounts, r.Amount), append(c.fees, r.Fee)
		c.quantities = append(c.quantities, int32(r.Quantity)) //nolint:gosec // ≤ 1000
	}
	return c
}

// distinctValues returns the values of one field of the pending requests, sorted and each once.
func distinctValues(pending []int, field func(i int) string) []string {
	values := make([]string, len(pending))
	for n, i := range pending {
		values[n] = field(i)
	}
	slices.Sort(values)
	return slices.Compact(values)
}
