package outbox

import (
	"context"
	"time"
)

const (
	// maxAhead is the age past which rows that were read ahead are read again.
	maxAhead = time.Second
	// maxGrowth bounds the batches of a backlog, in batches of the configured size. Each full batch
	// is followed by one of twice its size, unless that would probably have more than maxBytes. A
	// batch that has more than maxBytes all the same, because later events are larger, ends before
	// the event that exceeds them, but not before it has the configured size.
	maxGrowth = 8
	maxBytes  = 4 << 20
)

// batch is rows to publish.
type batch struct {
	rows   []row
	limit  int // number of rows that were asked for, or that maxBytes allowed
	readAt time.Time
	// blocked: rows were left out that wait for the end of another transaction.
	blocked bool
}

// full reports whether there may be more rows that can be published.
func (b *batch) full() bool { return len(b.rows) == b.limit }

// following is the size of the batch after b.
func (b *batch) following(size int) int {
	bytes := 0
	for _, r := range b.rows {
		bytes += r.bytes()
	}
	if !b.full() || 2*bytes > maxBytes {
		return size
	}
	return min(2*b.limit, maxGrowth*size)
}

// ahead is what a session has done ahead of its next pass. While a batch is being published, the
// rows before it are deleted and those after it are read, so that PostgreSQL and the broker work at
// the same time.
type ahead struct {
	next batch
	// acked are the rows of the batch before next, which are published and not deleted yet.
	acked []int64
}

// take returns the next batch: the one that was read ahead, or one that is read now. acked are rows
// still to delete.
func (s *session) take(ctx context.Context, leaveOut []partition, limit, scan int) (b batch, acked []int64, err error) {
	if s.ahead != nil && len(leaveOut) == 0 && time.Since(s.ahead.next.readAt) < maxAhead {
		b, acked = s.ahead.next, s.ahead.acked
		s.ahead, s.blocked = nil, b.blocked
		return b, acked, nil
	}
	if err := s.flush(ctx); err != nil {
		return batch{}, nil, err
	}
	b, err = s.read(ctx, leaveOut, nil, limit, scan)
	s.blocked = b.blocked
	return b, nil, err
}

// flush deletes what is published, and forgets what was read ahead.
func (s *session) flush(ctx context.Context) error {
	if s.ahead == nil {
		return nil
	}
	acked := s.ahead.acked
	s.ahead = nil
	return s.delete(ctx, acked)
}

// publishing publishes a batch. Meanwhile it deletes the rows acked and, if readOn, reads those
// that follow the batch; nil: none.
func (r *Relay) publishing(ctx context.Context, s *session, b batch, acked []int64, readOn bool) (results []error, next *batch, err error) {
	type published struct {
		results []error
		err     error
	}
	done := make(chan published, 1)
	go func() {
		results, err := r.publish(ctx, b.rows, b.readAt)
		done <- published{results, err}
	}()
	err = s.delete(ctx, acked)
	if err == nil && readOn {
		var following batch
		if following, err = s.read(ctx, nil, b.rows, b.following(r.opts.Batch), r.scan); len(following.rows) > 0 {
			next = &following
		}
	}
	p := <-done // also after an error: another relay must not follow while rows are in flight
	if err == nil {
		err = p.err
	}
	return p.results, next, err
}
