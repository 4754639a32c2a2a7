package handlers

import (
	"context"
	"net/http"
	"time"

	"github.com/maypok86/otter/v2"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/wire"
	"urr.guru/services/gateway/internal/edge"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

const (
	// eventTTL is the maximum age of a cached event. Before a sale everybody reloads the event's page,
	// and one read of ticket serves all requests during this time.
	eventTTL  = 250 * time.Millisecond
	maxEvents = 4096
)

// EventHandlers serves the public view of single events.
type EventHandlers struct {
	source   ticketv1.EventServiceClient
	complete func(*ticketv1.Event)
	cached   responseCache[string]
	reads    *batch.Coalescer[eventRead, cachedResponse]
}

// NewEventHandlers makes the handler of events. complete sets the members of an event that only the
// gateway knows.
func NewEventHandlers(source ticketv1.EventServiceClient, complete func(*ticketv1.Event)) (*EventHandlers, error) {
	return newEvents(source, complete, nil)
}

func newEvents(source ticketv1.EventServiceClient, complete func(*ticketv1.Event), clock otter.Clock) (*EventHandlers, error) {
	cached, err := newResponseCache(&otter.Options[string, cachedResponse]{
		MaximumSize: maxEvents, Clock: clock, ExpiryCalculator: otter.ExpiryWriting[string, cachedResponse](eventTTL),
	})
	if err != nil {
		return nil, err
	}
	h := &EventHandlers{source: source, complete: complete, cached: cached}
	h.reads = newSharedRead(h.readEvent)
	return h, nil
}

// Get responds with an event, or with 304 if the client has this version.
func (h *EventHandlers) Get(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	return h.cached.serve(w, q, q.Param("event_id"), func(e eventRead) (cachedResponse, error) { return h.reads.Do(r.Context(), e) })
}

func (h *EventHandlers) readEvent(ctx context.Context, event string) (cachedResponse, error) {
	m, err := h.source.GetEvent(ctx, &ticketv1.GetEventRequest{EventId: event})
	if err != nil {
		return cachedResponse{}, err
	}
	h.complete(m)
	body, err := wire.Marshal(m)
	if err != nil {
		return cachedResponse{}, err
	}
	return h.cached.store(event, body), nil
}

// Forget drops the cached response about an event that was changed through this gateway.
func (h *EventHandlers) Forget(event string) { h.cached.forget(event) }

func (h *EventHandlers) Close(ctx context.Context) error { return h.reads.Close(ctx) }
