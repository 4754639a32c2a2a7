package outbox

import (
	"math/rand/v2"
	"time"
)

const (
	retryMin = 100 * time.Millisecond
	retryMax = 5 * time.Second
	// backoffMemory is the time within which a partition that fails again continues with its
	// previous back-off.
	backoffMemory = 30 * time.Second
	// logEvery bounds how often one stalled partition is logged.
	logEvery = time.Minute
)

// partition is one partition of a topic: all keys with hash % of == number. While the number of
// partitions is unknown (the topic is missing, or no broker has been reached), the whole topic is
// partition 0 of 1.
type partition struct {
	topic      string
	of, number int32
}

// stall is the back-off of a partition to which publishing failed. The relay leaves its rows out of
// the batches and sends only the first of them, at intervals, separately.
type stall struct {
	since, due, logged time.Time
	wait               time.Duration
	// singlesUntil is the last row of a batch of which the broker refused a part. Up to it rows are
	// sent one at a time, to find the refused one.
	singlesUntil int64
	// recoveredAt is when the partition worked again; zero while it does not.
	recoveredAt time.Time
}

// stalls are the partitions in back-off, as one relay's session knows them. Not safe for concurrent
// use.
type stalls struct {
	of       map[partition]*stall
	min, max time.Duration
	rescan   bool // a partition is no longer left out: the table must be read from its first row
}

func newStalls(shortest time.Duration) *stalls {
	return &stalls{of: map[partition]*stall{}, min: shortest, max: retryMax}
}

// recordFailure puts a partition into back-off, or extends it. shouldLog reports that the failure
// is to be logged.
func (s *stalls) recordFailure(p partition, now time.Time) (shouldLog bool) {
	st := s.of[p]
	if st == nil || !st.recoveredAt.IsZero() && now.Sub(st.recoveredAt) > backoffMemory {
		st = &stall{since: now, wait: s.min}
		s.of[p] = st
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

// sendSingly makes the rows up to last be sent one at a time, from now on.
func (s *stalls) sendSingly(p partition, last int64, now time.Time) {
	st := s.of[p]
	if st == nil || !st.recoveredAt.IsZero() {
		st = &stall{since: now, wait: s.min, logged: now}
		s.of[p] = st
	}
	st.due, st.singlesUntil = now, max(st.singlesUntil, last)
}

// recordSuccess records that the partition took row id, or that the row is parked. When that ends
// the back-off it returns how long the partition had been stalled.
func (s *stalls) recordSuccess(p partition, id int64, now time.Time) (stalled time.Duration, recovered bool) {
	st := s.of[p]
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

// postpone retries the partition after the shortest wait, without counting a failure.
func (s *stalls) postpone(p partition, now time.Time) {
	if st := s.of[p]; st != nil {
		st.due = now.Add(s.min)
	}
}

// remove ends the back-off of a partition whose rows turned out to belong to another one.
func (s *stalls) remove(p partition) {
	delete(s.of, p)
	s.rescan = true
}

// excluded returns the partitions to leave out, those of them that are due for a retry, and when the
// next of them is due. It removes the partitions that have worked for backoffMemory.
func (s *stalls) excluded(now time.Time) (all, due []partition, next time.Time) {
	for p, st := range s.of {
		switch {
		case st.recoveredAt.IsZero():
			all = append(all, p)
			if !now.Before(st.due) {
				due = append(due, p)
			} else if next.IsZero() || st.due.Before(next) {
				next = st.due
			}
		case now.Sub(st.recoveredAt) > backoffMemory:
			delete(s.of, p)
		}
	}
	return all, due, next
}

// matching returns the partitions in back-off to which the row belongs.
func (s *stalls) matching(r row) []partition {
	var found []partition
	for p, st := range s.of {
		if st.recoveredAt.IsZero() && p.topic == r.Topic && r.KeyHash%p.of == p.number {
			found = append(found, p)
		}
	}
	return found
}
