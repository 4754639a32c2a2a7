// Package postgres keeps events, reservations and tickets. Every transaction that changes a reservation takes its locks in one order:
// the advisory lock of (event, user), then seats by their index (sections stand for them with general admission), then reservations by
// id. Time is the database's everywhere, so that replicas need not agree on theirs; tests may set it.
package postgres

import (
	"crypto/sha256"
	"embed"
	"encoding/binary"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"urr.guru/pkg/idempotency/answers"
	"urr.guru/pkg/inbox"
	"urr.guru/pkg/outbox"
	"urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations create all tables of the service's database.
var Migrations = []postgres.MigrationSet{{Name: "ticket", FS: files}, answers.Migrations, outbox.Migrations, inbox.Migrations}

// Source is the CloudEvents source of what this service publishes.
const Source = "ticket"

// Store is what the adapters of this package have in common.
type Store struct {
	pool, reads *pgxpool.Pool
	// published is told after each commit that wrote events.
	published func()
	holdFor   time.Duration
	clock     func() time.Time
	stuck     stuck
}

// Options of a Store.
type Options struct {
	// Reads is the pool of what visitors read of events, apart from the one that holds and payments use; nil: the same.
	Reads *pgxpool.Pool
	// HoldFor is how long a hold lives where the event does not say.
	HoldFor time.Duration
	// Published is told after each commit that wrote events; nil: the relay finds them by itself.
	Published func()
	// Now is the clock that rules are judged by; nil, as in production: the database's.
	Now func() time.Time
}

// NewStore makes a Store.
func NewStore(pool *pgxpool.Pool, opts Options) *Store {
	if opts.Published == nil {
		opts.Published = func() {}
	}
	if opts.Reads == nil {
		opts.Reads = pool
	}
	return &Store{pool: pool, reads: opts.Reads, published: opts.Published, holdFor: opts.HoldFor, clock: opts.Now}
}

// queries are the statements of one transaction, or of reads outside of one, with the time that
// they are told. NULL, as in production, means the database's clock.
type queries struct {
	*db.Queries

	// now stands in for now(), which does not move during a transaction.
	now *time.Time
	// present stands in for clock_timestamp(), which does.
	present func() *time.Time
}

func (s *Store) queries(conn db.DBTX) *queries {
	present := func() *time.Time {
		if s.clock == nil {
			return nil
		}
		now := s.clock()
		return &now
	}
	return &queries{Queries: db.New(conn), now: present(), present: present}
}

// userLock is the advisory lock of one user's holds of one event.
func userLock(eventID, userID string) int64 {
	sum := sha256.Sum256([]byte("user\x00" + eventID + "\x00" + userID))
	return int64(binary.BigEndian.Uint64(sum[:8])) //nolint:gosec // any 64 bits will do
}

// orNotFound replaces the driver's word for "no row".
func orNotFound(err, notFound error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return notFound
	}
	return postgres.Err(err)
}
