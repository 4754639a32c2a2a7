package request

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"urr.guru/pkg/loop"
	"urr.guru/pkg/promotion"
)

const (
	sweepEvery  = 5 * time.Second // a sweep reads every partition of markers
	sweepSlices = 8               // parts of the partitions; each is swept by the replica with its lease
)

// PendingStore is the store of requests that have not ended, which the sweeper reads and changes.
type PendingStore interface {
	// AcquireLease takes or renews this replica's lease of a slice of the partitions, for some
	// seconds. It returns false while another replica has the lease.
	AcquireLease(ctx context.Context, slice string) (bool, error)
	// Markers reads a page of the markers of a partition whose requests were made before a time,
	// behind a cursor; next is empty at the end.
	Markers(ctx context.Context, partition int, before int64, cursor string) (page []promotion.Marker, next string, err error)
	// ReadMarked reads the requests of markers, and what decides about them.
	ReadMarked(ctx context.Context, markers []promotion.Marker) (MarkedRequests, error)
	DeleteMarkers(ctx context.Context, markers []promotion.Marker) error
	// FinishSettled writes the logs that the settlement of requests has left to be written later, and
	// then deletes the requests' markers.
	FinishSettled(ctx context.Context, settled []promotion.Request) error
	// EndUnreadable ends a request whose item cannot be read.
	EndUnreadable(ctx context.Context, m promotion.Marker) error
	// End writes the ends of requests, except those that were changed meanwhile. It deletes the lock of
	// a failed request, so that the user may apply again, unless the lock counts withdrawals.
	End(ctx context.Context, ends []promotion.Change) error
}

// MarkedRequests has the requests of markers, and the state that decides about them.
type MarkedRequests struct {
	// Requests by their ids. A request whose item cannot be read has no status.
	Requests map[string]promotion.Request
	// Capacities by event, of first-come promotions.
	Capacities map[string]promotion.Capacity
	// Counters by message group, of lotteries.
	Counters map[string]promotion.EntryCounter
	// Voided are the lotteries that an operator has cancelled.
	Voided map[string]bool
}

// Resender sends messages again.
type Resender interface {
	// Resend sends messages in this order, up to 90 at a time, and records which ones the queue took. If
	// the queue takes none of a call, the rest is not sent. refused has the queue's error for each
	// message, nil for one that the queue took; failure is the error of recording.
	Resend(ctx context.Context, copies []MessageCopy) (refused []error, failure error)
	// Depth returns the number of messages in the queue.
	Depth(ctx context.Context) (int64, error)
}

// MessageCopy is a message to send for a request.
type MessageCopy struct {
	Request promotion.Request
	// ID distinguishes a copy of a lost message; empty for a message that was never sent.
	ID string
}

// SweeperOptions are the times of a Sweeper, which settings like INGEST_SEND_AFTER define.
type SweeperOptions struct {
	SendAfter, FailAfter, LostAfter time.Duration
	Now                             func() time.Time
}

// Sweeper finds, by the markers, requests whose message was never sent or is lost, and requests
// that can be rejected at once. It sends messages that were never sent in the order of acceptance,
// and lost ones at once. Any number of replicas may sweep: writes require the state that was read.
type Sweeper struct {
	store  PendingStore
	queue  Resender
	unsent *UnsentList
	opts   SweeperOptions
	log    *slog.Logger

	draining   sync.Mutex
	mu         sync.Mutex
	emptySince time.Time // of the queue; zero unless it is known to be empty
	backlog    Backlog
}

// NewSweeper makes a sweeper; Run starts it.
func NewSweeper(store PendingStore, queue Resender, unsent *UnsentList, opts SweeperOptions, log *slog.Logger) *Sweeper {
	return &Sweeper{store: store, queue: queue, unsent: unsent, opts: opts, log: log, backlog: Backlog{SweptAt: opts.Now()}}
}

// Run sweeps and drains until ctx ends.
func (s *Sweeper) Run(ctx context.Context) error {
	var work errgroup.Group
	work.Go(func() error {
		return loop.Try(ctx, sweepEvery, s.log, "requests not swept, trying again", s.Sweep)
	})
	work.Go(func() error {
		return loop.Try(ctx, refreshEvery, s.log, "promotions with unsent requests not read", func(ctx context.Context) error {
			_, err := s.unsent.Refresh(ctx)
			return err
		})
	})
	work.Go(func() error {
		return loop.Try(ctx, drainEvery, s.log, "unsent requests not sent, trying again", s.drainIfQueueAnswers)
	})
	return work.Wait()
}

// Sweep passes once over the partitions of which no other replica has the lease, in parallel.
func (s *Sweeper) Sweep(ctx context.Context) error {
	s.observeQueue(ctx)
	failures, found := make([]error, sweepSlices), make([]Backlog, sweepSlices)
	var work sync.WaitGroup
	for slice := range sweepSlices {
		work.Go(func() {
			ok, err := s.store.AcquireLease(ctx, fmt.Sprintf("sweep-%d", slice))
			for p := slice; ok && p < promotion.Partitions; p += sweepSlices {
				err = errors.Join(err, s.sweepPartition(ctx, p, &found[slice]))
			}
			failures[slice] = err
		})
	}
	work.Wait()
	err := errors.Join(failures...)
	if slices.ContainsFunc(found, func(b Backlog) bool { return b.mustDrain }) {
		err = errors.Join(err, s.Drain(ctx))
	}
	s.setBacklog(found, err == nil)
	return err
}

