package handlers

import (
	"context"
	"net/http"
	"time"

	"github.com/maypok86/otter/v2"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/wire"
	"urr.guru/services/gateway/internal/edge"

	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

const (
	// eventTTL is how long an event or a promotion is cached. Before a sale everybody reloads the
	// event's page, and one call of the service serves all requests during this time.
	eventTTL  = 250 * time.Millisecond
	maxEvents = 4096
)

// EventHandlers serves the public view of single events, or of single promotions.
type EventHandlers struct {
	read   func(ctx context.Context, event string) (proto.Message, error)
	cached responseCache[string]
	reads  *batch.Coalescer[eventRead, cachedResponse]
}

// NewEventHandlers makes the handler of events. complete sets those fields of an event that only
// the gateway knows.
func NewEventHandlers(source ticketv1.EventServiceClient, complete func(*ticketv1.Event)) (*EventHandlers, error) {
	return newEvents(readEvent(source, complete), nil)
}

// NewPublicPromotions makes the handler of promotions.
func NewPublicPromotions(source ingestv1.IngestServiceClient) (*EventHandlers, error) {
	return newEvents(func(ctx context.Context, event string) (proto.Message, error) {
		return source.GetPromotion(ctx, &ingestv1.GetPromotionRequest{EventId: event})
	}, nil)
}

func readEvent(source ticketv1.EventServiceClient, complete func(*ticketv1.Event)) func(context.Context, string) (proto.Message, error) {
	return func(ctx context.Context, event string) (proto.Message, error) {
		m, err := source.GetEvent(ctx, &ticketv1.GetEventRequest{EventId: event})
		if err == nil {
			complete(m)
		}
		return m, err
	}
}

func newEvents(read func(ctx context.Context, event string) (proto.Message, error), clock otter.Clock) (*EventHandlers, error) {
	cached, err := newResponseCache(&otter.Options[string, cachedResponse]{
		MaximumSize: maxEvents, Clock: clock, ExpiryCalculator: otter.ExpiryWriting[string, cachedResponse](eventTTL),
	})
	if err != nil {
		return nil, err
	}
	h := &EventHandlers{read: read, cached: cached}
	h.reads = newSharedRead(h.readAndCache)
	return h, nil
}

// Get responds with an event, or with 304 if the client has this version.
func (h *EventHandlers) Get(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	return h.cached.serve(w, q, q.Param("event_id"), func(e eventRead) (cachedResponse, error) { return h.reads.Do(r.Context(), e) })
}

func (h *EventHandlers) readAndCache(ctx context.Context, event string) (cachedResponse, error) {
	m, err := h.read(ctx, event)
	if err != nil {
		return cachedResponse{}, err
	}
	body, err := wire.Marshal(m)
	if err != nil {
		return cachedResponse{}, err
	}
	return h.cached.store(event, body), nil
}

// Forget drops the cached response about an event that was changed through this gateway.
func (h *EventHandlers) Forget(event string) { h.cached.forget(event) }

func (h *EventHandlers) Close(ctx context.Context) error { return h.reads.Close(ctx) }
