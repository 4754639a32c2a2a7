// Package postgres keeps events, reservations and tickets. Every transaction that changes a reservation takes its locks in one order:
// the advisory lock of (event, user), then seats by their index (sections stand for them with general admission), then reservations by
// id. Time is the database's everywhere, so that replicas need not agree on theirs.
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
	pool *pgxpool.Pool
	// published is told after each commit that wrote events.
	published func()
	topic     string
	holdFor   time.Duration
}

// Options of a Store.
type Options struct {
	// ReservationTopic is where events of reservations go.
	ReservationTopic string
	// HoldFor is how long a hold lives where the event does not say.
	HoldFor time.Duration
	// Published is told after each commit that wrote events; nil: the relay finds them by itself.
	Published func()
}

// NewStore makes a Store.
func NewStore(pool *pgxpool.Pool, opts Options) *Store {
	if opts.Published == nil {
		opts.Published = func() {}
	}
	return &Store{pool: pool, published: opts.Published, topic: opts.ReservationTopic, holdFor: opts.HoldFor}
}

func (s *Store) queries() *db.Queries { return db.New(s.pool) }

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