// observeQueue reads the queue's depth and updates emptySince.
func (s *Sweeper) observeQueue(ctx context.Context) {
	depth, err := s.queue.Depth(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil || depth > 0:
		s.emptySince = time.Time{}
	case s.emptySince.IsZero():
		s.emptySince = s.opts.Now()
	}
}

// sweepPartition handles the markers of a partition that are older than SendAfter.
func (s *Sweeper) sweepPartition(ctx context.Context, partition int, found *Backlog) error {
	before := s.opts.Now().Add(-s.opts.SendAfter).UnixMilli()
	var failure error
	for cursor := ""; ; {
		page, next, err := s.store.Markers(ctx, partition, before, cursor)
		if err != nil {
			return err
		}
		for i := range page {
			found.addMarker(&page[i])
		}
		if err := s.handleMarkers(ctx, page, found); err != nil {
			failure = err // go on: requests of the next page may be rejected at once
		}
		if cursor = next; cursor == "" {
			return failure
		}
	}
}

func (s *Sweeper) handleMarkers(ctx context.Context, markers []promotion.Marker, backlog *Backlog) error {
	if len(markers) == 0 {
		return nil
	}
	marked, err := s.store.ReadMarked(ctx, markers)
	if err != nil {
		return err
	}
	var (
		obsolete []promotion.Marker
		settled  []promotion.Request
		ends     []promotion.Change
		lost     []MessageCopy
		failure  error
	)
	for _, m := range markers {
		r, found := marked.Requests[m.RequestID]
		code, sentAt := marked.settlement(&r)
		switch {
		case found && r.Status == "": // worker makes a dead letter of it if it receives the message in time
			if s.opts.Now().UnixMilli()-max(m.MarkedAt, m.QueuedAt) >= s.opts.FailAfter.Milliseconds() {
				failure = errors.Join(failure, s.store.EndUnreadable(ctx, m))
			}
		case found && settledInTurn(&r):
			settled = append(settled, r)
		case !found || r.Status.Final() || r.EnteredAt != 0 || m.Gen < r.Gen:
			obsolete = append(obsolete, m)
		case code != "":
			ends = append(ends, r.Ended(s.opts.Now().UnixMilli(), promotion.Rejected, code))
		case m.QueuedAt == 0 && m.MarkedAt > s.opts.Now().Add(-s.opts.SendAfter).UnixMilli(): // just redriven
		case m.QueuedAt == 0:
			backlog.mustDrain = true
			failure = errors.Join(failure, s.unsent.Add(ctx, r.EventID))
		case s.isLost(m, sentAt):
			s.log.WarnContext(ctx, "message lost, sending another", "request_id", m.RequestID, "event_id", m.EventID)
			lost = append(lost, MessageCopy{Request: r, ID: uuid.NewString()})
		}
	}
	if err := errors.Join(s.store.FinishSettled(ctx, settled), s.store.DeleteMarkers(ctx, obsolete)); err != nil {
		return errors.Join(failure, err)
	}
	_, refused := s.send(ctx, lost, nil)
	return errors.Join(failure, refused, s.store.End(ctx, ends))
}

// settledInTurn reports whether a request was settled in its turn; then its log is written later.
func settledInTurn(r *promotion.Request) bool {
	_, ok := r.SettledLog()
	return ok
}

// settlement returns the code with which a request can be rejected at once: no place is left, its
// group is closed, or the draw is cancelled. The code is empty otherwise. sentAt is when the latest
// settled message of the request's group was sent.
func (g *MarkedRequests) settlement(r *promotion.Request) (code promotion.ResultCode, sentAt int64) {
	if r.EventType == promotion.Lottery {
		counter := g.Counters[promotion.MessageOf(r).Group()]
		switch {
		case g.Voided[r.EventID]:
			code = promotion.RejectedVoid
		case counter.ClosedAt != 0:
			code = promotion.RejectedLate
		}
		return code, counter.SentAt
	}
	capacity, limited := g.Capacities[r.EventID]
	if limited && capacity.Remaining == 0 {
		code = promotion.RejectedCapacity
	}
	return code, capacity.SentAt
}

// send sends messages, unless down says why the queue takes none. It returns how many were refused,
// and one of the errors. A request to a first-come promotion whose message was refused for
// FailAfter fails; if the queue has taken the message nevertheless, worker drops it. A request
// whose message was taken does not fail, even if that could not be recorded. Requests to a lottery
// wait, since their order does not count.
func (s *Sweeper) send(ctx context.Context, copies []MessageCopy, down error) (refused int, failure error) {
	answers := slices.Repeat([]error{down}, len(copies))
	if down == nil {
		answers, failure = s.queue.Resend(ctx, copies)
	}
	var failed []promotion.Change
	for i, err := range answers {
		if err == nil {
			continue
		}
		refused++
		failure = err
		r := copies[i].Request
		if r.Status == promotion.Received && r.EventType != promotion.Lottery && s.pastFailAfter(r.RequestedAt) {
			failed = append(failed, r.Ended(s.opts.Now().UnixMilli(), promotion.FailedFinal, promotion.FailedIngestEnqueue))
		}
	}
	return refused, errors.Join(failure, s.store.End(ctx, failed))
}

// isLost reports whether the queue cannot have a message any more. sentAt is the time at which the
// latest settled message of its group was sent.
func (s *Sweeper) isLost(m promotion.Marker, sentAt int64) bool {
	if sentAt-m.QueuedAt >= s.opts.LostAfter.Milliseconds() { // a message sent later was settled
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.emptySince.IsZero() {
		return false
	}
	since := max(m.QueuedAt, s.emptySince.UnixMilli())
	return s.opts.Now().UnixMilli()-since >= s.opts.LostAfter.Milliseconds()
}
