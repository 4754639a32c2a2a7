package request

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"urr.guru/pkg/promotion"
)

const (
	drainEvery = time.Second
	// probeTimeout is the time limit of the call that tests whether the SQS queue answers.
	probeTimeout = time.Second
	// A promotion counts as drained when a pass over its requests has sent at most maxNewcomers of
	// them, about as many as come in a second. From then on new requests are sent at once. Passes
	// continue for lingerFor, and send requests older than strayAge: a replica that did not know yet
	// that the promotion is drained may have stored such requests without sending them. Requests that
	// were sent at once are known to be queued or processed before they reach strayAge.
	maxNewcomers = 1000
	lingerFor    = 6 * time.Second
	strayAge     = 3 * time.Second

	drainChunk    = 90 // how many requests are read together; they fit into one call of SQS
	drainParallel = 8  // to how many promotions requests are sent in parallel
	readParallel  = 16 // how many partitions of markers are read in parallel
)

// drainIfQueueAnswers calls Drain if a promotion has unsent requests and the SQS queue answers.
func (s *Sweeper) drainIfQueueAnswers(ctx context.Context) error {
	if !s.unsent.Listed() {
		return nil
	}
	probe, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if _, err := s.queue.Depth(probe); err != nil {
		return nil // Sweep reports it
	}
	return s.Drain(ctx)
}

// Drain sends the waiting requests to all promotions in the UnsentList. The requests to each
// promotion are sent in the order of acceptance. Drain does nothing while another replica drains.
func (s *Sweeper) Drain(ctx context.Context) error {
	if !s.draining.TryLock() { // Sweep calls Drain too, and must not wait for a long one
		return nil
	}
	defer s.draining.Unlock()
	for {
		listed, err := s.unsent.Refresh(ctx)
		if err != nil || len(listed) == 0 {
			return err
		}
		if ok, err := s.store.AcquireLease(ctx, "drain"); !ok {
			return err
		}
		d := &drainPass{drainedAt: map[string]int64{}, sent: map[string]int{}, refused: map[string]bool{}}
		for _, p := range listed {
			d.drainedAt[p.EventID] = p.DrainedAt
		}
		if err := s.sendWaiting(ctx, d); err != nil {
			return errors.Join(err, s.relistRefused(ctx, d))
		}
		if again, err := s.updateUnsentList(ctx, listed, d); !again || err != nil {
			return err
		}
	}
}

// drainPass is the state of one pass over the markers, which sends the waiting requests.
type drainPass struct {
	drainedAt map[string]int64 // UnsentPromotion.DrainedAt by promotion

	mu      sync.Mutex
	sent    map[string]int  // the number of messages sent, by promotion
	refused map[string]bool // promotions with messages that SQS refused
	down    error           // the error if SQS refuses all messages, else nil
}

// relistRefused marks a drained promotion as not drained again if SQS refused messages of it.
func (s *Sweeper) relistRefused(ctx context.Context, d *drainPass) error {
	var failure error
	for event := range d.refused {
		if d.drainedAt[event] != 0 {
			failure = errors.Join(failure, s.unsent.Add(ctx, event))
		}
	}
	return failure
}

// updateUnsentList updates the list of unsent promotions after a pass that has sent everything.
// again reports that another pass must follow, since this one sent many requests to one promotion.
func (s *Sweeper) updateUnsentList(ctx context.Context, listed []UnsentPromotion, d *drainPass) (again bool, failure error) {
	for _, p := range listed {
		sent := d.sent[p.EventID]
		var err error
		switch {
		case p.DrainedAt == 0 && sent > maxNewcomers:
			again = true
		case p.DrainedAt == 0:
			err = s.unsent.markDrained(ctx, p.EventID)
		case sent == 0 && s.opts.Now().UnixMilli()-p.DrainedAt >= lingerFor.Milliseconds():
			err = s.unsent.store.RemoveUnsent(ctx, p)
		}
		failure = errors.Join(failure, err)
	}
	return again, failure
}

// sendWaiting sends the waiting requests until SQS refuses all messages of a call. It does not send
// the requests after that; those older than FailAfter fail.
func (s *Sweeper) sendWaiting(ctx context.Context, d *drainPass) error {
	var chunk []promotion.Marker
	for m, err := range s.waitingMarkers(ctx, d) {
		if err != nil {
			return err
		}
		if d.down != nil && !s.pastFailAfter(m.RequestedAt) {
			break
		}
		if chunk = append(chunk, m); len(chunk) < drainChunk {
			continue
		}
		if err := s.sendChunk(ctx, d, chunk); err != nil && d.down == nil {
			return err
		}
		chunk = chunk[:0]
	}
	if err := s.sendChunk(ctx, d, chunk); err != nil {
		return err
	}
	return d.down
}

