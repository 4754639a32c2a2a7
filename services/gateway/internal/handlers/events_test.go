package handlers

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/testkit"
	"urr.guru/services/gateway/internal/edge"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// countedEvents serves GetEvent and counts its calls. title is the title of the only event.
type countedEvents struct {
	ticketv1.EventServiceClient

	reads atomic.Int64
	title atomic.Value
}

func (c *countedEvents) GetEvent(_ context.Context, in *ticketv1.GetEventRequest, _ ...grpc.CallOption) (*ticketv1.Event, error) {
	c.reads.Add(1)
	if in.GetEventId() != "show" {
		return nil, errs.ErrEventNotFound
	}
	title, _ := c.title.Load().(string)
	return &ticketv1.Event{EventId: "show", Title: title}, nil
}

func TestEventsAreReadOncePerQuarterOfASecond(t *testing.T) {
	t.Parallel()
	source, clock := &countedEvents{}, testkit.NewClock(time.Date(2026, time.March, 1, 10, 0, 0, 0, time.UTC))
	source.title.Store("First")
	h, err := newEvents(readEvent(source, func(e *ticketv1.Event) { e.WaitingRoom = &ticketv1.WaitingRoom{Active: true} }), manualClock{clock})
	require.NoError(t, err)
	table, err := edge.NewTable(&edge.Route{ID: "event", Method: http.MethodGet, Pattern: "/events/{event_id}", Access: edge.Public, Handler: h.Get})
	require.NoError(t, err)
	get := func(id, etag string) (*httptest.ResponseRecorder, error) {
		m, err := table.Match(http.MethodGet, "/events/"+id)
		require.NoError(t, err)
		header := http.Header{}
		if etag != "" {
			header.Set("If-None-Match", etag)
		}
		rec := httptest.NewRecorder()
		return rec, h.Get(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody), &edge.Request{Match: m, Header: header})
	}
	first, err := get("show", "")
	require.NoError(t, err)
	require.Contains(t, first.Body.String(), `"title":"First"`)
	require.Contains(t, first.Body.String(), `"waitingRoom":{"active":true}`)

	source.title.Store("Second")
	clock.Advance(eventTTL - time.Millisecond)
	again, err := get("show", first.Header().Get("Etag"))
	require.NoError(t, err)
	require.Equal(t, http.StatusNotModified, again.Code)
	require.EqualValues(t, 1, source.reads.Load())

	clock.Advance(2 * time.Millisecond)
	next, err := get("show", first.Header().Get("Etag"))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, next.Code)
	require.Contains(t, next.Body.String(), `"title":"Second"`)
	require.NotEqual(t, first.Header().Get("Etag"), next.Header().Get("Etag"))

	source.title.Store("Third")
	h.Forget("show")
	changed, err := get("show", "")
	require.NoError(t, err)
	require.Contains(t, changed.Body.String(), `"title":"Third"`, "changed through this gateway")

	absent := func() {
		_, err := get("absent", "")
		require.ErrorIs(t, err, errs.ErrEventNotFound)
	}
	absent()
	clock.Advance(900 * time.Millisecond)
	absent()
	require.EqualValues(t, 4, source.reads.Load(), "known to be absent for a second")
	clock.Advance(200 * time.Millisecond)
	absent()
	h.Forget("absent")
	absent()
	require.EqualValues(t, 6, source.reads.Load())
	require.NoError(t, h.Close(t.Context()))
}
