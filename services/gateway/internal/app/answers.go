package app

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"google.golang.org/protobuf/proto"

	"urr.guru/services/gateway/internal/caller"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/handlers"
	"urr.guru/services/gateway/internal/roomstate"

	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

// openLineTimeout bounds the call that opens a new sale's line.
const openLineTimeout = 2 * time.Second

// answered completes what passes through with what only the gateway knows, and does what follows from it.
type answered struct {
	log       *slog.Logger
	rooms     *roomstate.Rooms
	seats     *handlers.Seats
	existence *handlers.EventExistence
	queue     queuev1.QueueServiceClient
}

// fill is an api.Answered.
func (a *answered) fill(ctx context.Context, rpc string, m proto.Message) {
	switch m := m.(type) {
	case *ticketv1.ListEventsResponse:
		for _, e := range m.GetItems() {
			a.waitingRoom(e)
		}
	case *ticketv1.Event:
		a.waitingRoom(m)
		switch rpc {
		case ticketv1.EventAdminService_CreateEvent_FullMethodName, ticketv1.EventAdminService_PutEvent_FullMethodName:
			a.seats.Forget(m.GetEventId())
			a.existence.Forget(m.GetEventId())
			a.openLine(ctx, m.GetEventId())
		}
	case *vwrv1.VwrStatus:
		// What an operator did here is in force here at once; the other gateways hear of it within a second.
		old := a.rooms.Get(m.GetEventId())
		a.rooms.Apply(&vwrv1.Counter{
			EventId: m.GetEventId(), Active: m.GetIsActive(), Round: m.GetActivatedAt(), Serving: m.GetServingCounter(),
			Issued: m.GetNextPosition(), Rate: cmp.Or(m.GetMeasuredRate(), old.Rate), ConfiguredRate: configuredRate(m, old.Configured),
		})
	}
}

func (a *answered) waitingRoom(e *ticketv1.Event) {
	e.WaitingRoom = &ticketv1.WaitingRoom{Active: a.rooms.Round(e.GetEventId()) != 0}
}

func configuredRate(m *vwrv1.VwrStatus, otherwise float64) float64 {
	if m.GetBatch() < 1 || m.GetIntervalSeconds() < 1 {
		return otherwise
	}
	return float64(m.GetBatch()) / float64(m.GetIntervalSeconds())
}

// openLine tells queue that the sale is new, so that its line does not begin with the pause of one that was lost. The event is committed
// by now, so a queue that does not answer must not make the operator's call fail: the line then begins with that pause, and a repeated
// PUT opens it.
func (a *answered) openLine(ctx context.Context, event string) {
	q := edge.RequestFrom(ctx)
	ctx, cancel := context.WithTimeout(caller.With(ctx, q.Caller()), openLineTimeout)
	defer cancel()
	if _, err := a.queue.OpenLine(ctx, &queuev1.OpenLineRequest{EventId: event}); err != nil {
		a.log.WarnContext(ctx, "line not opened", "event_id", event, "error", err.Error())
	}
}
