// Package holds stores holds of seats and of general admission.
package holds

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/idempotency/answers"
	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/limit"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/postgres/purchases"
	"urr.guru/services/ticket/internal/reservation"
)

const (
	// maxBatch is the most requests of one transaction. Each takes up to two advisory locks: of its
	// idempotency key and of its user. The server's max_locks_per_transaction limits their number.
	maxBatch = 100
	// smallRequest is the most seats of a request that are read together with the event's limit.
	smallRequest = 16
	// maxWaiting is the most requests that may wait for an event's batch or for a transaction. Beyond
	// it, requests are refused with errs.ErrOverloaded.
	maxWaiting = 5000
	// maxEvents is the most events that may have requests at the same time.
	maxEvents = 10_000
	// seatBatches is the most batches of an event with seats that run at the same time. While one
	// batch is being committed, the next one reads.
	seatBatches = 2
	// batchDelay is how long the first request of an idle event waits for more requests, since a
	// gateway sends many at the same time.
	batchDelay = 300 * time.Microsecond
	// seriesAttempts is the most times that a transaction is repeated because the event's series has
	// changed, which can happen only before the sale.
	seriesAttempts = 3
	// releaseBatch is the maximum number of expired holds that are released at once.
	releaseBatch = 1000
	// defaultTimeout is the time limit of a request in the database.
	defaultTimeout = 5 * time.Second
)

// result is the hold or the error of one request; batches answers requests of type R, by event.
type (
	result         = batch.Result[*reservation.Reservation]
	batches[R any] = batch.Groups[string, R, *reservation.Reservation]
)

var _ reservation.Holder = (*Store)(nil)

// Store makes holds. Requests for an event are batched: one transaction answers all requests that
// arrived while the previous one was being committed. Requests for places without seats write the
// row of their section, so only one such batch of an event runs at a time. Batches of requests for
// named seats do not wait for locks; a request that must wait is answered in a transaction of its
// own.
//
// A limiter limits how many transactions and reads run at once, so that payments find connections.
// Transactions that wait for locks use at most half of this number.
type Store struct {
	database     *postgres.Database
	holdFor      time.Duration
	timeout      time.Duration // the time limit of a request in the database
	limiter      *limit.Limiter
	waitsLimiter *limit.Limiter // also for transactions that wait for locks, before limiter
	series       sync.Map       // event id → its series, see seriesOf
	general      *batches[reservation.BestRequest]
	seats        *batches[reservation.SeatsRequest]
}

// Option changes a Store.
type Option func(*Store)

// WithTimeout sets how long a request may take in the database, by default 5 s.
func WithTimeout(d time.Duration) Option { return func(s *Store) { s.timeout = d } }

// NewStore makes a Store that runs up to `concurrent` transactions and reads at once. holdFor is
// how long a hold lasts if its event does not say.
func NewStore(d *postgres.Database, concurrent int, holdFor time.Duration, opts ...Option) *Store {
	s := &Store{
		database: d, holdFor: holdFor, timeout: defaultTimeout,
		limiter: limit.New(concurrent, maxWaiting), waitsLimiter: limit.New(max(1, concurrent/2), maxWaiting),
	}
	for _, opt := range opts {
		opt(s)
	}
	cfg := batch.Config{Max: maxBatch, Delay: batchDelay, Queue: maxWaiting, Timeout: s.timeout}
	s.general = batch.NewGroups(cfg, maxEvents, s.holdGeneral)
	cfg.Inflight = seatBatches
	s.seats = batch.NewGroups(cfg, maxEvents, s.holdSeats)
	return s
}

// Close waits until all accepted requests are answered. The batches are closed before the limiters
// that they use.
func (s *Store) Close(ctx context.Context) error {
	return errors.Join(s.general.Close(ctx), s.seats.Close(ctx), s.waitsLimiter.Close(ctx), s.limiter.Close(ctx))
}

// runLimited waits until the limiter admits fn, and runs it. If ctx ends meanwhile, fn goes on,
// since pgx would close its connection otherwise.
func runLimited[T any](ctx context.Context, s *Store, fn func(context.Context) (T, error)) (T, error) {
	return limit.Do(ctx, s.limiter, func() (T, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
		defer cancel()
		return fn(ctx)
	})
}

func (s *Store) Replay(ctx context.Context, key *idempotency.Key) (*reservation.Reservation, error) {
	if key == nil {
		return nil, nil //nolint:nilnil // nothing was made
	}
	return runLimited(ctx, s, func(ctx context.Context) (r *reservation.Reservation, err error) {
		err = s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
			answer, err := answers.Claim(ctx, tx, key)
			if err != nil || answer == "" {
				return err
			}
			r, err = replayAnswer(ctx, tx, answer)
			return err
		})
		return r, err
	})
}

// replayAnswer returns the reservation, as it was created, that an earlier request with the same
// idempotency key made. answer is what is stored for the key: the reservation's id.
func replayAnswer(ctx context.Context, tx *postgres.Tx, answer string) (*reservation.Reservation, error) {
	id, err := uuid.Parse(answer)
	if err != nil {
		return nil, err
	}
	r, _, err := purchases.FindReservation(ctx, tx.Queries, id)
	if err != nil {
		return nil, err
	}
	return r.AsCreated(), nil
}

func (s *Store) CountFree(ctx context.Context, eventID, section string) (int64, error) {
	return runLimited(ctx, s, func(ctx context.Context) (int64, error) {
		q := s.database.Queries()
		n, err := q.CountFree(ctx, db.CountFreeParams{EventID: eventID, Section: section, Now: q.AsOf})
		return n, pkgpostgres.Err(err)
	})
}
