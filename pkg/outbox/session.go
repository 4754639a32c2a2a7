package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// lockClass is the first half of the advisory locks' keys. Locks are per database.
	lockClass = 0x6f7574 // "out"
	// relayLock is the second half of the lock that a relay has while it serves the database. 0 to
	// 7 are the shards of the previous release, whose relays serve those that they hold, and nobody
	// else's.
	relayLock = shardCount
	lockEvery = time.Second
	// sessionIdle ends, by the server's hand, the session of a relay that is paused or unreachable,
	// and with it its locks.
	sessionIdle  = 10 * time.Second
	queryTimeout = 6 * time.Second
)

// session is a connection outside the pool with the locks that it could get.
type session struct {
	conn     *pgx.Conn
	serving  bool    // has relayLock
	shards   []int16 // held
	lockedAt time.Time
	every    time.Duration // between two attempts to get more
	// blocked: the last read left out rows that wait for another transaction's end. Such
	// transactions are short, so that it is looked again soon, not at the next poll.
	blocked bool
	stalls  *stalls
	probe   *probe // under way; nil: none
	walk    walk
	// more: the last read has not looked at all rows.
	more bool
	took time.Duration
}

func (r *Relay) open(ctx context.Context) (*session, error) {
	cc := r.pool.Config().ConnConfig.Copy()
	cc.RuntimeParams["idle_session_timeout"] = fmt.Sprint(r.sessionIdle.Milliseconds())
	cc.RuntimeParams["application_name"] += " outbox"
	conn, err := pgx.ConnectConfig(ctx, cc)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &session{conn: conn, every: r.lockEvery, stalls: newStalls(r.retryMin)}, nil
}

// close ends the session, and with it its locks: not before the records under way have arrived or
// failed, since the next relay would publish what follows them.
func (s *session) close(ctx context.Context) {
	if s.probe != nil {
		<-s.probe.done
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = s.conn.Close(ctx)
}

// lock tries, at most once a second, to become the relay of the database, and then to get the
// shards that no relay of the previous release serves.
func (s *session) lock(ctx context.Context) error {
	if len(s.shards) == shardCount || time.Since(s.lockedAt) < s.every {
		return nil
	}
	s.lockedAt = time.Now()
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	if !s.serving {
		if err := s.conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1, $2)`, lockClass, relayLock).Scan(&s.serving); err != nil {
			return fmt.Errorf("lock the outbox: %w", err)
		}
		if !s.serving {
			return nil
		}
	}
	rows, err := s.conn.Query(ctx, `
		SELECT s::smallint FROM generate_series(0, $2 - 1) AS s
		WHERE s <> ALL ($3::smallint[]) AND pg_try_advisory_lock($1, s)`, lockClass, shardCount, append([]int16{}, s.shards...))
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

// row is one event as the table has it.
type row struct {
	ID        int64
	EventID   string
	Topic     string
	Key       string
	KeyHash   int32
	Payload   string
	Headers   []byte
	CreatedAt time.Time
	// Settled: no transaction is under way any more that may have inserted a row before this one.
	// That is so when every transaction up to the row's own has ended, and also when the row is
	// older than any inserting transaction lasts: a transaction that hangs anywhere on the server
	// holds back the first answer.
	Settled bool
}

const columns = `o.id, o.event_id::text, o.topic, o.key, o.key_hash, o.payload, o.headers, o.created_at,
	o.txid < pg_snapshot_xmin(pg_current_snapshot()) OR o.created_at <= clock_timestamp() - interval '10 s' AS settled`

// served are the rows that this session may publish. NOT IN, unlike NOT EXISTS, stays a filter
// along the index on id, whatever the planner believes of the tables' sizes.
const served = `o.shard = ANY ($1::smallint[]) AND (o.topic, o.key) NOT IN (SELECT topic, key FROM outbox_parked)`

const readRows = `
	SELECT ` + columns + `
	FROM outbox AS o
	WHERE ` + served + ` AND NOT coalesce((
		SELECT bool_or(o.key_hash % b.of = b.number)
		FROM unnest($2::text[], $3::int[], $4::int[]) AS b (topic, of, number) WHERE b.topic = o.topic), false)
		AND o.id > $5 AND o.id <= $6
	ORDER BY o.id LIMIT $7`

// read returns the first rows, in the order of ids, of the partitions that are not left out; of
// each key up to its first unsettled row.
func (s *session) read(ctx context.Context, leaveOut []partition, limit, scan int) ([]row, error) {
	began := time.Now()
	if len(leaveOut) == 0 {
		s.walk = walk{until: everything}
	} else if err := s.step(ctx, scan); err != nil {
		return nil, err
	}
	topics, counts, numbers := arrays(leaveOut)
	all, err := s.query(ctx, readRows, s.shards, topics, counts, numbers, s.walk.from, s.walk.until, limit)
	if err != nil {
		return nil, err
	}
	s.more = len(leaveOut) > 0 && s.walk.stepped(all, scan)
	s.took = time.Since(began)
	unsettled := make(map[entity]bool)
	rows := make([]row, 0, len(all))
	for _, r := range all {
		k := entity{r.Topic, r.Key}
		unsettled[k] = unsettled[k] || !r.Settled
		if !unsettled[k] {
			rows = append(rows, r)
		}
	}
	s.blocked = len(rows) < len(all)
	return rows, nil
}

const readHeads = `
	SELECT h.* FROM unnest($2::text[], $3::int[], $4::int[]) AS b (topic, of, number)
	CROSS JOIN LATERAL (
		SELECT ` + columns + `
		FROM outbox AS o
		WHERE o.topic = b.topic AND o.key_hash % b.of = b.number AND ` + served + `
		ORDER BY o.id LIMIT 1) AS h`

// heads returns the first row of each of the partitions that has one.
func (s *session) heads(ctx context.Context, of []partition) ([]row, error) {
	topics, counts, numbers := arrays(of)
	return s.query(ctx, readHeads, s.shards, topics, counts, numbers)
}

func (s *session) query(ctx context.Context, sql string, args ...any) ([]row, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	res, err := s.conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read the outbox: %w", err)
	}
	rows, err := pgx.CollectRows(res, pgx.RowToStructByPos[row])
	if err != nil {
		return nil, fmt.Errorf("read the outbox: %w", err)
	}
	return rows, nil
}

func arrays(partitions []partition) (topics []string, counts, numbers []int32) {
	topics, counts, numbers = make([]string, len(partitions)), make([]int32, len(partitions)), make([]int32, len(partitions))
	for i, p := range partitions {
		topics[i], counts[i], numbers[i] = p.topic, p.of, p.number
	}
	return topics, counts, numbers
}

func (s *session) delete(ctx context.Context, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	if _, err := s.conn.Exec(ctx, `DELETE FROM outbox WHERE id = ANY ($1)`, ids); err != nil {
		return fmt.Errorf("delete published events: %w", err)
	}
	return nil
}

// park has the key of a refused row wait for an operator.
func (s *session) park(ctx context.Context, r row, cause error) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	_, err := s.conn.Exec(ctx, `
		INSERT INTO outbox_parked (topic, key, event_id, error) VALUES ($1, $2, $3::uuid, $4)
		ON CONFLICT (topic, key) DO NOTHING`, r.Topic, r.Key, r.EventID, cause.Error())
	if err != nil {
		return fmt.Errorf("park a key: %w", err)
	}
	return nil
}
