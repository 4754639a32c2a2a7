// Package seats tells browsers which seats of an event were taken or freed. A gateway reads the seats
// of each event that has readers (open streams) twice a second, however many readers there are.
package seats

import (
	"context"
	"errors"
	"sync"
	"time"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/loop"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

const (
	// interval is the time between two reads of the seats of an event.
	interval = 500 * time.Millisecond
	// maxReaders is the most streams of a gateway, 34 KB each, and maxPerUser the most of one user,
	// who has one for each visible seat map. Browsers that get no stream poll instead.
	maxReaders = 5000
	maxPerUser = 4
	// maxFeeds is the most events whose seats are kept in memory.
	maxFeeds = 128
	// idleFor is how long the states of an event without readers are kept for readers who connect
	// again.
	idleFor = 2 * time.Minute
	// readTimeout is the time-out of a read of the seats.
	readTimeout = 2 * time.Second
	// staleAfter is how long reads of the seats may fail before the streams end. Browsers then poll,
	// and get the error.
	staleAfter = 10 * time.Second
)

// State says which seats of an event are free at some time.
type State struct {
	// Version is the ETag of JSON, without quotes. All gateways have the same for the same seats.
	Version string
	Seats   *ticketv1.Availability
	JSON    []byte
}

// ReadFunc returns the state of an event on behalf of a reader.
type ReadFunc func(ctx context.Context, event string, reader *commonv1.Caller) (State, error)

// Hub has a feed for every event with readers. It is safe for concurrent use.
type Hub struct {
	// Interval is the time between two reads of an event.
	Interval time.Duration

	read ReadFunc
	done chan struct{} // closed by End

	mu      sync.Mutex
	ended   bool
	readers int
	users   map[string]int // the streams of a user
	feeds   map[string]*seatFeed
	running sync.WaitGroup
}

// NewHub makes a Hub without readers.
func NewHub(read ReadFunc) *Hub {
	return &Hub{Interval: interval, read: read, done: make(chan struct{}), users: make(map[string]int), feeds: make(map[string]*seatFeed)}
}

// Reader is one open stream. It knows which version of the seats the browser has, "" for none.
type Reader struct {
	hub     *Hub
	feed    *seatFeed
	fresh   <-chan struct{} // closed once the seats were read, or could not be
	user    string
	version string
	left    bool
}

// Listen adds a reader who has a version of the seats, "" for none. The caller must call Leave. It
// fails with errs.ErrOverloaded or errs.ErrRateLimited if there are too many readers, and with
// errs.ErrUnavailable after End.
func (h *Hub) Listen(event string, reader *commonv1.Caller, version string) (*Reader, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f, user := h.feeds[event], reader.GetUserId()
	switch {
	case h.ended:
		return nil, errs.ErrUnavailable.WithRetry(time.Second)
	case h.users[user] >= maxPerUser:
		return nil, errs.ErrRateLimited.WithRetry(10 * time.Second)
	case h.readers >= maxReaders, f == nil && !h.makeRoom():
		return nil, errs.ErrOverloaded.WithRetry(time.Minute)
	}
	if f == nil {
		f = newFeed(event)
		h.feeds[event] = f
	}
	f.caller = reader
	if f.readers++; f.readers == 1 {
		h.startReading(f)
	}
	h.readers++
	h.users[user]++
	readersGauge.Set(float64(h.readers))
	return &Reader{hub: h, feed: f, fresh: f.fresh, user: user, version: version}, nil
}

// startReading starts to read the seats of a feed's event periodically. The caller holds h.mu.
func (h *Hub) startReading(f *seatFeed) {
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	if f.forget != nil {
		f.forget.Stop()
	}
	f.awaitRead()
	h.running.Go(func() {
		_ = loop.Every(ctx, h.Interval, func(ctx context.Context) { h.readAndPublish(ctx, f) }) // never fails
	})
}

// makeRoom reports whether there is room for another event. If not, it first tries to forget an
// event without readers. The caller holds h.mu.
func (h *Hub) makeRoom() bool {
	if len(h.feeds) < maxFeeds {
		return true
	}
	for event, f := range h.feeds {
		if f.readers == 0 {
			delete(h.feeds, event)
			return true
		}
	}
	return false
}

// readAndPublish reads the seats of a feed's event and publishes them. A failed read ends the feed
// if mustEnd says so.
func (h *Hub) readAndPublish(ctx context.Context, f *seatFeed) {
	h.mu.Lock()
	reader := f.caller
	h.mu.Unlock()
	read, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	s, err := h.read(read, f.event, reader)
	switch {
	case ctx.Err() != nil: // the feed was stopped: a newer read may have published
	case err == nil:
		f.publish(s, time.Now())
	case f.mustEnd(err, time.Now()):
		h.mu.Lock()
		f.stop()
		h.removeFeed(f)
		h.mu.Unlock()
		f.endWith(err)
	}
}

// removeFeed forgets a feed, so that the next reader opens another one. The caller holds h.mu.
func (h *Hub) removeFeed(f *seatFeed) {
	if h.feeds[f.event] == f {
		delete(h.feeds, f.event)
	}
}

// Leave removes the reader from its feed. The seats of an event without readers are no longer read.
func (r *Reader) Leave() {
	h := r.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.left {
		return
	}
	r.left = true
	h.readers--
	readersGauge.Set(float64(h.readers))
	if h.users[r.user]--; h.users[r.user] == 0 {
		delete(h.users, r.user)
	}
	f := r.feed
	if f.readers--; f.readers > 0 {
		return
	}
	f.stop()
	f.forget = time.AfterFunc(idleFor, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if f.readers == 0 {
			h.removeFeed(f)
		}
	})
}

// Done returns a channel that is closed when all readers must leave.
func (h *Hub) Done() <-chan struct{} { return h.done }

// End asks all readers to leave, and refuses new ones.
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
		return errors.New("seats are still being read")
	}
	return nil
}
