package settle_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/ids"
	"urr.guru/pkg/promotion"
	"urr.guru/services/worker/internal/settle"
)

// The assumed latencies of calls to AWS.
const (
	queueLatency = 10 * time.Millisecond
	storeLatency = 15 * time.Millisecond
)

// remote is a store and a queue with one group, which answer after the latencies of AWS.
type remote struct {
	settle.Store

	fakeQueue

	mu       sync.Mutex
	waiting  []promotion.Delivery
	inFlight int
	capacity promotion.Capacity
	requests map[string]promotion.Request
	settled  chan struct{} // closed when all requests are processed
}

func (a *remote) Receive(ctx context.Context) ([]promotion.Delivery, error) {
	for ctx.Err() == nil {
		time.Sleep(queueLatency)
		a.mu.Lock()
		if a.inFlight == 0 && len(a.waiting) > 0 { // no message of a group while it has some in flight
			got := a.waiting[:min(10, len(a.waiting))]
			a.waiting, a.inFlight = a.waiting[len(got):], len(got)
			a.mu.Unlock()
			return got, nil
		}
		a.mu.Unlock()
	}
	return nil, ctx.Err()
}

func (a *remote) Delete(_ context.Context, messages []promotion.Delivery) error {
	if len(messages) == 0 {
		return nil
	}
	time.Sleep(queueLatency)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.inFlight -= len(messages)
	if a.inFlight == 0 && len(a.waiting) == 0 {
		close(a.settled)
	}
	return nil
}

func (a *remote) Snapshot(context.Context, []promotion.Message) (settle.Snapshot, error) {
	time.Sleep(storeLatency)
	a.mu.Lock()
	defer a.mu.Unlock()
	places := a.capacity
	return settle.Snapshot{Capacity: &places, Requests: a.requests}, nil
}

func (a *remote) Settle(_ context.Context, s settle.Settlement) error {
	time.Sleep(storeLatency)
	a.mu.Lock()
	defer a.mu.Unlock()
	next := make(map[string]promotion.Request, len(a.requests))
	for id, r := range a.requests {
		next[id] = r
	}
	for _, c := range s.Changes {
		next[c.After.RequestID] = c.After
	}
	a.requests, a.capacity = next, *s.Capacity
	return nil
}

// settlesPerSecond returns how many requests of one promotion are decided per (fake) second.
func settlesPerSecond(t *testing.T, requests, perMessage int) (rate float64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &environment{kind: promotion.FirstCome}
		a := &remote{capacity: promotion.Capacity{Total: 1e6, Remaining: 1e6}, requests: map[string]promotion.Request{}, settled: make(chan struct{})}
		for n := 0; n < requests; n += perMessage {
			var all []promotion.Message
			for i := range perMessage {
				r := promotion.NewRequest(w.promotion(), ids.NewV7().String(), fmt.Sprint("u", n+i), start.UnixMilli())
				a.requests[r.RequestID] = r
				all = append(all, promotion.MessageOf(&r))
			}
			a.waiting = append(a.waiting, promotion.Delivery{Body: promotion.Body(all...), Group: event, ID: fmt.Sprint(n), SequenceNumber: fmt.Sprint(n), Receives: 1})
		}
		ctx, cancel := context.WithCancel(t.Context())
		settler := settle.New(a, a, &remote{settled: make(chan struct{})}, settle.Options{MaxAttempts: 5, Now: time.Now}, slog.New(slog.DiscardHandler))
		done := make(chan error, 1)
		began := time.Now()
		go func() { done <- settler.Run(4)(ctx) }()
		<-a.settled
		rate = float64(requests) / time.Since(began).Seconds()
		cancel()
		require.NoError(t, <-done)
		require.Equal(t, int64(1e6-requests), a.capacity.Remaining)
	})
	return rate
}

// With the latencies of AWS, a promotion's group handles one receive per four calls. With nine
// requests in each message, nine times as many requests are processed as with one.
func TestRateOfOnePromotion(t *testing.T) {
	t.Parallel()
	alone, packed := settlesPerSecond(t, 200, 1), settlesPerSecond(t, 1800, 9)
	t.Logf("%.0f requests/s in messages of one, %.0f in messages of nine", alone, packed)
	require.Greater(t, packed, 1500.0)
	require.InDelta(t, 9, packed/alone, 1)
}
