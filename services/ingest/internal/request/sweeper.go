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
	sweepEvery  = 5 * time.Second // the time between two sweeps of all partitions of markers
	sweepSlices = 8               // each slice of the partitions has a lease
)

// PendingStore reads and changes requests without a result, for the sweeper.
type PendingStore interface {
	// AcquireLease acquires or renews this replica's lease of a slice of the partitions, for some
	// seconds. It returns false while another replica has the lease.
	AcquireLease(ctx context.Context, slice string) (bool, error)
	// Markers reads a page of a partition's markers whose requests were made before a time. The page
	// begins after a cursor; next is the cursor of the next page, empty at the end.
	Markers(ctx context.Context, partition int, before int64, cursor string) (page []promotion.Marker, next string, err error)
	// ReadMarked reads the requests of markers, and what may decide that they are rejected.
	ReadMarked(ctx context.Context, markers []promotion.Marker) (MarkedRequests, error)
	DeleteMarkers(ctx context.Context, markers []promotion.Marker) error
	// FinishSettled writes the logs of requests that the worker service has processed without writing
	// their logs, and then deletes the requests' markers.
	FinishSettled(ctx context.Context, settled []promotion.Request) error
	// EndUnreadable ends a request whose item cannot be read.
	EndUnreadable(ctx context.Context, m promotion.Marker) error
	// End writes the results of requests that have not changed meanwhile. It deletes the lock of a
	// failed request, so that the user may apply again, unless the lock has a number of withdrawals.
	End(ctx context.Context, ends []promotion.Change) error
}

// MarkedRequests has the requests of markers, and what may decide that they are rejected.
type MarkedRequests struct {
	// Requests has the requests by id. A request whose item cannot be read has no status.
	Requests map[string]promotion.Request
	// Capacities has the capacities of first-come promotions, by event.
	Capacities map[string]promotion.Capacity
	// Counters has the counters of lotteries' entries, by message group.
	Counters map[string]promotion.EntryCounter
	// Voided are the lotteries that an operator has cancelled.
	Voided map[string]bool
}

// Resender sends messages that were never sent, or were lost.
type Resender interface {
	// Resend sends messages in this order, up to 90 at a time, and records which of them SQS accepted.
	// When SQS accepts no message of a call, Resend sends no more. refused has the error of SQS for
	// each message, nil for an accepted one. failure is the error of the recording.
	Resend(ctx context.Context, copies []MessageCopy) (refused []error, failure error)
	// Depth returns the number of messages in the SQS queue.
	Depth(ctx context.Context) (int64, error)
}

// MessageCopy is a message to send for a request.
type MessageCopy struct {
	Request promotion.Request
	// ID distinguishes this message from the lost one; empty for a message that was never sent.
	ID string
}

// SweeperOptions are the times of a Sweeper. Settings such as INGEST_SEND_AFTER define them.
type SweeperOptions struct {
	SendAfter, FailAfter, LostAfter time.Duration
	Now                             func() time.Time
}

// Sweeper finds, by their markers, requests whose message was never sent or is lost, and requests
// that can be rejected at once. It sends unsent messages in the order of acceptance, and lost ones
// at once. Several replicas may sweep, since a write requires that the state has not changed.
type Sweeper struct {
	store  PendingStore
	queue  Resender
	unsent *UnsentList
	opts   SweeperOptions
	log    *slog.Logger

	draining   sync.Mutex
	mu         sync.Mutex
	emptySince time.Time // since when the SQS queue is empty; zero unless it is known to be empty
	backlog    Backlog
}

// NewSweeper makes a sweeper; Run starts it.
func NewSweeper(store PendingStore, queue Resender, unsent *UnsentList, opts SweeperOptions, log *slog.Logger) *Sweeper {
	return &Sweeper{store: store, queue: queue, unsent: unsent, opts: opts, log: log, backlog: Backlog{SweptAt: opts.Now()}}
}

// Run calls Sweep and Drain periodically until ctx ends.
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

// Sweep handles all partitions of which no other replica has the lease, in parallel.
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

// observeQueue reads the number of messages in the SQS queue and updates emptySince.
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
			failure = err // continue, since requests of the next page may be rejected at once
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
		code, sentAt := marked.rejection(&r)
		switch {
		case found && r.Status == "": // unreadable; the worker service may make it a dead letter
			if s.opts.Now().UnixMilli()-max(m.MarkedAt, m.QueuedAt) >= s.opts.FailAfter.Milliseconds() {
				failure = errors.Join(failure, s.store.EndUnreadable(ctx, m))
			}
		case found && isLogDeferred(&r):
			settled = append(settled, r)
		case !found || r.Status.Final() || r.EnteredAt != 0 || m.Gen < r.Gen:
			obsolete = append(obsolete, m)
		case code != "":
			ends = append(ends, r.Ended(s.opts.Now().UnixMilli(), promotion.Rejected, code))
		case m.QueuedAt == 0 && m.MarkedAt > s.opts.Now().Add(-s.opts.SendAfter).UnixMilli(): // redriven just now
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

// isLogDeferred reports whether the worker service has processed a request but not written its log.
func isLogDeferred(r *promotion.Request) bool {
	_, ok := r.SettledLog()
	return ok
}

// rejection returns the code with which a request can be rejected at once: no place is left, its
// group of entries is closed, or the draw is cancelled. Otherwise the code is empty. sentAt is when
// the message was sent that the worker service has processed last in the request's group.
func (g *MarkedRequests) rejection(r *promotion.Request) (code promotion.ResultCode, sentAt int64) {
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

// send sends messages, unless down is set: the error with which SQS refuses all. It returns the
// number of refused messages, and one of the errors. A first-come request fails if SQS has refused
// its message for FailAfter. If SQS has the message all the same, the worker service drops it. A
// request whose message SQS has accepted does not fail, even if that could not be recorded. Lottery
// requests go on waiting, since their order does not matter.
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

// isLost reports whether a message cannot be in the SQS queue any more. sentAt is when the message
// was sent that was processed last in its group.
func (s *Sweeper) isLost(m promotion.Marker, sentAt int64) bool {
	if sentAt-m.QueuedAt >= s.opts.LostAfter.Milliseconds() { // a later one was processed
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
