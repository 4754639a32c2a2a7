package request

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"urr.guru/pkg/loop"
	"urr.guru/pkg/plan"
	"urr.guru/pkg/promotion"
)

const (
	sweepEvery  = plan.SweepSeconds * time.Second // the time between two sweeps of all partitions of markers
	sweepSlices = 8                               // each slice of the partitions has a lease
)

// PendingStore reads and changes requests without a result, for the sweeper.
type PendingStore interface {
	// AcquireLease acquires or renews this replica's lease of a slice of the partitions, for some
	// seconds. It returns false while another replica has the lease.
	AcquireLease(ctx context.Context, slice string) (bool, error)
	// Markers reads a page of a partition's markers whose requests were made before a time. The page
	// begins after a cursor; next is the cursor of the next page, empty at the end.
	Markers(ctx context.Context, partition int, before int64, cursor string) (page []promotion.Marker, next string, err error)
	// ReadMarked reads the requests of markers, by id. A request whose item cannot be read has no
	// status.
	ReadMarked(ctx context.Context, markers []promotion.Marker) (map[string]promotion.Request, error)
	// ReadGroups reads the states of the message groups of these messages, by promotion.Message.Group.
	// It leaves out what cannot be read.
	ReadGroups(ctx context.Context, messages []promotion.Message) (map[string]GroupState, error)
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

// GroupState is what may decide about the waiting requests of a message group without their messages.
type GroupState struct {
	// Rejection is the code with which they can be rejected at once: no place is left, the group of
	// entries is closed, or the draw is cancelled. It never becomes empty again.
	Rejection promotion.ResultCode
	// SentAt is when the message was sent that the worker service has processed last in the group.
	SentAt int64
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
	pass       int64     // the number of the present sweep
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

// observeQueue begins a sweep: it reads the number of messages in the SQS queue and updates
// emptySince.
func (s *Sweeper) observeQueue(ctx context.Context) {
	depth, err := s.queue.Depth(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pass++
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
	groups := groupStates{store: s.store, known: map[string]GroupState{}}
	var failure error
	for cursor := ""; ; {
		page, next, err := s.store.Markers(ctx, partition, before, cursor)
		if err != nil {
			return err
		}
		for i := range page {
			found.addMarker(&page[i])
		}
		if err := s.handleMarkers(ctx, page, &groups, found); err != nil {
			failure = err // continue, since requests of the next page may be rejected at once
		}
		if cursor = next; cursor == "" {
			return failure
		}
	}
}

func (s *Sweeper) handleMarkers(ctx context.Context, page []promotion.Marker, groups *groupStates, backlog *Backlog) error {
	markers, err := s.undecided(ctx, page, groups)
	if err != nil || len(markers) == 0 {
		return err
	}
	requests, err := s.store.ReadMarked(ctx, markers)
	if err != nil {
		return err
	}
	if err := groups.readOf(ctx, requests); err != nil {
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
		r, found := requests[m.RequestID]
		group := groups.of(promotion.MessageOf(&r))
		switch {
		case found && r.Status == "": // unreadable; the worker service may make it a dead letter
			if s.opts.Now().UnixMilli()-max(m.MarkedAt, m.QueuedAt) >= s.opts.FailAfter.Milliseconds() {
				failure = errors.Join(failure, s.store.EndUnreadable(ctx, m))
			}
		case found && isLogDeferred(&r):
			settled = append(settled, r)
		case !found || r.Status.Final() || r.EnteredAt != 0 || m.Gen < r.Gen:
			obsolete = append(obsolete, m)
		case group.Rejection != "":
			ends = append(ends, r.Ended(s.opts.Now().UnixMilli(), promotion.Rejected, group.Rejection))
		case m.QueuedAt == 0 && m.MarkedAt > s.opts.Now().Add(-s.opts.SendAfter).UnixMilli(): // redriven just now
		case m.QueuedAt == 0:
			backlog.mustDrain = true
			failure = errors.Join(failure, s.unsent.Add(ctx, r.EventID))
		case s.isLost(m, group.SentAt):
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

// undecided returns the markers of the requests that must be read. A request whose message waits in
// the SQS queue needs no decision, and there may be many: its marker and the state of its group show
// that. Since both may be out of date, every pass reads another part of such requests too.
func (s *Sweeper) undecided(ctx context.Context, page []promotion.Marker, groups *groupStates) ([]promotion.Marker, error) {
	var queued []promotion.Message
	for i := range page {
		if message, ok := queuedMessage(&page[i]); ok {
			queued = append(queued, message)
		}
	}
	if err := groups.read(ctx, queued); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(page), func(m promotion.Marker) bool {
		message, ok := queuedMessage(&m)
		if !ok || !s.emptySince.IsZero() || (m.RequestedAt+s.pass)%plan.SweepTurns == 0 {
			return false
		}
		group := groups.of(message)
		return group.Rejection == "" && group.SentAt < m.QueuedAt
	}), nil
}

// queuedMessage returns what a marker shows of the message of its request. ok is false if the
// message is not known to be in the SQS queue.
func queuedMessage(m *promotion.Marker) (message promotion.Message, ok bool) {
	message = promotion.Message{RequestID: m.RequestID, EventID: m.EventID, EventType: m.EventType}
	return message, m.QueuedAt != 0
}

// groupStates remembers the states of message groups while a partition is swept. One that is out of
// date delays a decision until the next sweep.
type groupStates struct {
	store PendingStore
	known map[string]GroupState // by promotion.Message.Group
}

func (g *groupStates) of(m promotion.Message) GroupState { return g.known[m.Group()] }

// read reads the states of those groups of the messages that are not known yet.
func (g *groupStates) read(ctx context.Context, messages []promotion.Message) error {
	unknown := slices.DeleteFunc(messages, func(m promotion.Message) bool {
		_, known := g.known[m.Group()]
		return known
	})
	if len(unknown) == 0 {
		return nil
	}
	states, err := g.store.ReadGroups(ctx, unknown)
	maps.Copy(g.known, states)
	return err
}

// readOf reads the states of the groups of requests without a result.
func (g *groupStates) readOf(ctx context.Context, requests map[string]promotion.Request) error {
	var messages []promotion.Message
	for _, r := range requests {
		if r.Status != "" && !r.Status.Final() {
			messages = append(messages, promotion.MessageOf(&r))
		}
	}
	return g.read(ctx, messages)
}

// isLogDeferred reports whether the worker service has processed a request but not written its log.
func isLogDeferred(r *promotion.Request) bool {
	_, ok := r.SettledLog()
	return ok
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
