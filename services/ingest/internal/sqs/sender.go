// Package sqs sends requests to the queue.
package sqs

import (
	"context"
	"slices"
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
	// maxWaiting bounds the requests that wait for a call to the queue, about those of a second. Above
	// it no others are accepted.
	maxWaiting = 1000
	// sendTimeout bounds a call and the transaction that records which messages the queue took.
	sendTimeout = 8 * time.Second
	// failurePause is how long nothing is sent after the queue took no message of a call.
	failurePause = time.Second
)

var (
	_ request.Sender   = (*Sender)(nil)
	_ request.Resender = (*Sender)(nil)
)

// Recorder records which requests are in the queue; table.Store is one.
type Recorder interface {
	MarkQueued(ctx context.Context, requests []promotion.Request) ([]promotion.Request, error)
}

// UnsentPromotions knows the promotions with requests that the queue has not taken;
// request.UnsentList is one.
type UnsentPromotions interface {
	Has(event string) bool
	Add(ctx context.Context, event string) error
}

// Sender sends concurrent requests in batches, and records each batch in one transaction.
type Sender struct {
	queue       *queue.Queue
	recorder    Recorder
	unsent      UnsentPromotions
	now         func() time.Time
	calls       *batch.Coalescer[promotion.Request, promotion.Request]
	pausedUntil atomic.Int64 // epoch ms
}

// New returns a Sender.
func New(q *queue.Queue, recorder Recorder, unsent UnsentPromotions, now func() time.Time) *Sender {
	s := &Sender{queue: q, recorder: recorder, unsent: unsent, now: now}
	// A request stays in its batch when its caller does not wait any longer (Keep).
	s.calls = batch.NewItems(batch.Config{Max: queue.MaxBatch, Inflight: inflight, Timeout: sendTimeout, Keep: true}, s.sendGroup)
	return s
}

// Close waits for the calls in flight.
func (s *Sender) Close(ctx context.Context) error { return s.calls.Close(ctx) }

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
	index := make([]int, len(requests)) // in copies
	at := make(map[string]int, len(requests))
	for i, r := range requests {
		if index[i] = -1; s.mustWait(ctx, r.EventID) {
			out[i].Err = errs.ErrUnavailable
			continue
		}
		n, known := at[r.RequestID]
		if !known { // two calls for one request share a message: a transaction takes an item once
			n = len(copies)
			at[r.RequestID], copies = n, append(copies, request.MessageCopy{Request: r})
		}
		index[i] = n
	}
	if len(copies) == 0 {
		return out, nil
	}
	refused := s.offer(ctx, copies)
	recorded, failure := s.record(ctx, copies, refused)
	for i, n := range index {
		if n < 0 {
			continue
		}
		out[i] = batch.Result[promotion.Request]{Value: recorded[n], Err: refused[n]}
		if refused[n] == nil {
			out[i].Err = failure
		} else {
			_ = s.unsent.Add(ctx, requests[i].EventID) // else the sweeper finds the request
		}
	}
	return out, nil
}

// offer sends at most ten messages, and returns the error of the queue for each.
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

// record records which messages the queue took, and returns the requests as they are stored then.
// If the process dies before that, the sweeper finds the markers and sends the messages again, and
// the queue drops the duplicates.
func (s *Sender) record(ctx context.Context, copies []request.MessageCopy, refused []error) (recorded []promotion.Request, failure error) {
	recorded = make([]promotion.Request, len(copies))
	var taken []promotion.Request
	var index []int
	for i, err := range refused {
		recorded[i] = copies[i].Request
		if err == nil {
			taken, index = append(taken, copies[i].Request), append(index, i)
		}
	}
	if len(taken) == 0 {
		return recorded, nil
	}
	marked, failure := s.recorder.MarkQueued(ctx, taken)
	failpoint.Hit("ingest.queued")
	if failure != nil {
		return recorded, failure
	}
	for n, i := range index {
		recorded[i] = marked[n]
	}
	return recorded, nil
}

// Resend sends messages, ten per call. It sends the next ten while it records those before.
func (s *Sender) Resend(ctx context.Context, copies []request.MessageCopy) (refused []error, failure error) {
	var records errgroup.Group
	records.SetLimit(inflight)
	var down error
	for part := range slices.Chunk(copies, queue.MaxBatch) {
		if down != nil {
			refused = append(refused, slices.Repeat([]error{down}, len(part))...)
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, sendTimeout)
		answers := s.offer(ctx, part)
		if allRefused(answers) {
			down = answers[0]
		}
		refused = append(refused, answers...)
		records.Go(func() error {
			defer cancel()
			_, err := s.record(ctx, part, answers)
			return err
		})
	}
	return refused, records.Wait()
}

func (s *Sender) Depth(ctx context.Context) (int64, error) { return s.queue.Depth(ctx) }
