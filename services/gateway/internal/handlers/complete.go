package handlers

import (
	"cmp"
	"context"

	"google.golang.org/protobuf/proto"

	"urr.guru/services/gateway/internal/roomstate"

	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

// Completer sets those fields of pass-through responses that only the gateway knows. After an
// operator's call it also updates this gateway's state from the response.
type Completer struct {
	Rooms     *roomstate.Rooms
	Seats     *SeatHandlers
	Existence *EventExistence
	Events    *EventHandlers
	// Promotions is nil if the ingest service is not deployed.
	Promotions *EventHandlers
}

// Complete completes m, the response of an RPC, according to its type. It is an api.CompleteFunc.
func (c *Completer) Complete(_ context.Context, rpc string, m proto.Message) {
	switch m := m.(type) {
	case *ticketv1.ListEventsResponse:
		for _, e := range m.GetItems() {
			SetWaitingRoom(c.Rooms, e)
		}
	case *ticketv1.Event:
		SetWaitingRoom(c.Rooms, m)
		switch rpc {
		case ticketv1.EventAdminService_CreateEvent_FullMethodName, ticketv1.EventAdminService_PutEvent_FullMethodName:
			c.Seats.Forget(m.GetEventId())
			c.Existence.Forget(m.GetEventId())
			c.Events.Forget(m.GetEventId())
		}
	case *ticketv1.EventState:
		c.Events.Forget(m.GetEventId())
	case *ingestv1.Promotion: // of an operator's call
		c.Promotions.Forget(m.GetEventId())
	case *vwrv1.VwrStatus:
		// The other gateways receive the change within a second.
		old := c.Rooms.Get(m.GetEventId())
		rate, configured := m.GetMeasuredRate(), configuredRate(m, old.Configured)
		if configured == old.Configured { // else the rate measured under the old settings does not apply
			rate = cmp.Or(rate, old.Rate)
		}
		c.Rooms.ApplyCounter(&vwrv1.Counter{
			EventId: m.GetEventId(), Active: m.GetIsActive(), Round: m.GetActivatedAt(), Serving: m.GetServingCounter(),
			Issued: m.GetNextPosition(), Rate: rate, ConfiguredRate: configured,
			Lobby: m.GetLobby(), ProofOfWork: m.GetProofOfWork(), SignIn: m.GetSignIn(), Next: m.GetNext(),
			OpenedAt: cmp.Or(m.GetLobby().GetStartsAt(), m.GetActivatedAt()/1000), SpreadMs: m.GetSpreadMs(),
		})
	}
}

// SetWaitingRoom sets whether an event has an active waiting room.
func SetWaitingRoom(rooms *roomstate.Rooms, e *ticketv1.Event) {
	e.WaitingRoom = &ticketv1.WaitingRoom{Active: rooms.ActiveRound(e.GetEventId()) != 0}
}

func configuredRate(m *vwrv1.VwrStatus, fallback float64) float64 {
	if m.GetBatch() < 1 || m.GetIntervalSeconds() < 1 {
		return fallback
	}
	return float64(m.GetBatch()) / float64(m.GetIntervalSeconds())
}
