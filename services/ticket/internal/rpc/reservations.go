package rpc

import (
	"context"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/emptypb"

	"urr.guru/pkg/cursor"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/reservation"
)

// Reservations serves the RPCs with which users see and cancel their reservations.
type Reservations struct {
	ticketv1.UnimplementedReservationServiceServer

	reservations *reservation.Service
}

// NewReservations makes a server that calls s for reservations.
func NewReservations(s *reservation.Service) *Reservations { return &Reservations{reservations: s} }

func (s *Reservations) GetReservation(ctx context.Context, req *ticketv1.GetReservationRequest) (*ticketv1.Reservation, error) {
	r, err := s.ownReservation(ctx, req)
	if err != nil {
		return nil, err
	}
	if r.EventID != req.GetCaller().GetEventId() {
		return nil, event.ErrWrongEvent
	}
	return fromReservation(r), nil
}

func (s *Reservations) GetMyReservation(ctx context.Context, req *ticketv1.GetReservationRequest) (*ticketv1.Reservation, error) {
	r, err := s.ownReservation(ctx, req)
	if err != nil {
		return nil, err
	}
	return fromReservation(r), nil
}

func (s *Reservations) ownReservation(ctx context.Context, req *ticketv1.GetReservationRequest) (*reservation.Reservation, error) {
	user, id, err := userAndID(req, req.GetReservationId())
	if err != nil {
		return nil, err
	}
	return s.reservations.Get(ctx, user, id)
}

func (s *Reservations) CancelReservation(ctx context.Context, req *ticketv1.CancelReservationRequest) (*emptypb.Empty, error) {
	if req.GetCaller().GetEventId() == "" {
		return nil, event.ErrWrongEvent
	}
	return s.cancel(ctx, req, req.GetCaller().GetEventId())
}

func (s *Reservations) CancelMyReservation(ctx context.Context, req *ticketv1.CancelReservationRequest) (*emptypb.Empty, error) {
	return s.cancel(ctx, req, "")
}

func (s *Reservations) cancel(ctx context.Context, req *ticketv1.CancelReservationRequest, eventID string) (*emptypb.Empty, error) {
	user, id, err := userAndID(req, req.GetReservationId())
	if err != nil {
		return nil, err
	}
	if err := s.reservations.Cancel(ctx, user, eventID, id); err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, nil
}

func (s *Reservations) ListMyReservations(
	ctx context.Context, req *ticketv1.ListMyReservationsRequest,
) (*ticketv1.ListMyReservationsResponse, error) {
	user, before, err := userAndCursor(req, req.GetCursor())
	if err != nil {
		return nil, err
	}
	list, next, err := s.reservations.List(ctx, user, pageLimit(req.GetLimit()), before)
	if err != nil {
		return nil, err
	}
	res := &ticketv1.ListMyReservationsResponse{Items: make([]*ticketv1.Reservation, len(list)), NextCursor: cursor.ID(next)}
	for i := range list {
		res.Items[i] = fromReservation(&list[i])
	}
	return res, nil
}

// userAndID returns the signed-in user of a request, and the parsed id.
func userAndID(req any, idText string) (user string, id uuid.UUID, err error) {
	if user, err = rpc.UserFrom(req); err == nil {
		id, err = parseID(idText)
	}
	return user, id, err
}

// userAndCursor returns the signed-in user of a request for a list, and the id in its cursor.
func userAndCursor(req any, text string) (user string, before uuid.UUID, err error) {
	if user, err = rpc.UserFrom(req); err == nil {
		before, err = cursor.ParseID(text)
	}
	return user, before, err
}

func parseID(s string) (uuid.UUID, error) {
	id, err := uuid.Parse(s)
	if err != nil {
		return uuid.Nil, errs.ErrInvalidID.Wrap(err)
	}
	return id, nil
}
