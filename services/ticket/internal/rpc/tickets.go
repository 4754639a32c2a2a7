package rpc

import (
	"context"

	"urr.guru/pkg/cursor"
	"urr.guru/pkg/rpc"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/ticket"
)

// Tickets serves the RPCs with which users see their tickets.
type Tickets struct {
	ticketv1.UnimplementedTicketServiceServer

	tickets *ticket.Service
}

// NewTickets makes a server that calls s for tickets.
func NewTickets(s *ticket.Service) *Tickets { return &Tickets{tickets: s} }

func (s *Tickets) ListMyTickets(ctx context.Context, req *ticketv1.ListMyTicketsRequest) (*ticketv1.ListMyTicketsResponse, error) {
	user, before, err := userAndCursor(req, req.GetCursor())
	if err != nil {
		return nil, err
	}
	list, next, err := s.tickets.List(ctx, user, pageLimit(req.GetLimit()), before)
	if err != nil {
		return nil, err
	}
	res := &ticketv1.ListMyTicketsResponse{Items: make([]*ticketv1.Ticket, len(list)), NextCursor: cursor.ID(next)}
	for i := range list {
		res.Items[i] = fromTicket(&list[i], s.tickets.Code(&list[i].Ticket))
	}
	return res, nil
}

func (s *Tickets) GetMyTicket(ctx context.Context, req *ticketv1.GetMyTicketRequest) (*ticketv1.Ticket, error) {
	user, id, err := userAndID(req, req.GetTicketId())
	if err != nil {
		return nil, err
	}
	t, err := s.tickets.Get(ctx, user, rpc.HasRole(req.GetCaller(), roleAdmin), id)
	if err != nil {
		return nil, err
	}
	return fromTicket(t, s.tickets.Code(&t.Ticket)), nil
}
