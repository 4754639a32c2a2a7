package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"urr.guru/pkg/kafka"
)

const (
	// lockClass is the first half of the advisory locks' keys, the shard is the second. Locks are per database.
	lockClass = 0x6f7574 // "out"
	lockEvery = time.Second
	// sessionIdle ends, by the server's hand, the session of a relay that is paused or unreachable, and with it its locks.
	sessionIdle = 10 * time.Second
	// stale is the age past which rows that were read are not published: the session may have ended in the meantime.
	stale        = 5 * time.Second
	queryTimeout = 6 * time.Second
	blockedWait  = 5 * time.Millisecond
	retryMin     = 100 * time.Millisecond
	retryMax     = 5 * time.Second
	// lastPasses bounds the publishing of what the last requests left when the process stops.
	lastPasses = 3 * time.Second
)

// Options of a relay; zero values mean the defaults.
type Options struct {
	// Poll is the shortest time between two looks at an idle table, default 50 ms; it grows to twice that. Only events committed by other
	// replicas, or by a process that died, wait for it.
	Poll time.Duration
	// Batch is how many events are published and deleted at a time, default 500.
	Batch int
}

// Publisher is what a relay needs of kafka.Producer: one result per record, and per partition nothing after the first failure.
type Publisher interface {
	PublishEach(ctx context.Context, recs []kafka.Record) []error
}

var _ Publisher = (*kafka.Producer)(nil)

// Relay publishes the outbox of one database. Any number may run on it: each shard is served by the one whose session holds its advisory
// lock, and taken over when that session ends. The rows are read and deleted through that very session, so a relay that has lost its locks
// cannot go on; what it had already sent may be sent again by its successor.
//
// Order within a key. Writers insert after locking the entity's row, so of two events of a key the later one's transaction waited for the
// earlier one's commit: its id is higher, and whoever sees it sees the earlier one too. Publishing in the order of ids is therefore
// publishing in the order of commits. (Not txid order: a transaction may have its txid long before it gets the row.) A row whose
// transaction commits late is not skipped, because there is no cursor: rows are found by being there. Beyond that, a shard is published
// only up to its first row at or above pg_snapshot_xmin, so that even writers who break the rule keep the order of their inserts.
type Relay struct {
	pool      *pgxpool.Pool
	publisher Publisher
	log       *slog.Logger
	opts      Options
	wake      chan struct{}
}

// NewRelay makes a relay; Run starts it.
func NewRelay(pool *pgxpool.Pool, publisher Publisher, log *slog.Logger, opts Options) *Relay {
	if opts.Poll <= 0 {
		opts.Poll = 50 * time.Millisecond
	}
	if opts.Batch <= 0 {
		opts.Batch = 500
	}
	return &Relay{pool: pool, publisher: publisher, log: log, opts: opts, wake: make(chan struct{}, 1)}
}

// Signal says that events were committed. It never blocks, and any number of signals before the next look count as one.
func (r *Relay) Signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run publishes until ctx ends, then for up to 3 s what is left. PostgreSQL or Kafka being away is waited out.
func (r *Relay) Run(ctx context.Context) error {
	defer r.startMetrics(ctx)()
	for ctx.Err() == nil {
		if err := r.session(ctx); err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "outbox relay lost its session, starting another", "error", err)
			pause(ctx, time.Second/2+rand.N(time.Second)) //nolint:gosec // jitter
		}
	}
	return nil
}

// session is a connection outside the pool with the locks that it could get.
type session struct {
	conn     *pgx.Conn
	shards   []int16 // held
	lockedAt time.Time
	// blocked: the last read left out rows that wait for another transaction's end. Such transactions are short, so that it is looked again
	// soon, not at the next poll.
	blocked bool
}

func (r *Relay) open(ctx context.Context) (*session, error) {
	cc := r.pool.Config().ConnConfig.Copy()
	cc.RuntimeParams["idle_session_timeout"] = fmt.Sprint(sessionIdle.Milliseconds())
	cc.RuntimeParams["application_name"] += " outbox"
	conn, err := pgx.ConnectConfig(ctx, cc)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &session{conn: conn, shards: []int16{}}, nil // not nil: NULL would match no shard
}

func (s *session) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = s.conn.Close(ctx)
}

// lock tries, at most once a second, to get the shards that nobody serves.
func (s *session) lock(ctx context.Context) error {
	if len(s.shards) == shardCount || time.Since(s.lockedAt) < lockEvery {
		return nil
	}
	s.lockedAt = time.Now()
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	rows, err := s.conn.Query(ctx, `
		SELECT s::smallint FROM generate_series(0, $2 - 1) AS s
		WHERE s <> ALL ($3::smallint[]) AND pg_try_advisory_lock($1, s)`, lockClass, shardCount, s.shards)
	if err != nil {
		return fmt.Errorf("lock shards: %w", err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[int16])
	if err != nil {
		return fmt.Errorf("lock shards: %w", err)
	}
	s.shards = append(s.shards, got...)
	return nil
}

func (r *Relay) session(ctx context.Context) error {
	s, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer s.close(ctx)
	idle, retry := r.opts.Poll, retryMin
	for ctx.Err() == nil {
		// A pass that has begun is finished: breaking it off would only publish the same events twice.
		n, err := r.pass(context.WithoutCancel(ctx), s)
		var failed *publishError
		switch {
		case errors.As(err, &failed):
			r.log.WarnContext(ctx, "events not published, trying again", "failed", failed.n, "error", failed.first)
			pause(ctx, retry/2+rand.N(retry)) //nolint:gosec // jitter
			retry = min(2*retry, retryMax)
		case err != nil:
			return err
		case n == r.opts.Batch:
			retry = retryMin
		default:
			retry = retryMin
			switch {
			case s.blocked:
				idle = blockedWait
			case n > 0:
				idle = r.opts.Poll
			default:
				idle = max(r.opts.Poll, min(idle+idle/4, 2*r.opts.Poll))
			}
			r.idle(ctx, s, idle)
		}
	}
	return r.drain(context.WithoutCancel(ctx), s)
}

// idle waits for a signal or the next poll. A relay without shards has nothing to look for until it has tried the locks again.
func (r *Relay) idle(ctx context.Context, s *session, d time.Duration) {
	if len(s.shards) == 0 {
		pause(ctx, lockEvery)
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-r.wake:
	case <-timer.C:
	}
}

func (r *Relay) drain(ctx context.Context, s *session) error {
	for deadline := time.Now().Add(lastPasses); time.Now().Before(deadline); {
		n, err := r.pass(ctx, s)
		if err != nil || (n == 0 && !s.blocked) {
			return err
		}
		if n == 0 {
			pause(ctx, blockedWait)
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
