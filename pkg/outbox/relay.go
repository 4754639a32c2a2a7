package outbox

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"urr.guru/pkg/kafka"
	"urr.guru/pkg/loop"
)

const (
	// blockedWait is the first pause before reading again when rows must wait for the end of a
	// transaction; it doubles up to blockedMax.
	blockedWait = 5 * time.Millisecond
	blockedMax  = 100 * time.Millisecond
	reconnect   = time.Second // pause between two sessions, ±50 % at random
	// slowRead is the duration from which a read counts as slow because it had to skip many rows of
	// partitions in back-off. After a slow read the relay pauses for as long as the read took.
	slowRead = 20 * time.Millisecond
	// drainTimeout is the time limit of publishing the last committed events when the process stops.
	drainTimeout = 3 * time.Second
)

// Options of a Relay; zero values mean the defaults.
type Options struct {
	// Poll is the shortest interval between two reads of an idle table, default 50 ms; it grows to
	// twice that. Only events committed by other replicas, or by a process that died, wait for it.
	Poll time.Duration
	// Batch is the number of events that are published and deleted at a time, default 500; up to
	// eight times as many while there is a backlog.
	Batch int
	// Prober publishes to the partitions in back-off, where calls may hang; the default is the
	// relay's own publisher.
	Prober Publisher
}

// Publisher publishes records, as kafka.Producer does.
type Publisher interface {
	// PublishEach returns one result per record. After the first failure in a partition it
	// publishes nothing more to that partition.
	PublishEach(ctx context.Context, recs []kafka.Record) []error
	// Partitions returns the topic's number of partitions; 0 while it is not known.
	Partitions(topic string) int
}

var _ Publisher = (*kafka.Producer)(nil)

// Relay publishes the outbox of one database. Any number of relays may run on it: the one whose
// session (connection) holds the advisory lock publishes, and another takes over when that session
// ends. The rows are read and deleted through the same session, so a relay that has lost its lock
// cannot go on; its successor may publish again what it had already sent.
//
// Order within a key: writers insert after locking the entity's row, so of two events of a key the
// later transaction waited for the commit of the earlier one. Its id is higher, and whoever sees
// the later row also sees the earlier one. Publishing in the order of ids is therefore publishing
// in the order of commits. (The order of txids is not: a transaction may have its txid long before
// it gets the row.) There is no cursor, so a row that commits late is not skipped. In addition a
// key is published only up to its first row at or above pg_snapshot_xmin, so that even writers
// without a common row lock keep the order of their inserts. Rows older than 10 s are published
// whatever xmin is: no transaction of postgres.InTx lasts that long, and one hanging transaction
// anywhere on the server would stop all publishing.
//
// A failing partition delays only itself. The query leaves its rows out, and the relay tries one
// record of it separately until it works again. An event that the broker refuses permanently parks
// its key until an operator redrives it (Redrive).
type Relay struct {
	pool      *pgxpool.Pool
	publisher Publisher
	prober    Publisher
	log       *slog.Logger
	opts      Options
	wake      chan struct{}

	sessionIdle, lockEvery, reconnect, retryMin, drainTimeout time.Duration

	scan int // how many rows of the table one read covers while partitions are in back-off
}

// NewRelay makes a Relay, which publishes once Run is called.
func NewRelay(pool *pgxpool.Pool, publisher Publisher, log *slog.Logger, opts Options) *Relay {
	if opts.Poll <= 0 {
		opts.Poll = 50 * time.Millisecond
	}
	if opts.Batch <= 0 {
		opts.Batch = 500
	}
	if opts.Prober == nil {
		opts.Prober = publisher
	}
	return &Relay{
		pool: pool, publisher: publisher, prober: opts.Prober, log: log, opts: opts, wake: make(chan struct{}, 1),
		sessionIdle: sessionIdle, lockEvery: lockEvery, reconnect: reconnect, retryMin: retryMin, drainTimeout: drainTimeout,
		scan: scanRows,
	}
}

// Signal tells the relay that events were committed. It never blocks; several signals before the
// next read count as one.
func (r *Relay) Signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run publishes events until ctx ends, and then the remaining events for up to 3 s. While
// PostgreSQL or Kafka is unavailable it retries.
func (r *Relay) Run(ctx context.Context) error {
	defer r.startMetrics(ctx)()
	for ctx.Err() == nil {
		if err := r.runSession(ctx); err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "outbox relay lost its session, starting another", "error", err)
			loop.Sleep(ctx, r.reconnect/2+rand.N(r.reconnect)) //nolint:gosec // jitter
		}
	}
	return nil
}

func (r *Relay) runSession(ctx context.Context) error {
	s, err := r.openSession(ctx)
	if err != nil {
		return err
	}
	defer clearStalledGauge(s.stalls)
	defer s.close(ctx)
	idle, blocked := r.opts.Poll, blockedWait
	for ctx.Err() == nil {
		// A batch that was started is finished: after a cancellation its events would be published twice.
		n, err := r.publishBatch(context.WithoutCancel(ctx), s)
		switch {
		case err != nil:
			return err
		case n >= r.opts.Batch, s.more:
			continue
		case s.blocked:
			r.waitIdle(ctx, s, blocked)
			blocked = min(2*blocked, blockedMax)
			continue
		case n > 0:
			idle = r.opts.Poll
		default:
			idle = max(r.opts.Poll, min(idle+idle/4, 2*r.opts.Poll))
		}
		blocked = blockedWait
		r.waitIdle(ctx, s, idle)
	}
	return r.drain(context.WithoutCancel(ctx), s)
}

// waitIdle waits for a signal, the next poll, or the time to retry a partition. A relay without the
// lock only waits for its next attempt to get it.
func (r *Relay) waitIdle(ctx context.Context, s *relaySession, d time.Duration) {
	if !s.serving {
		loop.Sleep(ctx, r.lockEvery)
		return
	}
	if s.took > slowRead {
		loop.Sleep(ctx, s.took)
	}
	if _, _, next := s.stalls.excluded(time.Now()); !next.IsZero() {
		d = min(d, max(0, time.Until(next)))
	}
	loop.SleepOrWake(ctx, d, r.wake)
}

func (r *Relay) drain(ctx context.Context, s *relaySession) error {
	for deadline := time.Now().Add(r.drainTimeout); time.Now().Before(deadline); {
		n, err := r.publishBatch(ctx, s)
		if err != nil || (n == 0 && !s.blocked && !s.more && s.probe == nil) {
			return err
		}
		if n == 0 {
			loop.Sleep(ctx, blockedWait)
		}
	}
	return s.flush(ctx)
}
