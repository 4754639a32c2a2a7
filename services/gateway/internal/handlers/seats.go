package handlers

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/maypok86/otter/v2"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/rpc/batchrpc"
	"urr.guru/pkg/wire"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/language"
	"urr.guru/services/gateway/internal/seats"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

const (
	// layoutTTL is how long a seat layout is cached. It changes only before the event's sale opens.
	layoutTTL  = 5 * time.Second
	maxLayouts = 256
)

// SeatHandlers serves the seat map and makes holds.
type SeatHandlers struct {
	layouts   responseCache[string]
	maps      *batch.Coalescer[eventRead, *ticketv1.SeatMap]
	available *availability
	holdSeats *batch.Coalescer[*ticketv1.HoldSeatsItem, *ticketv1.Reservation]
	holdBest  *batch.Coalescer[*ticketv1.HoldBestItem, *ticketv1.Reservation]
	holds     *backlog // limits the calls of holdSeats and holdBest in progress
}

// NewSeatHandlers makes the handlers of seats and holds.
func NewSeatHandlers(events ticketv1.EventServiceClient, holds ticketv1.HoldServiceClient) (*SeatHandlers, error) {
	cache, err := newResponseCache(&otter.Options[string, cachedResponse]{
		MaximumSize: maxLayouts, ExpiryCalculator: otter.ExpiryWriting[string, cachedResponse](layoutTTL),
	})
	if err != nil {
		return nil, err
	}
	available, err := newAvailability(events, nil)
	if err != nil {
		return nil, err
	}
	return &SeatHandlers{
		layouts: cache, available: available,
		holds: newBacklog(time.Now),
		maps: newSharedRead(func(ctx context.Context, event string) (*ticketv1.SeatMap, error) {
			return events.GetSeatMap(ctx, &ticketv1.GetSeatMapRequest{EventId: event})
		}),
		holdSeats: batch.NewItems(batchConfig(callTimeout), batchrpc.Call(holds.HoldSeats, func(items []*ticketv1.HoldSeatsItem) *ticketv1.HoldSeatsRequest {
			return &ticketv1.HoldSeatsRequest{Items: items}
		}, (*ticketv1.HoldResult).GetReservation)),
		holdBest: batch.NewItems(batchConfig(callTimeout), batchrpc.Call(holds.HoldBest, func(items []*ticketv1.HoldBestItem) *ticketv1.HoldBestRequest {
			return &ticketv1.HoldBestRequest{Items: items}
		}, (*ticketv1.HoldResult).GetReservation)),
	}, nil
}

func (h *SeatHandlers) Layout(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	l, ok := h.layouts.GetIfPresent(q.Event)
	if !ok {
		m, err := h.maps.Do(r.Context(), eventRead{q.Event, q.Caller()})
		if err != nil {
			return err
		}
		body, err := wire.Marshal(m)
		if err != nil {
			return err
		}
		l = cachedResponse{etag: []string{quotedETag(m.GetEtag(), "")}, body: body}
		h.layouts.Set(q.Event, l)
	}
	writeTagged(w, q.Header, l.etag, layoutCacheControl, l.body)
	return nil
}

// layoutCacheControl lets a browser keep a layout, which does not change during the sale.
var layoutCacheControl = []string{"private, max-age=3600, immutable"}

func (h *SeatHandlers) Forget(event string) { h.layouts.Invalidate(event) }

func (h *SeatHandlers) Availability(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	return h.available.serve(w, r, q)
}

// ReadSeats returns which seats of an event are free, for the hub of package seats. It shares its
// calls of the ticket service with Availability.
func (h *SeatHandlers) ReadSeats(ctx context.Context, event string, reader *commonv1.Caller) (seats.State, error) {
	free, err := h.available.get(ctx, event, reader)
	if err != nil {
		return seats.State{}, err
	}
	body := &free.json.plain
	return seats.State{Version: strings.Trim(body.etag[0], `"`), Seats: free.source, JSON: body.body}, nil
}

func quotedETag(etag, suffix string) string {
	return `"` + strings.Trim(etag, `"`) + suffix + `"`
}

// Refusal returns errs.ErrOverloaded while more holds are in progress than the ticket service
// completes in time, else nil.
func (h *SeatHandlers) Refusal() error { return h.holds.refusal() }

func (h *SeatHandlers) Reserve(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	item, _ := q.Message.(*ticketv1.HoldSeatsItem) // the route's message
	item.Caller = callerWithLanguage(q)
	return h.respondWithHold(w, q, func() (*ticketv1.Reservation, error) { return h.holdSeats.Do(r.Context(), item) })
}

// callerWithLanguage returns the caller with the language for e-mails to the buyer.
func callerWithLanguage(q *edge.Request) *commonv1.Caller {
	c := q.Caller()
	c.Language = language.Of(q.Header)
	return c
}

// ReserveBest holds the best free seats, or a number of general admissions.
func (h *SeatHandlers) ReserveBest(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	item, _ := q.Message.(*ticketv1.HoldBestItem) // the route's message
	item.Caller = callerWithLanguage(q)
	return h.respondWithHold(w, q, func() (*ticketv1.Reservation, error) { return h.holdBest.Do(r.Context(), item) })
}

func (h *SeatHandlers) respondWithHold(w http.ResponseWriter, q *edge.Request, call func() (*ticketv1.Reservation, error)) error {
	var res *ticketv1.Reservation
	err := h.holds.run(func() (err error) {
		res, err = call()
		return err
	})
	if err != nil {
		return withRedirect(err, q.Event)
	}
	// The URL under /my needs no slot: checkout may last longer than the slot.
	w.Header().Set("Location", "/api/v1/my/reservations/"+res.GetReservationId())
	return WriteMessage(w, http.StatusCreated, res)
}

func (h *SeatHandlers) Close(ctx context.Context) error {
	return closeAll(ctx, h.maps, h.available.reads, h.holdSeats, h.holdBest)
}
