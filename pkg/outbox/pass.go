package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/kafka"
)

// row is one event as the table has it.
type row struct {
	ID        int64
	Shard     int16
	Topic     string
	Key       string
	Payload   string
	Headers   []byte
	CreatedAt time.Time
	// Settled: every transaction up to the row's own has ended.
	Settled bool
}

// publishError says that the session is well but Kafka did not take everything.
type publishError struct {
	n     int
	first error
}

func (e *publishError) Error() string {
	return fmt.Sprintf("%d events not published: %v", e.n, e.first)
}
func (e *publishError) Unwrap() error { return e.first }

// pass publishes one batch and deletes what was acked. It returns how many rows it read; an error other than *publishError ends the
// session.
func (r *Relay) pass(ctx context.Context, s *session) (int, error) {
	s.blocked = false
	if err := s.lock(ctx); err != nil || len(s.shards) == 0 {
		return 0, err
	}
	readAt := time.Now()
	rows, err := s.read(ctx, r.opts.Batch)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	recs := make([]kafka.Record, len(rows))
	for i, row := range rows {
		if recs[i], err = row.record(); err != nil {
			return 0, err
		}
	}
	if err := failpoint.Err("outbox.before_publish"); err != nil {
		return 0, err
	}
	if age := time.Since(readAt); age > stale {
		return 0, fmt.Errorf("rows were read %s ago: another relay may serve them by now", age)
	}
	acked, failure := settle(rows, r.publisher.PublishEach(ctx, recs))
	if err := failpoint.Err("outbox.after_publish"); err != nil {
		return 0, err
	}
	if err := s.delete(ctx, acked); err != nil {
		return 0, err
	}
	if failure != nil {
		return len(acked), failure
	}
	return len(rows), nil
}

// settle returns the ids that may be deleted: those acked, unless an event of the same key before it was not; that one is published again
// and the later one after it, so that the key's last word stays last.
func settle(rows []row, results []error) ([]int64, error) {
	type key struct{ topic, key string }
	broken := make(map[key]bool)
	acked := make([]int64, 0, len(rows))
	var failure *publishError
	for i, row := range rows {
		k := key{row.Topic, row.Key}
		if err := results[i]; err != nil {
			broken[k] = true
			if failure == nil {
				failure = &publishError{first: err}
			}
			failure.n++
			continue
		}
		if !broken[k] {
			acked = append(acked, row.ID)
		}
	}
	if failure == nil {
		return acked, nil
	}
	return acked, failure
}

// read returns the first rows of the shards held, in the order of ids, of each shard up to its first unsettled one.
func (s *session) read(ctx context.Context, limit int) ([]row, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	res, err := s.conn.Query(ctx, `
		SELECT id, shard, topic, key, payload, headers, created_at, txid < pg_snapshot_xmin(pg_current_snapshot()) AS settled
		FROM outbox WHERE shard = ANY ($1::smallint[]) ORDER BY id LIMIT $2`, s.shards, limit)
	if err != nil {
		return nil, fmt.Errorf("read the outbox: %w", err)
	}
	all, err := pgx.CollectRows(res, pgx.RowToStructByPos[row])
	if err != nil {
		return nil, fmt.Errorf("read the outbox: %w", err)
	}
	var unsettled [shardCount]bool
	rows := make([]row, 0, len(all))
	for _, r := range all {
		unsettled[r.Shard] = unsettled[r.Shard] || !r.Settled
		if !unsettled[r.Shard] {
			rows = append(rows, r)
		}
	}
	s.blocked = len(rows) < len(all)
	return rows, nil
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

func (r row) record() (kafka.Record, error) {
	headers := make(map[string]string)
	if err := json.Unmarshal(r.Headers, &headers); err != nil {
		return kafka.Record{}, errors.Join(fmt.Errorf("headers of outbox row %d", r.ID), err)
	}
	return kafka.Record{
		Topic: r.Topic, Key: []byte(r.Key), Value: []byte(r.Payload), Headers: headers, Time: r.CreatedAt,
	}, nil
}
