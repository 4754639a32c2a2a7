package outbox

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// relayLock is the key of the advisory lock that the publishing relay holds in its database.
	relayLock = 0x6f7574 // "out"
	lockEvery = time.Second
	// sessionIdle is how long the session of a relay may be idle, as when the relay is paused or
	// unreachable, before the server ends it. That releases the lock.
	sessionIdle  = 10 * time.Second
	queryTimeout = 6 * time.Second
)

// relaySession is a relay's own connection to the database, outside the pool, and the state of the
// relay's work. The connection may hold the advisory lock.
type relaySession struct {
	conn     *pgx.Conn
	serving  bool // holds relayLock
	lockedAt time.Time
	every    time.Duration // pause between two attempts to take the lock
	// blocked: the last read left out rows that must wait for the end of another transaction. Such
	// transactions are short, so the next read follows soon and not at the next poll.
	blocked    bool
	more       bool // the last read did not cover all rows
	stalls     *stalls
	probe      *partitionProbe // running attempt; nil if none
	walk       tableWalk
	prefetched *prefetched   // nil if no rows are prefetched
	took       time.Duration // duration of the last read
	size       int           // largest number of rows of a batch while there is no backlog
}

func (r *Relay) openSession(ctx context.Context) (*relaySession, error) {
	cc := r.pool.Config().ConnConfig.Copy()
	cc.RuntimeParams["idle_session_timeout"] = fmt.Sprint(r.sessionIdle.Milliseconds())
	cc.RuntimeParams["application_name"] += " outbox"
	conn, err := pgx.ConnectConfig(ctx, cc)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &relaySession{conn: conn, every: r.lockEvery, stalls: newStalls(r.retryMin), size: r.opts.Batch}, nil
}

// close closes the connection, which releases the lock. It first waits for the records in flight:
// otherwise the next relay could publish later rows before them.
func (s *relaySession) close(ctx context.Context) {
	if s.probe != nil {
		<-s.probe.done
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = s.conn.Close(ctx)
}

// tryLock tries, at most once per interval, to get the lock, so that this relay publishes.
func (s *relaySession) tryLock(ctx context.Context) error {
	if s.serving || time.Since(s.lockedAt) < s.every {
		return nil
	}
	s.lockedAt = time.Now()
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	if err := s.conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, relayLock).Scan(&s.serving); err != nil {
		return fmt.Errorf("lock the outbox: %w", err)
	}
	return nil
}

// row is one event as it was read from the table outbox.
type row struct {
	ID        int64
	EventID   string
	Topic     string
	Key       string
	KeyHash   int32
	Payload   string
	Headers   []byte
	CreatedAt time.Time
	// Settled means that no running transaction can still insert a row before this one: every
	// transaction up to the row's own has ended, or the row is older than any inserting transaction.
	// Without the second case one transaction that hangs on the server would delay all rows.
	Settled bool
}

func (r row) bytes() int { return len(r.Payload) + len(r.Headers) }

// Each subquery is evaluated once per statement, not for every row, where it would double the cost.
const columns = `o.id, o.event_id::text, o.topic, o.key, o.key_hash, o.payload, o.headers, o.created_at,
	o.txid < (SELECT pg_snapshot_xmin(pg_current_snapshot())) OR o.created_at <= (SELECT clock_timestamp() - interval '10 s') AS settled`

// unparked is the condition that the key of a row is not parked. NOT IN, unlike NOT EXISTS, stays a
// filter on the scan of the id index, whatever sizes of the tables the planner estimates.
const unparked = `(o.topic, o.key) NOT IN (SELECT topic, key FROM outbox_parked)`

// NOT IN with a subquery looks each row up in a hash, whatever the plan. With <> ALL and an array
// it would not: the generic plan, to which the server changes after some executions, compares each
// row with each element.
const readRows = `
	SELECT ` + columns + `
	FROM outbox AS o
	WHERE ` + unparked + ` AND o.id NOT IN (SELECT unnest($1::bigint[]))
	ORDER BY o.id LIMIT $2`

const readOthers = `
	SELECT ` + columns + `
	FROM outbox AS o
	WHERE ` + unparked + ` AND NOT coalesce((
		SELECT bool_or(o.key_hash % b.of = b.number)
		FROM unnest($1::text[], $2::int[], $3::int[]) AS b (topic, of, number) WHERE b.topic = o.topic), false)
		AND o.id > $4 AND o.id <= $5
	ORDER BY o.id LIMIT $6`

