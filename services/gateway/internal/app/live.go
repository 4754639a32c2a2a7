package app

import (
	"time"

	"urr.guru/services/gateway/internal/live"

	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	statsv1 "urr.guru/proto/gen/urr/stats/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// figures reads the live figures of events.
func (g *Gateway) figures(now func() time.Time) live.Read {
	s := &live.Sources{
		Rooms: g.Rooms, Line: queuev1.NewQueueAdminServiceClient(g.services.Queue), Events: ticketv1.NewEventServiceClient(g.services.Ticket),
		Stats: statsv1.NewStatsServiceClient(g.services.Stats), Now: now,
	}
	return s.Read
}
