package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/kafka"
)

const (
	// stale is the age past which rows that were read are not published: the session may have ended
	// in the meantime.
	stale = 5 * time.Second
	// publishTimeout is how long a batch waits for its slowest partition, which is then left out of
	// those that follow.
	publishTimeout = 3 * time.Second
)

// entity is whose events keep their order.
type entity struct{ topic, key string }

// pass publishes one batch and deletes what was acked. It returns how many rows it is done with; an
// error ends the session.
func (r *Relay) pass(ctx context.Context, s *session) (int, error) {
	s.blocked, s.more = false, false
	if err := s.lock(ctx); err != nil || len(s.shards) == 0 {
		return 0, err
	}
	probed, err := r.tryStalled(ctx, s)
	if err != nil {
		return 0, err
	}
	leaveOut, _, _ := s.stalls.left(time.Now())
	readAt := time.Now()
	rows, err := s.read(ctx, leaveOut, r.opts.Batch, r.scan)
	if err != nil || len(rows) == 0 {
		return probed, err
	}
	results, err := r.publish(ctx, rows, readAt)
	if err != nil {
		return 0, err
	}
	acked := settle(rows, results)
	if err := s.delete(ctx, acked); err != nil {
		return 0, err
	}
	r.failed(ctx, s, rows, results)
	return probed + len(acked), nil
}

// publish returns a result per row.
func (r *Relay) publish(ctx context.Context, rows []row, readAt time.Time) ([]error, error) {
	results := make([]error, len(rows))
	recs, at := make([]kafka.Record, 0, len(rows)), make([]int, 0, len(rows))
	for i, row := range rows {
		rec, err := row.record()
		if results[i] = err; err == nil {
			recs, at = append(recs, rec), append(at, i)
		}
	}
	if err := failpoint.Err("outbox.before_publish"); err != nil {
		return nil, err
	}
	if age := time.Since(readAt); age > stale {
		return nil, fmt.Errorf("rows were read %s ago: another relay may serve them by now", age)
	}
	pctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	for i, err := range r.publisher.PublishEach(pctx, recs) {
		results[at[i]] = err
	}
	return results, failpoint.Err("outbox.after_publish")
}

// settle returns the ids that may be deleted: those acked, unless an event of the same key before
// it was not; that one is published again and the later one after it, so that the key's last word
// stays last.
func settle(rows []row, results []error) []int64 {
	broken := make(map[entity]bool)
	acked := make([]int64, 0, len(rows))
	for i, row := range rows {
		k := entity{row.Topic, row.Key}
		broken[k] = broken[k] || results[i] != nil
		if !broken[k] {
			acked = append(acked, row.ID)
		}
	}
	return acked
}

// failed notes the partitions of the rows that were not published: in back-off, or, after a
// refusal, to be sent row by row.
func (r *Relay) failed(ctx context.Context, s *session, rows []row, results []error) {
	now := time.Now()
	stalled := make(map[partition]bool)
	for i, row := range rows {
		p, err := r.partitionOf(row), results[i]
		switch {
		case err == nil:
		case kafka.Refused(err) || isUnreadable(err):
			s.stalls.refused(p, row.ID, now)
		case !stalled[p]:
			stalled[p] = true
			r.stalled(ctx, s, p, err, now)
		}
	}
	observe(s.stalls)
}

func (r *Relay) stalled(ctx context.Context, s *session, p partition, err error, now time.Time) {
	if s.stalls.fail(p, now) {
		r.log.WarnContext(ctx, "partition takes no events, trying again apart from the others", "topic", p.topic, "partition", p.number,
			"partitions", p.of, "error", err)
	}
}

func (r *Relay) partitionOf(row row) partition {
	// Whichever of the two has reached the topic knows; when partitions are added, the one that has
	// heard of it.
	n := int32(max(1, r.publisher.Partitions(row.Topic), r.prober.Partitions(row.Topic))) //nolint:gosec // a number of partitions
	return partition{topic: row.Topic, of: n, number: row.KeyHash % n}
}

// unreadableError is a row that no repetition makes a record.
type unreadableError struct{ err error }

func (e *unreadableError) Error() string { return "headers: " + e.err.Error() }
func (e *unreadableError) Unwrap() error { return e.err }

func (r row) record() (kafka.Record, error) {
	headers := make(map[string]string)
	if err := json.Unmarshal(r.Headers, &headers); err != nil {
		return kafka.Record{}, &unreadableError{err}
	}
	return kafka.Record{
		Topic: r.Topic, Key: []byte(r.Key), Value: []byte(r.Payload), Headers: headers, Time: r.CreatedAt,
	}, nil
}
