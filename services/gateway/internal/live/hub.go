// Package live sends the figures of an event to the operators who watch them. It reads the figures of
// each watched event once a second, however many operators watch it.
package live

import (
	"context"
	"errors"
	"sync"
	"time"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/loop"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
)

const (
	// interval is the time between two reads of the figures of an event.
	interval = time.Second
	// maxListeners is the most streams of a gateway.
	maxListeners = 200
)

// ReadFunc returns an event's figures as JSON, on behalf of an operator, within a second.
type ReadFunc func(ctx context.Context, event string, operator *commonv1.Caller) []byte

// Hub has a feed of figures for every event that somebody watches. It is safe for concurrent use.
type Hub struct {
	read ReadFunc
	done chan struct{} // closed by End

	mu        sync.Mutex
	ended     bool
	listeners int
	feeds     map[string]*figuresFeed
	running   sync.WaitGroup
}

type figuresFeed struct {
	event string
	// caller is the latest listener, on whose behalf the figures are read.
	caller    *commonv1.Caller
	listeners map[*Listener]bool
	last      []byte
	stop      context.CancelFunc
}

// Listener receives the figures of an event from C, which has only the latest ones.
type Listener struct {
	C    <-chan []byte
	c    chan []byte
	feed *figuresFeed
	hub  *Hub
}

// NewHub makes a Hub without listeners.
func NewHub(read ReadFunc) *Hub {
	return &Hub{read: read, done: make(chan struct{}), feeds: make(map[string]*figuresFeed)}
}

// Listen adds a listener, which must call Leave. It fails with errs.ErrOverloaded if there are too
// many, and with errs.ErrUnavailable after End.
func (h *Hub) Listen(event string, operator *commonv1.Caller) (*Listener, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.ended:
		return nil, errs.ErrUnavailable.WithRetry(interval)
	case h.listeners >= maxListeners:
		return nil, errs.ErrOverloaded.WithRetry(10 * time.Second)
	}
	f := h.feeds[event]
	if f == nil {
		f = h.openFeed(event, operator)
	}
	l := &Listener{c: make(chan []byte, 1), feed: f, hub: h}
	l.C = l.c
	if f.last != nil {
		l.c <- f.last
	}
	f.listeners[l], f.caller = true, operator
	h.listeners++
	listenersGauge.Set(float64(h.listeners))
	return l, nil
}

func (h *Hub) openFeed(event string, operator *commonv1.Caller) *figuresFeed {
	f := &figuresFeed{event: event, caller: operator, listeners: make(map[*Listener]bool)}
	var ctx context.Context
	ctx, f.stop = context.WithCancel(context.Background())
	h.feeds[event] = f
	h.running.Go(func() {
		_ = loop.Every(ctx, interval, func(ctx context.Context) { h.publish(f, h.read(ctx, event, h.callerOf(f))) })
	})
	return f
}

func (h *Hub) callerOf(f *figuresFeed) *commonv1.Caller {
	h.mu.Lock()
	defer h.mu.Unlock()
	return f.caller
}

// publish sends figures to all listeners, in place of figures that a listener has not received yet.
func (h *Hub) publish(f *figuresFeed, figures []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f.last = figures
	for l := range f.listeners {
		select {
		case <-l.c:
		default:
		}
		l.c <- figures // there is room: only this function sends
	}
}

func (l *Listener) Leave() {
	h := l.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if !l.feed.listeners[l] {
		return
	}
	delete(l.feed.listeners, l)
	h.listeners--
	listenersGauge.Set(float64(h.listeners))
	if len(l.feed.listeners) == 0 {
		l.feed.stop()
		delete(h.feeds, l.feed.event)
	}
}

// Done returns a channel that is closed when all listeners must leave.
func (h *Hub) Done() <-chan struct{} { return h.done }

// End asks all listeners to leave, and refuses new ones.
func (h *Hub) End() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		h.ended = true
		close(h.done)
	}
}

// Close stops all feeds and waits for the reads in progress.
func (h *Hub) Close(ctx context.Context) error {
	h.End()
	h.mu.Lock()
	for _, f := range h.feeds {
		f.stop()
	}
	h.mu.Unlock()
	if loop.Wait(ctx, &h.running) != nil {
		return errors.New("live figures are still being read")
	}
	return nil
}
