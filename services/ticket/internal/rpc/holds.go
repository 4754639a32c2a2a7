package rpc

import (
	"context"
	"slices"
	"strconv"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/rpc/batchrpc"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/reservation"
)

// maxPlaces is the most places of one request. No event may allow a user more places than that.
const maxPlaces = 1000

// Holder holds places for users. It limits how many requests run or wait, and refuses more.
type Holder interface {
	HoldSeats(ctx context.Context, req reservation.SeatsRequest) (*reservation.Reservation, error)
	HoldBest(ctx context.Context, req reservation.BestRequest) (*reservation.Reservation, error)
}

var _ Holder = (*reservation.Service)(nil)

// Holds serves the RPCs that hold places. A call has several items, which do not affect each other.
type Holds struct {
	ticketv1.UnimplementedHoldServiceServer

	holder Holder
}

// NewHolds makes a server that calls h to hold places.
func NewHolds(h Holder) *Holds { return &Holds{holder: h} }

func (s *Holds) HoldSeats(ctx context.Context, req *ticketv1.HoldSeatsRequest) (*ticketv1.HoldResponse, error) {
	hold := func(ctx context.Context, item *ticketv1.HoldSeatsItem) (*reservation.Reservation, error) {
		r, err := toSeatsRequest(item)
		if err != nil {
			return nil, err
		}
		return s.holder.HoldSeats(ctx, r)
	}
	return &ticketv1.HoldResponse{Results: batchrpc.PerItem(ctx, req.GetItems(), hold, holdResult)}, nil
}

func (s *Holds) HoldBest(ctx context.Context, req *ticketv1.HoldBestRequest) (*ticketv1.HoldResponse, error) {
	hold := func(ctx context.Context, item *ticketv1.HoldBestItem) (*reservation.Reservation, error) {
		r, err := toBestRequest(item)
		if err != nil {
			return nil, err
		}
		return s.holder.HoldBest(ctx, r)
	}
	return &ticketv1.HoldResponse{Results: batchrpc.PerItem(ctx, req.GetItems(), hold, holdResult)}, nil
}

func holdResult(r *reservation.Reservation, err error) *ticketv1.HoldResult {
	countHold(err)
	if err != nil {
		return &ticketv1.HoldResult{Result: &ticketv1.HoldResult_Problem{Problem: errs.ToProblem(err)}}
	}
	return &ticketv1.HoldResult{Result: &ticketv1.HoldResult_Reservation{Reservation: fromReservation(r)}}
}

func toSeatsRequest(item *ticketv1.HoldSeatsItem) (reservation.SeatsRequest, error) {
	user, err := userOfItem(item.GetCaller(), item.GetEventId())
	if err != nil {
		return reservation.SeatsRequest{}, err
	}
	seats := item.GetSeatIds()
	if len(seats) < 1 || len(seats) > maxPlaces {
		return reservation.SeatsRequest{}, invalidField("seatIds", "must have between 1 and 1000 members")
	}
	for i, id := range seats {
		if !ids.ValidSeat(id) {
			return reservation.SeatsRequest{}, errs.ErrInvalidID.WithFields(
				errs.Field{Path: "seatIds[" + strconv.Itoa(i) + "]", Message: "is not a seat id"})
		}
	}
	sorted := slices.Sorted(slices.Values(seats))
	if len(slices.Compact(slices.Clone(sorted))) != len(seats) {
		return reservation.SeatsRequest{}, invalidField("seatIds", "must not name a seat twice")
	}
	key, err := idempotency.New(user, "HoldSeats", item.GetCaller().GetIdempotencyKey(), append([]string{item.GetEventId()}, sorted...)...)
	if err != nil {
		return reservation.SeatsRequest{}, err
	}
	return reservation.SeatsRequest{
		EventID: item.GetEventId(), UserID: user, Contact: toContact(item.GetCaller()), SlotID: item.GetCaller().GetSlotId(), SeatIDs: seats,
		IdempotencyKey: key, PresaleRight: reservation.PresaleRight{Claims: item.GetCaller().GetClaims()},
	}, nil
}

func toBestRequest(item *ticketv1.HoldBestItem) (reservation.BestRequest, error) {
	user, err := userOfItem(item.GetCaller(), item.GetEventId())
	if err != nil {
		return reservation.BestRequest{}, err
	}
	if !ids.ValidSectionOrRow(item.GetSection()) {
		return reservation.BestRequest{}, errs.ErrInvalidID.WithFields(errs.Field{Path: "section", Message: "is not a section"})
	}
	if item.GetQuantity() < 1 || item.GetQuantity() > maxPlaces {
		return reservation.BestRequest{}, invalidField("quantity", "must be between 1 and 1000")
	}
	req := reservation.BestRequest{
		EventID: item.GetEventId(), UserID: user, Contact: toContact(item.GetCaller()), SlotID: item.GetCaller().GetSlotId(),
		Section: item.GetSection(), Quantity: int(item.GetQuantity()), Adjacent: item.Adjacent == nil || item.GetAdjacent(),
		PresaleRight: reservation.PresaleRight{Claims: item.GetCaller().GetClaims()},
	}
	req.IdempotencyKey, err = idempotency.New(user, "HoldBest", item.GetCaller().GetIdempotencyKey(),
		req.EventID, req.Section, strconv.Itoa(req.Quantity), strconv.FormatBool(req.Adjacent))
	return req, err
}

// toContact returns the e-mail address and the language of a caller.
func toContact(c *commonv1.Caller) purchase.Contact {
	return purchase.Contact{Email: c.GetEmail(), Language: c.GetLanguage()}
}

// userOfItem returns the user of a caller (see userInEvent) for one item of a call. It also
// validates the event id, so that an invalid id fails its item only.
func userOfItem(c *commonv1.Caller, eventID string) (string, error) {
	if !ids.ValidEventID(eventID) {
		return "", errs.ErrInvalidID.WithFields(errs.Field{Path: "eventId", Message: "is not an event id"})
	}
	return userInEvent(c, eventID)
}

func invalidField(path, message string) error {
	return errs.ErrInvalidRequest.WithFields(errs.Field{Path: path, Message: message})
}
