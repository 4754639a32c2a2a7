package outbox

import (
	"math/rand/v2"
	"time"
)

const (
	retryMin = 100 * time.Millisecond
	retryMax = 5 * time.Second
	// backoffMemory is how long after its recovery a partition that fails again continues with its
	// previous back-off.
	backoffMemory = 30 * time.Second
	// logEvery is the shortest interval at which one stalled partition is logged.
	logEvery = time.Minute
)

// partition is one partition of a topic: it has all keys with hash % count == number. While the
// number of partitions is unknown (the topic is missing, or no broker was reached), the whole topic
// is partition 0 of 1.
type partition struct {
	topic         string
	count, number int32
}

// stall is the back-off of a partition to which publishing failed. The relay leaves the partition's
// rows out of its batches, and at intervals tries to publish the first of these rows separately.
type stall struct {
	since, due, logged time.Time
	wait               time.Duration
	// singlesUntil is the id of the last row of a batch that the broker refused in part. Rows up to it
	// are sent one at a time, to find the refused one.
	singlesUntil int64
	// recoveredAt is when the partition worked again; zero while it does not.
	recoveredAt time.Time
}

// stalls has the partitions in back-off, as one session knows them. Not safe for concurrent use.
type stalls struct {
	byPartition map[partition]*stall
	min, max    time.Duration
	rescan      bool // a partition is no longer left out: the table must be read from its first row
}

func newStalls(shortest time.Duration) *stalls {
	return &stalls{byPartition: map[partition]*stall{}, min: shortest, max: retryMax}
}

// recordFailure puts a partition into back-off, or prolongs its back-off. shouldLog reports whether
// the failure is to be logged.
func (s *stalls) recordFailure(p partition, now time.Time) (shouldLog bool) {
	st := s.byPartition[p]
	if st == nil || !st.recoveredAt.IsZero() && now.Sub(st.recoveredAt) > backoffMemory {
		st = &stall{since: now, wait: s.min}
		s.byPartition[p] = st
	} else {
		st.wait = min(2*st.wait, s.max)
	}
	if !st.recoveredAt.IsZero() {
		st.since, st.recoveredAt = now, time.Time{}
	}
	st.due = now.Add(st.wait/2 + rand.N(st.wait)) //nolint:gosec // jitter
	if shouldLog = now.Sub(st.logged) >= logEvery; shouldLog {
		st.logged = now
	}
	return shouldLog
}

// sendSingly makes the relay send the rows of a partition one at a time, up to the id last.
func (s *stalls) sendSingly(p partition, last int64, now time.Time) {
	st := s.byPartition[p]
	if st == nil || !st.recoveredAt.IsZero() {
		st = &stall{since: now, wait: s.min, logged: now}
		s.byPartition[p] = st
	}
	st.due, st.singlesUntil = now, max(st.singlesUntil, last)
}

// recordSuccess records that the row with this id was published or its key parked. If that ends the
// partition's back-off, recovered is true and stalled is how long it lasted.
func (s *stalls) recordSuccess(p partition, id int64, now time.Time) (stalled time.Duration, recovered bool) {
	st := s.byPartition[p]
	if st == nil || !st.recoveredAt.IsZero() {
		return 0, false
	}
	if id < st.singlesUntil {
		st.due = now
		return 0, false
	}
	st.recoveredAt, st.singlesUntil = now, 0
	s.rescan = true
	return now.Sub(st.since), true
}

// postpone retries a partition after the shortest pause, without counting a failure.
func (s *stalls) postpone(p partition, now time.Time) {
	if st := s.byPartition[p]; st != nil {
		st.due = now.Add(s.min)
	}
}

// remove ends the back-off of a partition that does not exist: other partitions have its rows.
func (s *stalls) remove(p partition) {
	delete(s.byPartition, p)
	s.rescan = true
}

// excluded returns all partitions in back-off, those of them whose retry is due, and when the next
// retry is due. It forgets partitions that recovered longer than backoffMemory ago.
func (s *stalls) excluded(now time.Time) (all, due []partition, next time.Time) {
	for p, st := range s.byPartition {
		switch {
		case st.recoveredAt.IsZero():
			all = append(all, p)
			if !now.Before(st.due) {
				due = append(due, p)
			} else if next.IsZero() || st.due.Before(next) {
				next = st.due
			}
		case now.Sub(st.recoveredAt) > backoffMemory:
			delete(s.byPartition, p)
		}
	}
	return all, due, next
}

// matching returns the partitions in back-off to which a row belongs.
func (s *stalls) matching(r row) []partition {
	var found []partition
	for p, st := range s.byPartition {
		if st.recoveredAt.IsZero() && p.topic == r.Topic && r.KeyHash%p.count == p.number {
			found = append(found, p)
		}
	}
	return found
}