// read returns the first rows, in the order of ids, of all partitions but those in leaveOut. Of
// each key it returns only the rows before the first one that is not Settled. It omits inFlight,
// the rows that are being published; these are given only if leaveOut is empty.
func (s *relaySession) read(ctx context.Context, leaveOut []partition, inFlight []row, limit, scan int) (batch, error) {
	b := batch{limit: limit, readAt: time.Now()}
	all, cut, err := s.readWithUnsettled(ctx, leaveOut, inFlight, limit, scan)
	if err != nil {
		return batch{}, err
	}
	if cut {
		b.limit = len(all)
	}
	s.took = time.Since(b.readAt)
	unsettled := make(map[eventKey]bool)
	b.rows = make([]row, 0, len(all))
	for _, r := range all {
		k := eventKey{r.Topic, r.Key}
		unsettled[k] = unsettled[k] || !r.Settled
		if !unsettled[k] {
			b.rows = append(b.rows, r)
		}
	}
	b.blocked = len(b.rows) < len(all)
	return b, nil
}

// readWithUnsettled is like read, but also returns rows that are not Settled. cut reports that it
// returned fewer than limit because of maxBytes.
func (s *relaySession) readWithUnsettled(ctx context.Context, leaveOut []partition, inFlight []row, limit, scan int) (all []row, cut bool, err error) {
	if len(leaveOut) == 0 {
		s.walk = tableWalk{}
		ids := make([]int64, len(inFlight))
		for i, r := range inFlight {
			ids[i] = r.ID
		}
		return s.queryUpTo(ctx, s.size, readRows, ids, limit)
	}
	if err := s.advanceWalk(ctx, scan); err != nil {
		return nil, false, err
	}
	topics, counts, numbers := partitionArrays(leaveOut)
	all, err = s.query(ctx, readOthers, topics, counts, numbers, s.walk.from, s.walk.until, limit)
	if err != nil {
		return nil, false, err
	}
	s.more = s.walk.recordRead(all, scan)
	return all, false, nil
}

const readHeads = `
	SELECT h.* FROM unnest($1::text[], $2::int[], $3::int[]) AS b (topic, of, number)
	CROSS JOIN LATERAL (
		SELECT ` + columns + `
		FROM outbox AS o
		WHERE o.topic = b.topic AND o.key_hash % b.of = b.number AND ` + unparked + `
		ORDER BY o.id LIMIT 1) AS h`

// readFirstRows returns the first row of each of the partitions that has rows.
func (s *relaySession) readFirstRows(ctx context.Context, partitions []partition) ([]row, error) {
	topics, counts, numbers := partitionArrays(partitions)
	return s.query(ctx, readHeads, topics, counts, numbers)
}

func (s *relaySession) query(ctx context.Context, sql string, args ...any) ([]row, error) {
	rows, _, err := s.queryUpTo(ctx, math.MaxInt, sql, args...)
	return rows, err
}

// queryUpTo returns at least the given number of rows, if there are so many, and further rows while
// all together have at most maxBytes. cut reports that there were more.
func (s *relaySession) queryUpTo(ctx context.Context, number int, sql string, args ...any) (rows []row, cut bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	res, err := s.conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, false, fmt.Errorf("read the outbox: %w", err)
	}
	defer res.Close()
	bytes := 0
	for !cut && res.Next() {
		r, err := pgx.RowToStructByPos[row](res)
		if err != nil {
			return nil, false, fmt.Errorf("read the outbox: %w", err)
		}
		bytes += r.bytes()
		if cut = len(rows) >= number && bytes > maxBytes; !cut {
			rows = append(rows, r)
		}
	}
	res.Close()
	if err := res.Err(); err != nil {
		return nil, false, fmt.Errorf("read the outbox: %w", err)
	}
	return rows, cut, nil
}

func partitionArrays(partitions []partition) (topics []string, counts, numbers []int32) {
	for _, p := range partitions {
		topics, counts, numbers = append(topics, p.topic), append(counts, p.count), append(numbers, p.number)
	}
	return topics, counts, numbers
}

func (s *relaySession) deleteRows(ctx context.Context, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	return s.exec(ctx, "delete published events", `DELETE FROM outbox WHERE id = ANY ($1)`, ids)
}

// parkKey parks the key of a row that the broker refused: its events wait for an operator.
func (s *relaySession) parkKey(ctx context.Context, r row, cause error) error {
	return s.exec(ctx, "park a key", `
		INSERT INTO outbox_parked (topic, key, event_id, error) VALUES ($1, $2, $3::uuid, $4)
		ON CONFLICT (topic, key) DO NOTHING`, r.Topic, r.Key, r.EventID, cause.Error())
}

func (s *relaySession) exec(ctx context.Context, purpose, sql string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	if _, err := s.conn.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("%s: %w", purpose, err)
	}
	return nil
}
