package live

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/wire"
	"urr.guru/services/gateway/internal/caller"
	"urr.guru/services/gateway/internal/roomstate"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
	gatewayv1 "urr.guru/proto/gen/urr/gateway/v1"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	statsv1 "urr.guru/proto/gen/urr/stats/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// readTimeout is the time-out of each call: a service that hangs must not delay the other figures.
const readTimeout = 800 * time.Millisecond

// Sources reads the live figures of an event from the services and from memory.
type Sources struct {
	Rooms  *roomstate.Rooms
	Line   queuev1.QueueAdminServiceClient
	Events ticketv1.EventServiceClient
	Stats  statsv1.StatsServiceClient
	Now    func() time.Time
}

// Read returns an event's figures as JSON, except those of services that do not answer in time.
func (s *Sources) Read(ctx context.Context, event string, operator *commonv1.Caller) []byte {
	ctx, cancel := context.WithTimeout(caller.With(ctx, operator), readTimeout)
	defer cancel()
	f := &gatewayv1.LiveFigures{}
	var places placeCounts
	var calls sync.WaitGroup
	calls.Go(func() { s.fillLineFigures(ctx, event, f) })
	calls.Go(func() { places = s.readPlaceCounts(ctx, event) })
	var counted *statsv1.OperatorEventStats
	calls.Go(func() { counted = s.readCounts(ctx, event) })
	s.fillRoomFigures(event, f)
	calls.Wait()
	s.fillSaleFigures(places, counted, f)
	f.At = timestamppb.New(s.Now())
	body, err := wire.Marshal(f)
	if err != nil { // cannot happen: numbers and a time
		return []byte("{}")
	}
	return body
}

// fillRoomFigures sets the figures of the waiting room from memory, if the event ever had a room.
func (s *Sources) fillRoomFigures(event string, f *gatewayv1.LiveFigures) {
	if state := s.Rooms.Get(event); state.Round != 0 {
		f.Serving, f.RoomWaiting = new(state.Serving), new(state.Waiting())
	}
}

func (s *Sources) fillLineFigures(ctx context.Context, event string, f *gatewayv1.LiveFigures) {
	line, err := s.Line.GetLine(ctx, &queuev1.GetLineRequest{EventId: event})
	if err == nil {
		f.Waiting, f.Active = new(line.GetWaiting()), new(line.GetActive())
	}
}

// placeCounts are the numbers of an event's seats and general admissions, in all and free.
type placeCounts struct {
	known, absent  bool // absent: the event has no sale, for example since it is a promotion
	capacity, free int64
}

func (s *Sources) readPlaceCounts(ctx context.Context, event string) (p placeCounts) {
	e, err := s.Events.GetEvent(ctx, &ticketv1.GetEventRequest{EventId: event})
	if err != nil {
		return placeCounts{absent: errors.Is(errs.From(err), errs.ErrEventNotFound)}
	}
	for _, section := range e.GetSections() {
		p.capacity += section.GetCapacity()
		p.free += section.GetFree()
	}
	p.known = true
	return p
}

func (s *Sources) readCounts(ctx context.Context, event string) *statsv1.OperatorEventStats {
	counted, err := s.Stats.GetEventStatsForOperators(ctx, &statsv1.GetEventStatsForOperatorsRequest{EventId: event})
	if err != nil {
		return nil
	}
	return counted
}

// fillSaleFigures sets the numbers of failures, sold places and held places. A place is held if it
// is neither free (ticket service) nor sold or given away (stats service, a moment behind).
func (s *Sources) fillSaleFigures(p placeCounts, counted *statsv1.OperatorEventStats, f *gatewayv1.LiveFigures) {
	if counted == nil {
		return
	}
	counts := counted.GetCounts()
	f.Failures = new(counts.GetRejected() + counted.GetRewards().GetFailed() + counted.GetRequests().GetFailed())
	if p.absent {
		return
	}
	f.Sold = new(counts.GetSeatsSold())
	if p.known {
		f.Holds = new(max(0, p.capacity-p.free-counts.GetSeatsSold()-counted.GetComps()))
	}
}
