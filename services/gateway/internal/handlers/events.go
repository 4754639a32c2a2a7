package handlers

import (
	"context"
	"hash/fnv"
	"net/http"
	"strconv"
	"time"

	"github.com/maypok86/otter/v2"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/wire"
	"urr.guru/services/gateway/internal/edge"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

const (
	// eventTTL is how much older than ticket's answer an event may be. Before a sale everybody
	// reloads its page, and one read serves all who come within this time.
	eventTTL  = 250 * time.Millisecond
	maxEvents = 4096
)

// publicEvent is the response about an event, the same for everybody.
type publicEvent struct {
	etag string
	body []byte
}

// Events serves the public view of single events.
type Events struct {
	source   ticketv1.EventServiceClient
	complete func(*ticketv1.Event)
	cached   *otter.Cache[string, publicEvent]
	reads    *batch.Coalescer[eventRead, publicEvent]
}

// NewEvents makes the handler of events; complete sets what only the gateway knows about one.
func NewEvents(source ticketv1.EventServiceClient, complete func(*ticketv1.Event)) (*Events, error) {
	return newEvents(source, complete, nil)
}

func newEvents(source ticketv1.EventServiceClient, complete func(*ticketv1.Event), clock otter.Clock) (*Events, error) {
	cached, err := otter.New(&otter.Options[string, publicEvent]{
		MaximumSize: maxEvents, Clock: clock, ExpiryCalculator: otter.ExpiryWriting[string, publicEvent](eventTTL),
	})
	if err != nil {
		return nil, err
	}
	h := &Events{source: source, complete: complete, cached: cached}
	h.reads = newSharedRead(h.read)
	return h, nil
}

// Get responds with an event, or with 304 if the client has this version. Refusals are not kept.
func (h *Events) Get(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	id := q.Param("event_id")
	e, ok := h.cached.GetIfPresent(id)
	if !ok {
		var err error
		if e, err = h.reads.Do(r.Context(), eventRead{id, q.Caller()}); err != nil {
			return err
		}
	}
	writeTagged(w, q.Header, e.etag, shared, e.body)
	return nil
}

// read asks ticket for all requests that share a call.
func (h *Events) read(ctx context.Context, event string) (publicEvent, error) {
	m, err := h.source.GetEvent(ctx, &ticketv1.GetEventRequest{EventId: event})
	if err != nil {
		return publicEvent{}, err
	}
	h.complete(m)
	body, err := wire.Marshal(m)
	if err != nil {
		return publicEvent{}, err
	}
	sum := fnv.New64a()
	_, _ = sum.Write(body) // never fails
	e := publicEvent{etag: quoted(strconv.FormatUint(sum.Sum64(), 36), ""), body: body}
	h.cached.Set(event, e)
	return e, nil
}

// Forget drops an event that was changed through this gateway.
func (h *Events) Forget(event string) { h.cached.Invalidate(event) }

// Close waits for the calls in flight.
func (h *Events) Close(ctx context.Context) error { return h.reads.Close(ctx) }
