// Package holds stores holds of seats and of general admission.
package holds

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/idempotency/answers"
	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/limit"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/postgres/reservations"
	"urr.guru/services/ticket/internal/reservation"
)

const (
	// maxBatch bounds the requests of one transaction; the others wait for the next. A request takes
	// up to two advisory locks, of its key and of its user, and the server has room for a limited
	// number of them (max_locks_per_transaction).
	maxBatch = 100
	// fewSeats is up to how many seats of a request are read at once with its event's limit.
	fewSeats = 16
	// maxWaiting bounds the requests that wait, for one event or for a transaction; above it they
	// are refused with errs.ErrOverloaded.
	maxWaiting = 5000
	// maxEvents bounds the events that have requests at once.
	maxEvents = 10_000
	// seatBatches is how many batches of an event decide on named seats at once: while one is being
	// committed, the next one reads.
	seatBatches = 2
	// gatherFor is how long the first request of an idle event waits for others: gateways send many at
	// once, and wait for all of them.
	gatherFor = 300 * time.Microsecond
	// maxReleased is how many expired holds are released at once.
	maxReleased = 1000
	// defaultTimeout bounds what one request does in the database.
	defaultTimeout = 5 * time.Second
)

type (
	result         = batch.Result[*reservation.Reservation]
	batches[R any] = batch.Groups[string, R, *reservation.Reservation]
)

var _ reservation.Holder = (*Store)(nil)

// Store makes holds. Requests for an event are batched: a transaction decides on all that arrived
// while the last one was being committed. A section of general admission is one row that all
// requests write, so one batch of an event runs at a time. Batches of named seats wait for no lock;
// requests that would have to wait get a transaction of their own.
//
// All of its transactions and reads go through one limiter, so that payments find connections
// however many holds are requested. Those that wait for locks take no more than half of it.
type Store struct {
	database *postgres.Database
	holdFor  time.Duration
	timeout  time.Duration // of what one request does in the database
	limiter  *limit.Limiter
	alone    *limit.Limiter // taken before limiter
	general  *batches[reservation.BestRequest]
	seats    *batches[reservation.SeatsRequest]
}

// Option changes a Store.
type Option func(*Store)

// WithTimeout replaces the 5 s of what one request does in the database.
func WithTimeout(d time.Duration) Option { return func(s *Store) { s.timeout = d } }

// NewStore makes a Store for `concurrent` transactions and reads at once. holdFor is the length of
// a hold when the event does not set one.
func NewStore(d *postgres.Database, concurrent int, holdFor time.Duration, opts ...Option) *Store {
	s := &Store{
		database: d, holdFor: holdFor, timeout: defaultTimeout,
		limiter: limit.New(concurrent, maxWaiting), alone: limit.New(max(1, concurrent/2), maxWaiting),
	}
	for _, opt := range opts {
		opt(s)
	}
	cfg := batch.Config{Max: maxBatch, Delay: gatherFor, Queue: maxWaiting, Timeout: s.timeout}
	s.general = batch.NewGroups(cfg, maxEvents, s.holdGeneral)
	cfg.Inflight = seatBatches
	s.seats = batch.NewGroups(cfg, maxEvents, s.holdSeats)
	return s
}

// Close waits until the accepted requests are answered.
func (s *Store) Close(ctx context.Context) error {
	// Each before what it needs.
	return errors.Join(s.general.Close(ctx), s.seats.Close(ctx), s.alone.Close(ctx), s.limiter.Close(ctx))
}

// limited runs fn when the limiter admits it. Once begun it does not end with its caller: pgx would
// close the connection.
func limited[T any](ctx context.Context, s *Store, fn func(context.Context) (T, error)) (value T, err error) {
	err = s.limiter.Do(ctx, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
		defer cancel()
		value, err = fn(ctx)
		return err
	})
	return value, err
}

func (s *Store) Replay(ctx context.Context, key *idempotency.Key) (*reservation.Reservation, error) {
	if key == nil {
		return nil, nil //nolint:nilnil // nothing was made
	}
	return limited(ctx, s, func(ctx context.Context) (r *reservation.Reservation, err error) {
		err = s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
			r, err = replay(ctx, tx, key)
			return err
		})
		return r, err
	})
}

// replay claims the key and returns the reservation that an earlier request with it made, nil when
// there was none.
func replay(ctx context.Context, tx *postgres.Tx, key *idempotency.Key) (*reservation.Reservation, error) {
	answer, err := answers.Claim(ctx, tx, key)
	if err != nil || answer == "" {
		return nil, err
	}
	return replayAnswer(ctx, tx, answer)
}

// replayAnswer returns a reservation as it was created. Its id is the answer that is kept.
func replayAnswer(ctx context.Context, tx *postgres.Tx, answer string) (*reservation.Reservation, error) {
	id, err := uuid.Parse(answer)
	if err != nil {
		return nil, err
	}
	r, _, err := reservations.Find(ctx, tx.Queries, id)
	if err != nil {
		return nil, err
	}
	return r.AsCreated(), nil
}

func (s *Store) CountFree(ctx context.Context, eventID, section string) (int64, error) {
	return limited(ctx, s, func(ctx context.Context) (int64, error) {
		q := s.database.Queries()
		n, err := q.CountFree(ctx, db.CountFreeParams{EventID: eventID, Section: section, Now: q.AsOf})
		return n, pkgpostgres.Err(err)
	})
}
