package rpc

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/errs"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/reservation"
)

// typeReservation is the only payment type that is sold; a reference of another type is not found.
const typeReservation = "reservation"

// Payables implements PayableService.
type Payables struct {
	ticketv1.UnimplementedPayableServiceServer

	reservations *reservation.Service
	settlement   Settlement
}

// Settlement measures how far behind this service is with the events of payments.
type Settlement interface {
	// Age of the oldest payment event that is not applied, and how long ago that was measured; not
	// known before the first measurement.
	Age() (oldest, measuredAgo time.Duration, known bool)
}

// NewPayables serves payment.
func NewPayables(s *reservation.Service, settlement Settlement) *Payables {
	return &Payables{reservations: s, settlement: settlement}
}

func (s *Payables) GetSettlement(context.Context, *ticketv1.GetSettlementRequest) (*ticketv1.Settlement, error) {
	oldest, ago, known := s.settlement.Age()
	if !known { // an age of 0 would say that nothing waits
		return nil, errs.ErrUnavailable
	}
	return &ticketv1.Settlement{OldestUnappliedMs: oldest.Milliseconds(), MeasuredAgoMs: ago.Milliseconds()}, nil
}

// payableRequest is what the requests of all payables name.
type payableRequest interface {
	GetPaymentType() string
	GetReferenceId() string
}

// reservationID is the reservation that a request names.
func reservationID(req payableRequest) (uuid.UUID, error) {
	if req.GetPaymentType() != typeReservation {
		return uuid.Nil, reservation.ErrReferenceNotFound
	}
	return parseID(req.GetReferenceId())
}

func (s *Payables) GetPayable(ctx context.Context, req *ticketv1.GetPayableRequest) (*ticketv1.Payable, error) {
	id, err := reservationID(req)
	if err != nil {
		return nil, err
	}
	p, err := s.reservations.Payable(ctx, req.GetUserId(), id)
	if err != nil {
		return nil, err
	}
	return fromPayable(p), nil
}

func (s *Payables) BeginPayment(ctx context.Context, req *ticketv1.BeginPaymentRequest) (*ticketv1.Payable, error) {
	id, err := reservationID(req)
	if err != nil {
		return nil, err
	}
	payment, err := parseID(req.GetPaymentId())
	if err != nil {
		return nil, err
	}
	p, err := s.reservations.BeginPayment(ctx, req.GetUserId(), id, payment)
	if err != nil {
		return nil, err
	}
	return fromPayable(p), nil
}

func (s *Payables) AbortPayment(ctx context.Context, req *ticketv1.AbortPaymentRequest) (*emptypb.Empty, error) {
	id, err := reservationID(req)
	if err != nil {
		return nil, err
	}
	payment, err := parseID(req.GetPaymentId())
	if err != nil {
		return nil, err
	}
	if err := s.reservations.AbortPayment(ctx, id, payment); err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, nil
}

func fromPayable(p *reservation.Payable) *ticketv1.Payable {
	r := &p.Reservation
	return &ticketv1.Payable{
		PaymentType: typeReservation, ReferenceId: r.ID.String(), UserId: r.UserID, EventId: r.EventID, Amount: r.Amount,
		Currency: r.Currency, ExpiresAt: timestamppb.New(r.ExpiresAt), Description: describe(p),
	}
}

// describe is what a provider's page shows: the title and the places.
func describe(p *reservation.Payable) string {
	r := &p.Reservation
	if len(r.Seats) > 0 {
		return p.EventTitle + ": " + strings.Join(r.SeatIDs(), ", ")
	}
	return p.EventTitle + ": " + strconv.Itoa(r.Quantity) + " × " + r.Section
}
