package app

import (
	"cmp"
	"context"

	"google.golang.org/protobuf/proto"

	"urr.guru/services/gateway/internal/handlers"
	"urr.guru/services/gateway/internal/roomstate"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

// answered completes what passes through with what only the gateway knows, and does what follows from it.
type answered struct {
	rooms     *roomstate.Rooms
	seats     *handlers.Seats
	existence *handlers.EventExistence
}

// fill is an api.Answered.
func (a *answered) fill(_ context.Context, rpc string, m proto.Message) {
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
