package ticket_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc/rpctest"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/stats/internal/ticket"
)

// events is a fake that has the event "paris", and "old" without a time zone. It fails for "down".
type events struct {
	ticketv1.UnimplementedEventServiceServer
	calls atomic.Int64
}

func (e *events) GetEventInfo(_ context.Context, req *ticketv1.GetEventInfoRequest) (*ticketv1.EventInfo, error) {
	e.calls.Add(1)
	zone := "Europe/Paris"
	switch req.GetEventId() {
	case "paris":
		return &ticketv1.EventInfo{TimeZone: &zone}, nil
	case "old":
		return &ticketv1.EventInfo{}, nil
	case "down":
		return nil, errs.ErrUnavailable
	default:
		return nil, errs.ErrEventNotFound
	}
}

func TestZonesOfEvents(t *testing.T) {
	t.Parallel()
	e, now := &events{}, time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	conn := rpctest.Serve(t, func(r grpc.ServiceRegistrar) { ticketv1.RegisterEventServiceServer(r, e) })
	zones := ticket.NewZones(conn, func() time.Time { return now })
	want := map[string]string{"": "Asia/Seoul", "paris": "Europe/Paris", "old": "Asia/Seoul", "campaign": "Asia/Seoul"}
	for range 2 {
		got, err := zones.ZonesOf(t.Context(), []string{"", "paris", "old", "campaign"})
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.EqualValues(t, 3, e.calls.Load(), "they are remembered")
	now = now.Add(time.Minute)
	_, err := zones.ZonesOf(t.Context(), []string{"paris"})
	require.NoError(t, err)
	require.EqualValues(t, 4, e.calls.Load(), "for a minute")

	_, err = zones.ZonesOf(t.Context(), []string{"paris", "down"})
	require.ErrorIs(t, errs.From(err), errs.ErrUnavailable)
}
