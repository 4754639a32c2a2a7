package outbox

import (
	"context"
	"fmt"
	"time"

	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/kafka"
)

const (
	// maxReadAge is the age past which rows that were read are not published: the session may have
	// ended since, and another relay may publish them.
	maxReadAge = 5 * time.Second
	// publishTimeout is the longest wait for the slowest partition of a batch. That partition is then
	// left out of the next batches.
	publishTimeout = 3 * time.Second
)

// eventKey is the topic and key of events. Events with the same eventKey keep their order.
type eventKey struct{ topic, key string }

// publishBatch publishes one batch of rows. It deletes the acked rows at once, or during the next
// call (see prefetched). It returns how many rows were published; an error ends the session.
func (r *Relay) publishBatch(ctx context.Context, s *relaySession) (int, error) {
	s.blocked, s.more = false, false
	if err := s.tryLock(ctx); err != nil || !s.serving {
		return 0, err
	}
	probed, err := r.probeStalled(ctx, s)
	if err != nil {
		return 0, err
	}
	leaveOut, _, _ := s.stalls.excluded(time.Now())
	b, undeleted, err := s.nextBatch(ctx, leaveOut, r.opts.Batch, r.scan)
	if err != nil || len(b.rows) == 0 {
		return probed, err
	}
	results, next, err := r.publishAndPrefetch(ctx, s, b, undeleted, b.isFull() && len(leaveOut) == 0)
	if err != nil {
		return 0, err
	}
	acked := ackedInOrder(b.rows, results)
	r.noteFailures(ctx, s, b.rows, results)
	if next != nil && len(acked) == len(b.rows) { // otherwise next may have rows behind one that was not published
		s.prefetched, s.more = &prefetched{next: *next, acked: acked}, true
		return probed + len(acked), nil
	}
	if err := s.deleteRows(ctx, acked); err != nil {
		return 0, err
	}
	return probed + len(acked), nil
}

func (r *Relay) publish(ctx context.Context, rows []row, readAt time.Time) ([]error, error) {
	results := make([]error, len(rows))
	recs, index := toRecords(rows, results)
	if err := failpoint.Err("outbox.before_publish"); err != nil {
		return nil, err
	}
	if age := time.Since(readAt); age > maxReadAge {
		return nil, fmt.Errorf("rows were read %s ago: another relay may serve them by now", age)
	}
	pctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	for i, err := range r.publisher.PublishEach(pctx, recs) {
		results[index[i]] = err
	}
	return results, failpoint.Err("outbox.after_publish")
}

// ackedInOrder returns the ids of the rows that may be deleted: acked ones without a failed row of
// the same key before them. An acked row behind a failed one is published again after it, so that
// the last event of a key also arrives last.
func ackedInOrder(rows []row, results []error) []int64 {
	broken := make(map[eventKey]bool)
	acked := make([]int64, 0, len(rows))
	for i, row := range rows {
		k := eventKey{row.Topic, row.Key}
		broken[k] = broken[k] || results[i] != nil
		if !broken[k] {
			acked = append(acked, row.ID)
		}
	}
	return acked
}

// noteFailures puts the partitions of rows that were not published into back-off: the relay retries
// them separately. After a refusal by the broker the rows of the batch are sent one by one.
func (r *Relay) noteFailures(ctx context.Context, s *relaySession, rows []row, results []error) {
	now := time.Now()
	stalled := make(map[partition]bool)
	for i, row := range rows {
		p, err := r.findPartition(row), results[i]
		switch {
		case err == nil:
		case kafka.Refused(err) || isUnreadable(err):
			s.stalls.sendSingly(p, row.ID, now)
		case !stalled[p]:
			stalled[p] = true
			r.markStalled(ctx, s, p, err, now)
		}
	}
	updateStalledGauge(s.stalls)
}

func (r *Relay) markStalled(ctx context.Context, s *relaySession, p partition, err error, now time.Time) {
	if s.stalls.recordFailure(p, now) {
		r.log.WarnContext(ctx, "partition takes no events, retrying it separately", "topic", p.topic, "partition", p.number,
			"partitions", p.count, "error", err)
	}
}

func (r *Relay) findPartition(row row) partition {
	// The publisher or the prober may learn of the topic first. After partitions were added, the
	// larger number is the newer one.
	n := int32(max(1, r.publisher.Partitions(row.Topic), r.prober.Partitions(row.Topic))) //nolint:gosec // a number of partitions
	return partition{topic: row.Topic, count: n, number: row.KeyHash % n}
}

// unreadableError is the error of a row that can never be turned into a record.
type unreadableError struct{ err error }

func (e *unreadableError) Error() string { return "headers: " + e.err.Error() }
func (e *unreadableError) Unwrap() error { return e.err }

// toRecords converts rows to Kafka records. index has, for each record, the index of its row. For a
// row that cannot be converted results gets an error instead.
func toRecords(rows []row, results []error) (recs []kafka.Record, index []int) {
	for i, row := range rows {
		rec, err := row.toRecord()
		if results[i] = err; err == nil {
			recs, index = append(recs, rec), append(index, i)
		}
	}
	return recs, index
}

func (r row) toRecord() (kafka.Record, error) {
	headers, err := decodeHeaders(r.Headers)
	if err != nil {
		return kafka.Record{}, &unreadableError{err}
	}
	return kafka.Record{
		Topic: r.Topic, Key: []byte(r.Key), Value: []byte(r.Payload), Headers: headers, Time: r.CreatedAt,
	}, nil
}
