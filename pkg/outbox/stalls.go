package outbox

import (
	"math/rand/v2"
	"time"
)

const (
	retryMin = 100 * time.Millisecond
	retryMax = 5 * time.Second
	// relapse is the time within which a partition that fails again goes on with the back-off that
	// it had.
	relapse = 30 * time.Second
	// logEvery bounds what one stalled partition adds to the log.
	logEvery = time.Minute
)

// partition is one of a topic's; all keys with hash % of == number are in it. While the number of
// partitions is not known (the topic is missing, no broker has been reached yet), the whole topic
// is partition 0 of 1.
type partition struct {
	topic      string
	of, number int32
}

// stall is a partition to which publishing failed. The relay leaves its rows out and sends only the
// first of them, now and then, apart from everything else.
type stall struct {
	since, due, logged time.Time
	wait               time.Duration
	// alone is the last row of a batch in which the broker refused something: up to it rows are
	// sent one at a time, which finds out what was refused.
	alone int64
	// lifted is when the partition worked again; zero while it does not.
	lifted time.Time
}

// stalls are the partitions in back-off, as one relay's session has learned them. Not safe for
// concurrent use.
type stalls struct {
	of       map[partition]*stall
	min, max time.Duration
	// shrunk: rows that were left out are not any more.
	shrunk bool
}

func newStalls(shortest time.Duration) *stalls {
	return &stalls{of: map[partition]*stall{}, min: shortest, max: retryMax}
}

// fail puts a partition into back-off, or extends it. say tells that it is time to log it.
func (s *stalls) fail(p partition, now time.Time) (say bool) {
	st := s.of[p]
	switch {
	case st == nil || !st.lifted.IsZero() && now.Sub(st.lifted) > relapse:
		st = &stall{since: now, wait: s.min}
		s.of[p] = st
	case !st.lifted.IsZero():
		st.since, st.lifted = now, time.Time{}
		st.wait = min(2*st.wait, s.max)
	default:
		st.wait = min(2*st.wait, s.max)
	}
	st.due = now.Add(st.wait/2 + rand.N(st.wait)) //nolint:gosec // jitter
	if say = now.Sub(st.logged) >= logEvery; say {
		st.logged = now
	}
	return say
}

// refused has the rows up to last sent one at a time, from now on.
func (s *stalls) refused(p partition, last int64, now time.Time) {
	st := s.of[p]
	if st == nil || !st.lifted.IsZero() {
		st = &stall{since: now, wait: s.min, logged: now}
		s.of[p] = st
	}
	st.due, st.alone = now, max(st.alone, last)
}

// passed says that the partition took row id, or that the row waits for an operator. It returns how
// long the partition had been stalled if it no longer is.
func (s *stalls) passed(p partition, id int64, now time.Time) (stalled time.Duration, over bool) {
	st := s.of[p]
	if st == nil || !st.lifted.IsZero() {
		return 0, false
	}
	if id < st.alone {
		st.due = now
		return 0, false
	}
	st.lifted, st.alone = now, 0
	s.shrunk = true
	return now.Sub(st.since), true
}

// postpone looks at the partition again after the shortest wait, without counting a failure.
func (s *stalls) postpone(p partition, now time.Time) {
	if st := s.of[p]; st != nil {
		st.due = now.Add(s.min)
	}
}

// forget ends the back-off of a partition that turned out to be another one.
func (s *stalls) forget(p partition) {
	delete(s.of, p)
	s.shrunk = true
}

// left are the partitions to leave out; due of them may be tried, and next is when the first of the
// others may. Partitions that have worked for a while are forgotten.
func (s *stalls) left(now time.Time) (all, due []partition, next time.Time) {
	for p, st := range s.of {
		switch {
		case st.lifted.IsZero():
			all = append(all, p)
			if !now.Before(st.due) {
				due = append(due, p)
			} else if next.IsZero() || st.due.Before(next) {
				next = st.due
			}
		case now.Sub(st.lifted) > relapse:
			delete(s.of, p)
		}
	}
	return all, due, next
}

// matching are the partitions in back-off that hold the row.
func (s *stalls) matching(r row) []partition {
	var found []partition
	for p, st := range s.of {
		if st.lifted.IsZero() && p.topic == r.Topic && r.KeyHash%p.of == p.number {
			found = append(found, p)
		}
	}
	return found
}
