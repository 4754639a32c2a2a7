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
	// blockedWait is the first pause before looking again at rows that wait for a transaction's
	// end; it grows to blockedMax.
	blockedWait = 5 * time.Millisecond
	blockedMax  = 100 * time.Millisecond
	reconnect   = time.Second // between two sessions, half as much to half as much again
	// slowRead is a read that had to pass over many rows of partitions in back-off; as much time as
	// it took is left to others.
	slowRead = 20 * time.Millisecond
	// lastPasses bounds the publishing of what the last requests left when the process stops.
	lastPasses = 3 * time.Second
)

// Options of a relay; zero values mean the defaults.
type Options struct {
	// Poll is the shortest time between two looks at an idle table, default 50 ms; it grows to
	// twice that. Only events committed by other replicas, or by a process that died, wait for it.
	Poll time.Duration
	// Batch is how many events are published and deleted at a time, default 500.
	Batch int
	// Prober publishes to the partitions in back-off, which may hang; the default is the relay's
	// own publisher.
	Prober Publisher
}

// Publisher is what a relay needs of kafka.Producer.
type Publisher interface {
	// PublishEach returns one result per record, and publishes per partition nothing after the
	// first failure.
	PublishEach(ctx context.Context, recs []kafka.Record) []error
	// Partitions of the topic; 0 while they are not known.
	Partitions(topic string) int
}

var _ Publisher = (*kafka.Producer)(nil)

// Relay publishes the outbox of one database. Any number may run on it: the one whose session holds
// the advisory lock serves it, and another takes over when that session ends. The rows are read and
// deleted through that very session, so a relay that has lost its lock cannot go on; what it had
// already sent may be sent again by its successor. Relays of the previous release share out eight
// shards by locks of their own; the serving relay takes these too, and serves what it has, so that
// both releases may run side by side.
//
// Order within a key. Writers insert after locking the entity's row, so of two events of a key the
// later one's transaction waited for the earlier one's commit: its id is higher, and whoever sees
// it sees the earlier one too. Publishing in the order of ids is therefore publishing in the order
// of commits. (Not txid order: a transaction may have its txid long before it gets the row.) A row
// whose transaction commits late is not skipped, because there is no cursor: rows are found by
// being there. Beyond that, a key is published only up to its first row at or above
// pg_snapshot_xmin, so that even writers who break the rule keep the order of their inserts. Rows
// older than 10 s are published whatever xmin says: no transaction of postgres.InTx lasts that
// long, and one that hangs anywhere on the server would stop everything.
//
// What cannot be published holds up its own partition only. A partition that fails is left out by
// the query and tried with one record, apart from the batches, until it works again. An event that
// the broker refuses for good parks its key until an operator redrives it (Redrive).
type Relay struct {
	pool      *pgxpool.Pool
	publisher Publisher
	prober    Publisher
	log       *slog.Logger
	opts      Options
	wake      chan struct{}

	sessionIdle, lockEvery, reconnect, retryMin time.Duration

	scan int // rows looked at by a read
}

// NewRelay makes a relay; Run starts it.
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
		sessionIdle: sessionIdle, lockEvery: lockEvery, reconnect: reconnect, retryMin: retryMin, scan: scanRows,
	}
}

// Signal says that events were committed. It never blocks, and any number of signals before the
// next look count as one.
func (r *Relay) Signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run publishes until ctx ends, then for up to 3 s what is left. PostgreSQL or Kafka being away is
// waited out.
func (r *Relay) Run(ctx context.Context) error {
	defer r.startMetrics(ctx)()
	for ctx.Err() == nil {
		if err := r.session(ctx); err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "outbox relay lost its session, starting another", "error", err)
			loop.Sleep(ctx, r.reconnect/2+rand.N(r.reconnect)) //nolint:gosec // jitter
		}
	}
	return nil
}

func (r *Relay) session(ctx context.Context) error {
	s, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer forget(s.stalls)
	defer s.close(ctx)
	idle, blocked := r.opts.Poll, blockedWait
	for ctx.Err() == nil {
		// A pass that has begun is finished: breaking it off would only publish the same events
		// twice.
		n, err := r.pass(context.WithoutCancel(ctx), s)
		switch {
		case err != nil:
			return err
		case n >= r.opts.Batch, s.more:
			continue
		case s.blocked:
			r.idle(ctx, s, blocked)
			blocked = min(2*blocked, blockedMax)
			continue
		case n > 0:
			idle = r.opts.Poll
		default:
			idle = max(r.opts.Poll, min(idle+idle/4, 2*r.opts.Poll))
		}
		blocked = blockedWait
		r.idle(ctx, s, idle)
	}
	return r.drain(context.WithoutCancel(ctx), s)
}

// idle waits for a signal, the next poll, or the time to try a partition again. A relay that serves
// nothing has nothing to look for until it has tried the locks again.
func (r *Relay) idle(ctx context.Context, s *session, d time.Duration) {
	if len(s.shards) == 0 {
		loop.Sleep(ctx, r.lockEvery)
		return
	}
	if s.took > slowRead {
		loop.Sleep(ctx, s.took)
	}
	if _, _, next := s.stalls.left(time.Now()); !next.IsZero() {
		d = min(d, max(0, time.Until(next)))
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
		if err != nil || (n == 0 && !s.blocked && !s.more && s.probe == nil) {
			return err
		}
		if n == 0 {
			loop.Sleep(ctx, blockedWait)
		}
	}
	return nil
}
