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
)

// Names of the stores, for people.
const (
	redisStore    = "Redis"
	kafkaStore    = "Kafka"
	providerStore = "the payment provider"
)

func postgresStore(service string) string { return "PostgreSQL (" + service + ")" }

// AwayError is a store that does not answer now and may be back soon: it has just ended, or is starting.
type AwayError struct {
	Store string
	Err   error
}

func (e *AwayError) Error() string { return e.Store + " is away: " + e.Err.Error() }

// Unwrap gives what the store's client said.
func (e *AwayError) Unwrap() error { return e.Err }

// away makes an AwayError of what a client says about a store that is away; other errors stay as they are.
func away(store string, err error) error {
	if err == nil || !isAway(err) {
		return err
	}
	return &AwayError{Store: store, Err: err}
}

func isAway(err error) bool {
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

// Absence says once that a store is away, and once that it is back.
type Absence struct {
	Say func(format string, args ...any)

	store string
	since time.Time
}

// Note is told how a read ended that began then, and tells whether a store is away and for how long it has been.
func (a *Absence) Note(began time.Time, err error) (store string, lasted time.Duration, isAway bool) {
	missing, isAway := errors.AsType[*AwayError](err)
	if a.store != "" && (!isAway || missing.Store != a.store) {
		a.Say("%s is back after %.1f s", a.store, time.Since(a.since).Seconds())
		a.store = ""
	}
	if !isAway {
		return "", 0, false
	}
	if a.store == "" {
		a.store, a.since = missing.Store, began
		a.Say("%v; waiting for it", missing)
	}
	return a.store, time.Since(a.since), true
}

// Patience is how long somebody who reads the stores waits for one that is away.
type Patience struct {
	Limit time.Duration
	// Say is told when a store is away, and when it is back.
	Say func(format string, args ...any)
}

// readAgain is how long a store that is away is left alone.
const readAgain = 500 * time.Millisecond

// Read repeats a read for as long as a store is away, at most until ctx ends or the limit is reached. waited tells that one was.
func (p Patience) Read(ctx context.Context, read func(context.Context) error) (waited bool, err error) {
	absence := Absence{Say: p.Say}
	for {
		began := time.Now()
		attempt, cancel := context.WithTimeout(ctx, p.Limit) // a client may try for ever
		err := read(attempt)
		cancel()
		if ctx.Err() != nil {
			return waited, ctx.Err()
		}
		store, lasted, isAway := absence.Note(began, err)
		if !isAway {
			return waited, err
		}
		if lasted >= p.Limit {
			return waited, fmt.Errorf("%s did not come back within %s: %w", store, p.Limit, err)
		}
		waited = true
		select {
		case <-ctx.Done():
			return waited, ctx.Err()
		case <-time.After(readAgain):
		}
	}
}
