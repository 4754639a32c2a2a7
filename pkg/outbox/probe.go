package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"urr.guru/pkg/kafka"
)

// probeTimeout bounds one attempt at the partitions in back-off.
const probeTimeout = time.Second

// probe is an attempt, in flight, to publish the first row of each partition that is due.
type probe struct {
	heads   []row
	results []error // to be read once done is closed
	done    chan struct{}
}

// probeStalled applies the results of the last probe and starts the next one. It never waits for
// the broker. It returns the number of rows that were published.
func (r *Relay) probeStalled(ctx context.Context, s *session) (int, error) {
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
		publishStallGauge(s.stalls)
	}
	_, due, _ := s.stalls.excluded(time.Now())
	if len(due) == 0 {
		return n, nil
	}
	heads, err := s.heads(ctx, due)
	if err != nil {
		return 0, err
	}
	r.startProbe(ctx, s, r.readyHeads(ctx, s, due, heads))
	return n, nil
}

// readyHeads returns the heads to publish. A partition without rows counts as recovered; one whose
// first row is not settled is postponed.
func (r *Relay) readyHeads(ctx context.Context, s *session, due []partition, heads []row) []row {
	now := time.Now()
	ready := make([]row, 0, len(heads))
	waiting := make(map[partition]bool)
	for _, h := range heads {
		for _, p := range due {
			if p.topic != h.Topic || h.KeyHash%p.of != p.number {
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

func (r *Relay) startProbe(ctx context.Context, s *session, heads []row) {
	if len(heads) == 0 {
		return
	}
	p := &probe{heads: heads, results: make([]error, len(heads)), done: make(chan struct{})}
	s.probe = p
	go func() { // bounded by its timeout; the session's close waits for it
		defer close(p.done)
		defer r.Signal()
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		recs, index := toRecords(heads, p.results)
		for i, err := range r.prober.PublishEach(ctx, recs) {
			p.results[index[i]] = err
		}
	}()
}

// finishProbe deletes the rows that a probe published and parks the keys of refused rows.
func (r *Relay) finishProbe(ctx context.Context, s *session, p *probe) (int, error) {
	now := time.Now()
	acked := make([]int64, 0, len(p.heads))
	for i, h := range p.heads {
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
	for i, h := range p.heads {
		r.applyProbeResult(ctx, s, h, p.results[i], now)
	}
	return len(acked), nil
}

func (r *Relay) applyProbeResult(ctx context.Context, s *session, head row, err error, now time.Time) {
	exact := r.partitionOf(head)
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

func (r *Relay) markRecovered(ctx context.Context, s *session, p partition, id int64, now time.Time) {
	if stalled, recovered := s.stalls.recordSuccess(p, id, now); recovered {
		r.log.InfoContext(ctx, "partition takes events again", "topic", p.topic, "partition", p.number, "after", fmt.Sprint(stalled))
	}
}
