// Package sqs sends requests to the queue.
package sqs

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/queue"
	"urr.guru/services/ingest/internal/request"
)

const (
	inflight = 4 // concurrent calls of a replica to the queue
	// maxWaiting bounds the requests that wait for a call to the queue, to about those of a second.
	// Above it no others are accepted.
	maxWaiting = 1000
	// collectFor is how long the first request of a batch waits for others, so that requests accepted
	// together share a message. During a call it waits for the call's end, up to collectAtMost.
	collectFor, collectAtMost = 2 * time.Millisecond, 20 * time.Millisecond
	// sendTimeout bounds the calls of a batch, and the record of what the queue took.
	sendTimeout = 8 * time.Second
	// failurePause is how long nothing is sent after the queue took no message of a call.
	failurePause = time.Second
)

var (
	_ request.Sender   = (*Sender)(nil)
	_ request.Resender = (*Sender)(nil)
)

// MarkAfter is how long a request may be in the queue before that is recorded, unless it is settled.
const MarkAfter = time.Second

// Recorder records which requests are in the queue, and since when; table.Store is one.
type Recorder interface {
	MarkQueued(ctx context.Context, requests []promotion.Request, takenAt int64) ([]promotion.Request, error)
	// MarkUnsettled does the same for the requests that have not changed since their acceptance.
	MarkUnsettled(ctx context.Context, accepted []promotion.Request, takenAt int64) error
}

// UnsentPromotions knows the promotions with requests that the queue has not taken;
// request.UnsentList is one.
type UnsentPromotions interface {
	Has(event string) bool
	Add(ctx context.Context, event string) error
}

// Sender sends concurrent requests in batches.
type Sender struct {
	queue       *queue.Queue
	recorder    Recorder
	unsent      UnsentPromotions
	now         func() time.Time
	markAfter   time.Duration
	calls       *batch.Coalescer[promotion.Request, promotion.Request]
	pausedUntil atomic.Int64 // epoch ms
	// recent has the ids of requests from when they are sent until they are marked as queued, so that
	// a repeated application does not send its request again.
	recent   sync.Map
	marks    sync.WaitGroup
	closing  chan struct{}
	endMarks func() // closes closing
}

// New returns a Sender; markAfter is MarkAfter, except in tests.
func New(q *queue.Queue, recorder Recorder, unsent UnsentPromotions, markAfter time.Duration, now func() time.Time) *Sender {
	s := &Sender{queue: q, recorder: recorder, unsent: unsent, markAfter: markAfter, now: now, closing: make(chan struct{})}
	s.endMarks = sync.OnceFunc(func() { close(s.closing) })
	// A request stays in its batch when its caller does not wait any longer (Keep).
	s.calls = batch.NewItems(batch.Config{
		Max: queue.MaxRequests, Delay: collectFor, Overlap: collectAtMost, Inflight: inflight, Timeout: sendTimeout, Keep: true,
	}, s.sendGroup)
	return s
}

