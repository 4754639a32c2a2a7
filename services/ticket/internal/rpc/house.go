package rpc

import (
	"context"

	"urr.guru/pkg/rpc"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/event"
)

func (s *EventAdmin) GetHouse(ctx context.Context, req *ticketv1.GetHouseRequest) (*ticketv1.House, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	return fromHouse(req.GetEventId())(s.events.House(ctx, req.GetEventId()))
}

func (s *EventAdmin) PutHouse(ctx context.Context, req *ticketv1.PutHouseRequest) (*ticketv1.House, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	change := event.HouseChange{Take: req.GetTake(), Release: req.GetRelease(), Standing: req.GetStanding()}
	return fromHouse(req.GetEventId())(s.events.PutHouse(ctx, req.GetEventId(), change))
}

func fromHouse(eventID string) func(event.House, error) (*ticketv1.House, error) {
	return func(h event.House, err error) (*ticketv1.House, error) {
		if err != nil {
			return nil, err
		}
		out := &ticketv1.House{EventId: eventID, SeatIds: h.SeatIDs}
		for _, sec := range h.Sections {
			out.Sections = append(out.Sections, &ticketv1.HouseSection{
				Section: sec.Name, Seated: sec.Seated, Capacity: sec.Capacity, Sold: sec.Sold, House: sec.House, Returning: sec.Returning, Comps: sec.Comps,
			})
		}
		return out, nil
	}
}
