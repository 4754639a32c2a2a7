package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"urr.guru/pkg/loop"
)

// Names of the stores in error messages.
const (
	redisStore    = "Redis"
	kafkaStore    = "Kafka"
	dynamoStore   = "DynamoDB"
	providerStore = "the payment provider"
)

func postgresStore(service string) string { return "PostgreSQL (" + service + ")" }

// UnavailableError means that a store does not answer now but may soon: its process has just ended,
// or is starting.
type UnavailableError struct {
	Store string
	Err   error
}

func (e *UnavailableError) Error() string { return e.Store + " is away: " + e.Err.Error() }

func (e *UnavailableError) Unwrap() error { return e.Err }

// unavailable returns an UnavailableError if the error means that the store cannot be reached, and
// err itself otherwise.
func unavailable(store string, err error) error {
	if err == nil || !isUnavailable(err) {
		return err
	}
	return &UnavailableError{Store: store, Err: err}
}

func isUnavailable(err error) bool {
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return true
	}
	for _, gone := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, context.DeadlineExceeded, redis.ErrPoolTimeout} {
		if errors.Is(err, gone) {
			return true
		}
	}
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		const connection, stopped, crashed, starting = "08", "57P01", "57P02", "57P03"
		return strings.HasPrefix(refused.Code, connection) ||
			refused.Code == stopped || refused.Code == crashed || refused.Code == starting
	}
	for _, is := range []func(error) bool{
		redis.IsLoadingError, redis.IsMasterDownError, redis.IsClusterDownError, redis.IsTryAgainError, redis.IsReadOnlyError,
		kerr.IsRetriable, kgo.IsRetryableBrokerErr, pgconn.SafeToRetry,
	} {
		if is(err) {
			return true
		}
	}
	return false
}

// OutageDetector prints when a store's outage begins and ends, from the results of reads.
type OutageDetector struct {
	Say func(format string, args ...any)

	store string
	since time.Time
}

// Record records the result of a read that began at the time began. If a store is unavailable, it
// returns which one and for how long.
func (a *OutageDetector) Record(began time.Time, err error) (store string, lasted time.Duration, isUnavailable bool) {
	outage, isUnavailable := errors.AsType[*UnavailableError](err)
	if a.store != "" && (!isUnavailable || outage.Store != a.store) {
		a.Say("%s is back after %.1f s", a.store, time.Since(a.since).Seconds())
		a.store = ""
	}
	if !isUnavailable {
		return "", 0, false
	}
	if a.store == "" {
		a.store, a.since = outage.Store, began
		a.Say("%v; waiting for it", outage)
	}
	return a.store, time.Since(a.since), true
}

// OutageWait repeats reads of a store that is unavailable, for a limited time.
type OutageWait struct {
	Limit time.Duration
	// Say prints that a store has become unavailable, or is available again.
	Say func(format string, args ...any)
}

// retryPause is the time between two attempts to read a store that is unavailable.
const retryPause = 500 * time.Millisecond

// Read calls read, and repeats it while a store is unavailable, until ctx ends or the limit is
// reached. It returns waited = true if a store was unavailable.
func (p OutageWait) Read(ctx context.Context, read func(context.Context) error) (waited bool, err error) {
	detector := OutageDetector{Say: p.Say}
	for {
		began := time.Now()
		attempt, cancel := context.WithTimeout(ctx, p.Limit) // a client may retry indefinitely
		err := read(attempt)
		cancel()
		if ctx.Err() != nil {
			return waited, ctx.Err()
		}
		store, lasted, isUnavailable := detector.Record(began, err)
		if !isUnavailable {
			return waited, err
		}
		if lasted >= p.Limit {
			return waited, fmt.Errorf("%s did not come back within %s: %w", store, p.Limit, err)
		}
		waited = true
		if !loop.Sleep(ctx, retryPause) {
			return waited, ctx.Err()
		}
	}
}
