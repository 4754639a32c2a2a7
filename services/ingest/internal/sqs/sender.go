// Package sqs sends requests to an SQS queue, from which the worker service receives them.
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
	inflight = 4 // how many calls to SQS a replica makes at once
	// maxWaiting is the most requests that may wait to be sent: about one second's worth. Beyond it,
	// new requests are refused.
	maxWaiting = 1000
	// collectFor is how long the first request of a batch waits for more, so that requests accepted
	// together share a message. While a call is running, it waits longer, up to collectAtMost.
	collectFor, collectAtMost = 2 * time.Millisecond, 20 * time.Millisecond
	// failurePause is how long nothing is sent after SQS has accepted no message of a call.
	failurePause = time.Second
)

var (
	_ request.Sender   = (*Sender)(nil)
	_ request.Resender = (*Sender)(nil)
)

// MarkAfter is when a sent request is recorded as queued, unless it has a result by then.
const MarkAfter = time.Second

// SendTimeout limits the time to send a batch and to record what SQS has accepted.
const SendTimeout = 8 * time.Second

// Recorder records which requests are in the SQS queue, and since when. table.Store implements it.
type Recorder interface {
	MarkQueued(ctx context.Context, requests []promotion.Request, takenAt int64) ([]promotion.Request, error)
	// MarkUnsettled is MarkQueued for only those requests that are unchanged since acceptance.
	MarkUnsettled(ctx context.Context, accepted []promotion.Request, takenAt int64) error
}

// UnsentPromotions is the list of promotions with requests that SQS has not accepted.
// request.UnsentList implements it.
type UnsentPromotions interface {
	Has(event string) bool
	Add(ctx context.Context, event string) error
}

// Sender sends requests to the SQS queue. It combines concurrent requests into batches.
type Sender struct {
	queue       *queue.Queue
	recorder    Recorder
	unsent      UnsentPromotions
	now         func() time.Time
	markAfter   time.Duration
	sendTimeout time.Duration
	calls       *batch.Coalescer[promotion.Request, promotion.Request]
	pausedUntil atomic.Int64 // epoch ms
	// recent has the ids of requests from when they are sent until they are marked as queued, so that
	// a repeated application does not send its request again.
	recent   sync.Map
	marks    sync.WaitGroup
	closing  chan struct{}
	endMarks func() // closes closing
}

// New returns a Sender. markAfter and sendTimeout are the constants of these names, except in tests.
func New(q *queue.Queue, recorder Recorder, unsent UnsentPromotions, markAfter, sendTimeout time.Duration, now func() time.Time) *Sender {
	s := &Sender{
		queue: q, recorder: recorder, unsent: unsent, now: now, markAfter: markAfter, sendTimeout: sendTimeout, closing: make(chan struct{}),
	}
	s.endMarks = sync.OnceFunc(func() { close(s.closing) })
	// Because of Keep, a request is sent even if its caller does not wait any longer.
	s.calls = batch.NewItems(batch.Config{
		Max: queue.MaxRequests, Delay: collectFor, Overlap: collectAtMost, Inflight: inflight, Timeout: sendTimeout, Keep: true,
	}, s.sendGroup)
	return s
}

// Close waits for the calls in progress, and then until their requests are recorded as queued.
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

// Busy reports whether more than maxWaiting requests wait to be sent.
func (s *Sender) Busy() bool { return s.calls.Waiting() > maxWaiting }

// mustWait reports whether a request to a promotion must not be sent now: earlier requests to it
// wait to be sent, or SQS has just refused all messages of a call.
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
	index := make(map[string]int, len(requests)) // the index in copies by request id
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
	refused := s.sendMessages(ctx, copies)
	takenAt := s.now().UnixMilli()
	// Calls that ran out of time list their promotions too, within one time limit for all requests.
	listing, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.sendTimeout)
	defer cancel()
	for i, r := range requests {
		n, sent := index[r.RequestID]
		if !sent || out[i].Err != nil { // the request is still to be sent, or another call has sent it
			continue
		}
		if out[i].Err = refused[n]; refused[n] == nil {
			out[i].Value = r.Queued(takenAt).After
		} else {
			_ = s.unsent.Add(listing, r.EventID) // else the sweeper finds the request
			s.recent.Delete(r.RequestID)
		}
	}
	s.markLater(ctx, acceptedRequests(copies, refused), takenAt)
	return out, nil
}

// inOrder returns the indexes of requests in the order of their ids, in which they were accepted.
// Requests that were accepted together may arrive in any order.
func inOrder(requests []promotion.Request) []int {
	order := make([]int, len(requests))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(requests[a].RequestID, requests[b].RequestID) })
	return order
}

// markLater records after a while which requests SQS has accepted. It skips requests with a result,
// since storing the result has recorded this too. If the process dies before, the sweeper
// finds the markers of the other requests later, and sends these requests again.
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
		ctx, cancel := context.WithTimeout(ctx, s.sendTimeout)
		defer cancel()
		_ = s.recorder.MarkUnsettled(ctx, accepted, takenAt) // else the sweeper sends them again
		failpoint.Hit("ingest.queued")
		for _, r := range accepted {
			s.recent.Delete(r.RequestID)
		}
	})
}

// acceptedRequests returns the requests that SQS did not refuse.
func acceptedRequests(copies []request.MessageCopy, refused []error) (out []promotion.Request) {
	for i, err := range refused {
		if err == nil {
			out = append(out, copies[i].Request)
		}
	}
	return out
}

// sendMessages sends the messages of requests, and returns the error of SQS for each.
func (s *Sender) sendMessages(ctx context.Context, copies []request.MessageCopy) (refused []error) {
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

// Resend sends requests, as many per call as fit, and records at once what SQS has accepted. While
// it records the requests of a call, it makes the next call.
func (s *Sender) Resend(ctx context.Context, copies []request.MessageCopy) (refused []error, failure error) {
	var records errgroup.Group
	records.SetLimit(inflight)
	var down error
	for chunk := range slices.Chunk(copies, queue.MaxRequests) {
		if down != nil {
			refused = append(refused, slices.Repeat([]error{down}, len(chunk))...)
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, s.sendTimeout)
		answers := s.sendMessages(ctx, chunk)
		if allRefused(answers) {
			down = answers[0]
		}
		refused = append(refused, answers...)
		records.Go(func() error {
			defer cancel()
			_, err := s.recorder.MarkQueued(ctx, acceptedRequests(chunk, answers), s.now().UnixMilli())
			failpoint.Hit("ingest.queued")
			return err
		})
	}
	return refused, records.Wait()
}

func (s *Sender) Depth(ctx context.Context) (int64, error) { return s.queue.Depth(ctx) }