// Close waits for the calls in flight, and until the requests that they have sent are recorded.
func (s *Sender) Close(ctx context.Context) error {
	err := s.calls.Close(ctx)
	s.endMarks()
	done := make(chan struct{})
	go func() {
		s.marks.Wait()
		close(done)
	}()
	select {
	case <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Sender) Send(ctx context.Context, r promotion.Request) (promotion.Request, error) {
	if s.mustWait(ctx, r.EventID) {
		return r, errs.ErrUnavailable
	}
	sent, err := s.calls.Do(ctx, r)
	if err != nil {
		return r, err
	}
	return sent, nil
}

// Busy reports whether more requests wait for their call than are sent in about a second.
func (s *Sender) Busy() bool { return s.calls.Waiting() > maxWaiting }

// mustWait reports whether a request to a promotion must not be sent now: other requests wait
// before it, or the queue has just refused all of a call.
func (s *Sender) mustWait(ctx context.Context, event string) bool {
	if s.unsent.Has(event) {
		return true
	}
	paused := s.now().UnixMilli() < s.pausedUntil.Load()
	if paused {
		_ = s.unsent.Add(ctx, event) // else the sweeper finds the request
	}
	return paused
}

func (s *Sender) sendGroup(ctx context.Context, requests []promotion.Request) ([]batch.Result[promotion.Request], error) {
	out := make([]batch.Result[promotion.Request], len(requests))
	var copies []request.MessageCopy
	index := make(map[string]int, len(requests)) // the index in copies, by request id
	for _, i := range inOrder(requests) {
		r := requests[i]
		out[i].Value = r
		if s.mustWait(ctx, r.EventID) {
			out[i].Err = errs.ErrUnavailable
		} else if _, repeated := s.recent.LoadOrStore(r.RequestID, true); !repeated {
			index[r.RequestID], copies = len(copies), append(copies, request.MessageCopy{Request: r})
		}
	}
	if len(copies) == 0 {
		return out, nil
	}
	refused := s.offer(ctx, copies)
	takenAt := s.now().UnixMilli()
	for i, r := range requests {
		n, sent := index[r.RequestID]
		if !sent || out[i].Err != nil { // the request waits, or another call has sent it
			continue
		}
		if out[i].Err = refused[n]; refused[n] == nil {
			out[i].Value = r.Queued(takenAt).After
		} else {
			_ = s.unsent.Add(ctx, r.EventID) // else the sweeper finds the request
			s.recent.Delete(r.RequestID)
		}
	}
	s.markLater(ctx, taken(copies, refused), takenAt)
	return out, nil
}

// inOrder returns the indexes of requests in the order of their ids, which is that of acceptance:
// those that were accepted together call Send in any order.
func inOrder(requests []promotion.Request) []int {
	order := make([]int, len(requests))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(requests[a].RequestID, requests[b].RequestID) })
	return order
}

// markLater records after some time which requests the queue has taken. It skips requests that are
// settled by then, since their settlement has recorded it. If the process dies before, the sweeper
// finds the markers of the unsettled requests later, and sends these requests again.
func (s *Sender) markLater(ctx context.Context, accepted []promotion.Request, takenAt int64) {
	if len(accepted) == 0 {
		return
	}
	ctx = context.WithoutCancel(ctx)
	s.marks.Go(func() {
		select {
		case <-time.After(s.markAfter):
		case <-s.closing:
		}
		ctx, cancel := context.WithTimeout(ctx, sendTimeout)
		defer cancel()
		_ = s.recorder.MarkUnsettled(ctx, accepted, takenAt) // else the sweeper sends them again
		failpoint.Hit("ingest.queued")
		for _, r := range accepted {
			s.recent.Delete(r.RequestID)
		}
	})
}

// taken returns the requests that the queue did not refuse.
func taken(copies []request.MessageCopy, refused []error) (out []promotion.Request) {
	for i, err := range refused {
		if err == nil {
			out = append(out, copies[i].Request)
		}
	}
	return out
}

// offer sends requests, and returns the error of the queue for each.
func (s *Sender) offer(ctx context.Context, copies []request.MessageCopy) (refused []error) {
	out := make([]promotion.Outgoing, len(copies))
	for i, c := range copies {
		out[i] = promotion.Outgoing{Message: promotion.MessageOf(&c.Request), CopyID: c.ID}
	}
	refused = s.queue.Send(ctx, out)
	failpoint.Hit("ingest.sent")
	if allRefused(refused) {
		s.pausedUntil.Store(s.now().Add(failurePause).UnixMilli())
	}
	return refused
}

func allRefused(refused []error) bool { return !slices.Contains(refused, nil) }

// Resend sends requests, as many per call as fit, and records at once what the queue has taken. It
// sends the next ones while it records those before.
func (s *Sender) Resend(ctx context.Context, copies []request.MessageCopy) (refused []error, failure error) {
	var records errgroup.Group
	records.SetLimit(inflight)
	var down error
	for chunk := range slices.Chunk(copies, queue.MaxRequests) {
		if down != nil {
			refused = append(refused, slices.Repeat([]error{down}, len(chunk))...)
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, sendTimeout)
		answers := s.offer(ctx, chunk)
		if allRefused(answers) {
			down = answers[0]
		}
		refused = append(refused, answers...)
		records.Go(func() error {
			defer cancel()
			_, err := s.recorder.MarkQueued(ctx, taken(chunk, answers), s.now().UnixMilli())
			failpoint.Hit("ingest.queued")
			return err
		})
	}
	return refused, records.Wait()
}

func (s *Sender) Depth(ctx context.Context) (int64, error) { return s.queue.Depth(ctx) }