func (s *Sweeper) pastFailAfter(requestedAt int64) bool {
	return s.opts.Now().UnixMilli()-requestedAt >= s.opts.FailAfter.Milliseconds()
}

// sendChunk sends the requests of the markers, of different promotions in parallel.
func (s *Sweeper) sendChunk(ctx context.Context, d *drainPass, markers []promotion.Marker) error {
	if len(markers) == 0 {
		return nil
	}
	requests, err := s.store.ReadMarked(ctx, markers)
	if err != nil {
		return err
	}
	groups := groupStates{store: s.store, known: map[string]GroupState{}}
	if err := groups.readOf(ctx, requests); err != nil {
		return err
	}
	var ends []promotion.Change
	copies := map[string][]MessageCopy{}
	for _, m := range markers {
		r, found := requests[m.RequestID]
		_, listed := d.drainedAt[r.EventID]
		if !found || !listed || r.Status == "" || r.Status.Final() || r.EnteredAt != 0 || m.Gen < r.Gen {
			continue // Sweep deletes the marker, or ends the request
		}
		if code := groups.of(promotion.MessageOf(&r)).Rejection; code != "" {
			ends = append(ends, r.Ended(s.opts.Now().UnixMilli(), promotion.Rejected, code))
			continue
		}
		copies[r.EventID] = append(copies[r.EventID], MessageCopy{Request: r})
	}
	if err := s.store.End(ctx, ends); err != nil {
		return err
	}
	var work errgroup.Group
	work.SetLimit(drainParallel)
	down := d.down
	for event, eventCopies := range copies {
		work.Go(func() error {
			refused, err := s.send(ctx, eventCopies, down)
			d.mu.Lock()
			defer d.mu.Unlock()
			d.sent[event] += len(eventCopies) - refused
			if refused > 0 {
				d.refused[event] = true
			}
			if refused == len(eventCopies) { // if SQS refuses only some, the pass ends, and no request fails
				d.down = err
			}
			return err
		})
	}
	return work.Wait()
}

// waitingMarkers yields the markers of requests to the listed promotions that are not known to be
// in the SQS queue, in the order in which the requests were accepted.
func (s *Sweeper) waitingMarkers(ctx context.Context, d *drainPass) iter.Seq2[promotion.Marker, error] {
	return func(yield func(promotion.Marker, error) bool) {
		streams := make([]*markerReader, promotion.Partitions)
		var work errgroup.Group
		work.SetLimit(readParallel)
		for i := range streams {
			streams[i] = &markerReader{partition: i, more: true}
			work.Go(func() error { return s.readNextMarkers(ctx, streams[i], d) })
		}
		err := work.Wait()
		for err == nil {
			first := earliest(streams)
			if first == nil {
				return
			}
			if !yield(first.page[0], nil) {
				return
			}
			first.page = first.page[1:]
			err = s.readNextMarkers(ctx, first, d)
		}
		yield(promotion.Marker{}, err)
	}
}

// markerReader reads the markers of one partition page by page.
type markerReader struct {
	partition int
	page      []promotion.Marker
	cursor    string
	more      bool
}

// earliest returns the reader with the marker of the earliest request; nil if no reader has one.
func earliest(readers []*markerReader) (first *markerReader) {
	for _, m := range readers {
		if len(m.page) > 0 && (first == nil || m.page[0].RequestedAt < first.page[0].RequestedAt) {
			first = m
		}
	}
	return first
}

// readNextMarkers reads pages of markers until m has one whose request must be sent, or until the
// end of its partition.
func (s *Sweeper) readNextMarkers(ctx context.Context, m *markerReader, d *drainPass) error {
	for len(m.page) == 0 && m.more {
		page, next, err := s.store.Markers(ctx, m.partition, endOfTime, m.cursor)
		if err != nil {
			return err
		}
		for _, marker := range page {
			if s.mustSend(marker, d) {
				m.page = append(m.page, marker)
			}
		}
		m.cursor, m.more = next, next != ""
	}
	return nil
}

// endOfTime is a time (epoch ms) later than every request. Reading up to it reads all markers.
const endOfTime = 9_999_999_999_999

func (s *Sweeper) mustSend(m promotion.Marker, d *drainPass) bool {
	drainedAt, listed := d.drainedAt[m.EventID]
	age := time.Duration(s.opts.Now().UnixMilli()-m.MarkedAt) * time.Millisecond
	switch {
	case m.EventID == "": // the marker is unreadable, but its request has the promotion's id
		return age >= s.opts.SendAfter
	case m.QueuedAt != 0, !listed:
		return false
	case m.Gen > 0: // the worker service itself sends redriven requests
		return age >= s.opts.SendAfter
	default:
		return drainedAt == 0 || age >= strayAge
	}
}
