package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"urr.guru/pkg/kafka"
)

// probeTimeout is the time limit of one attempt to publish to the partitions in back-off.
const probeTimeout = time.Second

// partitionProbe is a running attempt to publish the first row of each partition due for a retry.
type partitionProbe struct {
	firstRows []row
	results   []error // to be read once done is closed
	done      chan struct{}
}

// probeStalled applies the results of the last probe, if it has ended, and starts the next one. It
// never waits for the broker. It returns how many rows the last probe published.
func (r *Relay) probeStalled(ctx context.Context, s *relaySession) (int, error) {
	n := 0
	if s.probe != nil {
		select {
		case <-s.probe.done:
		default:
			return 0, nil
		}
		ended := s.probe
		s.probe = nil
		var err error
		if n, err = r.finishProbe(ctx, s, ended); err != nil {
			return 0, err
		}
		updateStalledGauge(s.stalls)
	}
	_, due, _ := s.stalls.excluded(time.Now())
	if len(due) == 0 {
		return n, nil
	}
	firstRows, err := s.readFirstRows(ctx, due)
	if err != nil {
		return 0, err
	}
	r.startProbe(ctx, s, r.rowsToProbe(ctx, s, due, firstRows))
	return n, nil
}

// rowsToProbe returns the first rows that are to be published. A partition without rows counts as
// recovered. A partition is postponed if a running transaction may still insert a row before its
// first one (row.Settled is false).
func (r *Relay) rowsToProbe(ctx context.Context, s *relaySession, due []partition, firstRows []row) []row {
	now := time.Now()
	ready := make([]row, 0, len(firstRows))
	waiting := make(map[partition]bool)
	for _, h := range firstRows {
		for _, p := range due {
			if p.topic != h.Topic || h.KeyHash%p.count != p.number {
				continue
			}
			waiting[p] = true
			if !h.Settled {
				s.stalls.postpone(p, now)
				s.blocked = true
			} else if len(ready) == 0 || ready[len(ready)-1].ID != h.ID {
				ready = append(ready, h)
			}
		}
	}
	for _, p := range due {
		if !waiting[p] {
			r.markRecovered(ctx, s, p, maxID, now)
		}
	}
	return ready
}

// maxID is greater than every row's id.
const maxID = 1<<63 - 1

func (r *Relay) startProbe(ctx context.Context, s *relaySession, firstRows []row) {
	if len(firstRows) == 0 {
		return
	}
	p := &partitionProbe{firstRows: firstRows, results: make([]error, len(firstRows)), done: make(chan struct{})}
	s.probe = p
	go func() { // ends after probeTimeout; the session's close waits for it
		defer close(p.done)
		defer r.Signal()
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		recs, index := toRecords(firstRows, p.results)
		for i, err := range r.prober.PublishEach(ctx, recs) {
			p.results[index[i]] = err
		}
	}()
}

// finishProbe deletes the rows that a probe has published, and parks the keys of refused rows.
func (r *Relay) finishProbe(ctx context.Context, s *relaySession, p *partitionProbe) (int, error) {
	now := time.Now()
	acked := make([]int64, 0, len(p.firstRows))
	for i, h := range p.firstRows {
		err := p.results[i]
		switch {
		case err == nil:
			acked = append(acked, h.ID)
		case kafka.Refused(err), isUnreadable(err):
			if err := s.parkKey(ctx, h, err); err != nil {
				return 0, err
			}
			r.log.ErrorContext(ctx, "event refused for good, its key waits for an operator", "topic", h.Topic, "key", h.Key,
				"event_id", h.EventID, "error", err)
		}
	}
	if err := s.deleteRows(ctx, acked); err != nil {
		return 0, err
	}
	for i, h := range p.firstRows {
		r.applyProbeResult(ctx, s, h, p.results[i], now)
	}
	return len(acked), nil
}

func (r *Relay) applyProbeResult(ctx context.Context, s *relaySession, head row, err error, now time.Time) {
	exact := r.findPartition(head)
	settled := err == nil || kafka.Refused(err) || isUnreadable(err)
	for _, p := range s.stalls.matching(head) {
		switch {
		case settled:
			r.markRecovered(ctx, s, p, head.ID, now)
		case p != exact:
			// The number of partitions is known now, so the topic's other partitions need not wait.
			s.stalls.remove(p)
		}
	}
	if !settled {
		r.markStalled(ctx, s, exact, err, now)
	}
}

func isUnreadable(err error) bool {
	var e *unreadableError
	return errors.As(err, &e)
}

func (r *Relay) markRecovered(ctx context.Context, s *relaySession, p partition, id int64, now time.Time) {
	if stalled, recovered := s.stalls.recordSuccess(p, id, now); recovered {
		r.log.InfoContext(ctx, "partition takes events again", "topic", p.topic, "partition", p.number, "after", fmt.Sprint(stalled))
	}
}
