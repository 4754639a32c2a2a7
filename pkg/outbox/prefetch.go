package outbox

import (
	"cmp"
	"context"
	"sync"
	"time"
)

const (
	// maxPrefetchAge is the age past which prefetched rows are read again.
	maxPrefetchAge = time.Second
	// maxGrowth is the largest size of a backlog's batches, as a multiple of the configured size. A
	// full batch is followed by one of twice its size, unless that would probably exceed maxBytes. A
	// batch of larger events ends before the event that exceeds maxBytes, but not below that size.
	maxGrowth = 8
	maxBytes  = 4 << 20
)

// batch is the rows that are published together.
type batch struct {
	rows    []row
	limit   int // the largest number of rows that it could have
	readAt  time.Time
	blocked bool // rows were left out, since a transaction that may insert earlier rows still runs
}

// isFull reports whether the batch reached its limit, so that more rows may follow.
func (b *batch) isFull() bool { return len(b.rows) == b.limit }

// nextSize returns how many rows the batch after b may have: size, the configured number, or fewer
// if the rows of b were large.
func (b *batch) nextSize(size int) int {
	bytes := 0
	for _, r := range b.rows {
		bytes += r.bytes()
	}
	if !b.isFull() || 2*bytes > maxBytes {
		return size
	}
	return min(2*b.limit, maxGrowth*size)
}

// prefetched is work done ahead for the next call of publishBatch. While a batch is being
// published, the rows published before are deleted and the next rows are read, so that PostgreSQL
// and the broker work at the same time.
type prefetched struct {
	next  batch
	acked []int64 // ids of rows that were published before next and are not deleted yet
}

// nextBatch returns the prefetched batch, or reads one. acked are the ids of published rows that
// are still to be deleted.
func (s *relaySession) nextBatch(ctx context.Context, leaveOut []partition, limit, scan int) (b batch, acked []int64, err error) {
	if s.prefetched != nil && len(leaveOut) == 0 && time.Since(s.prefetched.next.readAt) < maxPrefetchAge {
		b, acked = s.prefetched.next, s.prefetched.acked
		s.prefetched, s.blocked = nil, b.blocked
		return b, acked, nil
	}
	if err := s.flush(ctx); err != nil {
		return batch{}, nil, err
	}
	b, err = s.read(ctx, leaveOut, nil, limit, scan)
	s.blocked = b.blocked
	return b, nil, err
}

// flush deletes the rows already published and drops the prefetched batch.
func (s *relaySession) flush(ctx context.Context) error {
	if s.prefetched == nil {
		return nil
	}
	acked := s.prefetched.acked
	s.prefetched = nil
	return s.deleteRows(ctx, acked)
}

// publishAndPrefetch publishes a batch. Meanwhile it deletes the acked rows and, if prefetch is
// set, reads the next batch; next is nil when there are no more rows.
func (r *Relay) publishAndPrefetch(ctx context.Context, s *relaySession, b batch, acked []int64, prefetch bool) (results []error, next *batch, err error) {
	var publishing sync.WaitGroup
	var publishErr error
	publishing.Go(func() { results, publishErr = r.publish(ctx, b.rows, b.readAt) })
	err = s.deleteRows(ctx, acked)
	if err == nil && prefetch {
		var following batch
		if following, err = s.read(ctx, nil, b.rows, b.nextSize(r.opts.Batch), r.scan); len(following.rows) > 0 {
			next = &following
		}
	}
	publishing.Wait() // also after an error: no other relay may start while records are in flight
	return results, next, cmp.Or(err, publishErr)
}
