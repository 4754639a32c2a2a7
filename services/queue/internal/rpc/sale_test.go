package rpc_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/errs"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// Tier 1 reads the sale of events that have no line yet. The read comes from the ticket service and
// creates no line.
func TestGetSale(t *testing.T) {
	f := setup(t)
	ask := func(event string) (bool, error) {
		res, err := f.visitors.GetSale(f.ctx(), &queuev1.GetSaleRequest{EventId: event})
		return res.GetClosed(), err
	}
	f.tickets.set(f.event, &ticketv1.LineSettings{EventId: f.event})
	closed, err := ask(f.event)
	require.NoError(t, err)
	require.False(t, closed)
	f.tickets.set(f.event, &ticketv1.LineSettings{EventId: f.event, Closed: true})
	closed, err = ask(f.event)
	require.NoError(t, err)
	require.True(t, closed)
	_, err = ask("unknown")
	require.ErrorIs(t, err, errs.ErrEventNotFound)
	f.tickets.setDown(true)
	_, err = ask(f.event)
	require.ErrorIs(t, err, errs.ErrUnavailable)
}

// Every answer has the status of the sale, and so has the stream to the gateways.
func TestPlacesAndWatchHaveSaleStatus(t *testing.T) {
	f := setup(t)
	opens := f.clock().Add(10 * time.Second)
	f.tickets.setSale(&ticketv1.SaleStatus{
		EventId: f.event, Status: "SCHEDULED", OpensAt: timestamppb.New(opens), ClosesAt: timestamppb.New(opens.Add(time.Minute)),
	})
	f.open(1)
	places := func(status, sale string) {
		t.Helper()
		for name, ask := range map[string]func(*queuev1.LineItem) *queuev1.LineResult{"check": f.check, "status": f.status, "heartbeat": f.heartbeat} {
			p := ask(f.item("a")).GetPlace()
			require.Equal(t, []string{status, sale}, []string{p.GetStatus(), p.GetSaleStatus()}, name)
		}
		stream, err := f.visitors.WatchLines(f.ctx(), &queuev1.WatchLinesRequest{})
		require.NoError(t, err)
		msg, err := stream.Recv()
		require.NoError(t, err)
		require.Equal(t, sale, msg.GetLines()[0].GetSaleStatus())
	}
	f.check(f.item("a"))
	places("queued", "SCHEDULED")
	line, err := f.admin.GetLine(f.ctx(), &queuev1.GetLineRequest{Caller: f.operator(), EventId: f.event})
	require.NoError(t, err)
	require.True(t, line.GetPaused(), "nobody is admitted before the sale")
	f.time.Set(opens)
	f.worker.Tick(f.ctx())
	places("active", "ON_SALE")
	f.advance(time.Minute)
	f.worker.Tick(f.ctx())
	places("none", "CLOSED")
}
