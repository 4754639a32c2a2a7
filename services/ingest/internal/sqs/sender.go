// Package sqs sends requests to the queue.
package sqs

import (
	"context"
	"sync/atomic"
	"time"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/queue"
	"urr.guru/services/ingest/internal/request"
)

const (
	inflight = 4 // concurrent calls of a replica
	// sendTimeout bounds a call and the transaction that records which messages the queue took.
	sendTimeout = 8 * time.Second
	// failurePause is how long nothing is sent after the queue took no message of a call: applicants are
	// answered without waiting, and the sweeper sends their requests.
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

// Sender sends concurrent requests in batches, each with one transaction that records it.
type Sender struct {
	queue       *queue.Queue
	recorder    Recorder
	now         func() time.Time
	calls       *batch.Coalescer[promotion.Request, promotion.Request]
	pausedUntil atomic.Int64 // epoch ms
}

// New makes a sender.
func New(q *queue.Queue, recorder Recorder, now func() time.Time) *Sender {
	s := &Sender{queue: q, recorder: recorder, now: now}
	s.calls = batch.NewItems(batch.Config{Max: queue.MaxBatch, Inflight: inflight, Timeout: sendTimeout}, s.sendGroup)
	return s
}

// Close waits for the calls in flight.
func (s *Sender) Close(ctx context.Context) error { return s.calls.Close(ctx) }

func (s *Sender) Send(ctx context.Context, r promotion.Request) (promotion.Request, error) {
	if s.now().UnixMilli() < s.pausedUntil.Load() {
		return r, errs.ErrUnavailable
	}
	return s.calls.Do(ctx, r)
}

func (s *Sender) sendGroup(ctx context.Context, requests []promotion.Request) ([]batch.Result[promotion.Request], error) {
	var copies []request.Copy
	index := make([]int, len(requests))
	at := make(map[string]int, len(requests))
	for i, r := range requests {
		n, known := at[r.RequestID]
		if !known { // two calls for one request share a message: a transaction takes an item once
			n = len(copies)
			at[r.RequestID], copies = n, append(copies, request.Copy{Request: r})
		}
		index[i] = n
	}
	recorded, refused, failure := s.send(ctx, copies)
	out := make([]batch.Result[promotion.Request], len(requests))
	for i, n := range index {
		out[i] = batch.Result[promotion.Request]{Value: recorded[n], Err: refused[n]}
		if refused[n] == nil {
			out[i].Err = failure
		}
	}
	return out, nil
}

// send sends at most ten messages and records which ones the queue took. It returns the requests as
// they are stored then, for each the error of the queue, and the error of the record. If the process
// dies before the record, the sweeper finds the markers and sends the messages again, which the queue
// deduplicates.
func (s *Sender) send(ctx context.Context, copies []request.Copy) (recorded []promotion.Request, refused []error, failure error) {
	out := make([]promotion.Outgoing, len(copies))
	recorded = make([]promotion.Request, len(copies))
	for i, c := range copies {
		out[i] = promotion.Outgoing{Message: promotion.MessageOf(&c.Request), CopyID: c.ID}
		recorded[i] = c.Request
	}
	refused = s.queue.Send(ctx, out)
	failpoint.Hit("ingest.sent")
	var taken []promotion.Request
	var index []int
	for i, err := range refused {
		if err == nil {
			taken, index = append(taken, copies[i].Request), append(index, i)
		}
	}
	if len(taken) == 0 {
		s.pausedUntil.Store(s.now().Add(failurePause).UnixMilli())
		return recorded, refused, nil
	}
	marked, failure := s.recorder.MarkQueued(ctx, taken)
	failpoint.Hit("ingest.queued")
	if failure != nil {
		return recorded, refused, failure
	}
	for n, i := range index {
		recorded[i] = marked[n]
	}
	return recorded, refused, nil
}

func (s *Sender) Resend(ctx context.Context, copies []request.Copy) (refused []error, failure error) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	_, refused, failure = s.send(ctx, copies)
	return refused, failure
}

func (s *Sender) Depth(ctx context.Context) (int64, error) { return s.queue.Depth(ctx) }
