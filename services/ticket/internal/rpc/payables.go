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

// typeReservation is the only payment type that this service handles. References of another type
// are not found.
const typeReservation = "reservation"

// Payables implements PayableService.
type Payables struct {
	ticketv1.UnimplementedPayableServiceServer

	reservations *reservation.Service
	backlog      Backlog
}

// Backlog measures the payment events that this service has not applied yet.
type Backlog interface {
	// Age returns the age of the oldest event that is not applied, and the time since the
	// measurement. known is false before the first measurement.
	Age() (oldest, measuredAgo time.Duration, known bool)
}

// NewPayables makes a Payables.
func NewPayables(s *reservation.Service, backlog Backlog) *Payables {
	return &Payables{reservations: s, backlog: backlog}
}

func (s *Payables) GetSettlement(context.Context, *ticketv1.GetSettlementRequest) (*ticketv1.Settlement, error) {
	oldest, ago, known := s.backlog.Age()
	if !known { // an age of 0 would mean that every event is applied
		return nil, errs.ErrUnavailable
	}
	return &ticketv1.Settlement{OldestUnappliedMs: oldest.Milliseconds(), MeasuredAgoMs: ago.Milliseconds()}, nil
}

// reservationID returns the id of a reference, which must be a reservation.
func reservationID(paymentType, referenceID string) (uuid.UUID, error) {
	if paymentType != typeReservation {
		return uuid.Nil, reservation.ErrReferenceNotFound
	}
	return parseID(referenceID)
}

// paymentIDs returns the ids of a request about a payment of a reservation.
func paymentIDs(req interface {
	GetPaymentType() string
	GetReferenceId() string
	GetPaymentId() string
},
) (id, payment uuid.UUID, err error) {
	if id, err = reservationID(req.GetPaymentType(), req.GetReferenceId()); err == nil {
		payment, err = parseID(req.GetPaymentId())
	}
	return id, payment, err
}

func (s *Payables) GetPayable(ctx context.Context, req *ticketv1.GetPayableRequest) (*ticketv1.Payable, error) {
	id, err := reservationID(req.GetPaymentType(), req.GetReferenceId())
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
	id, payment, err := paymentIDs(req)
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
	id, payment, err := paymentIDs(req)
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

// describe returns what the payment provider's page shows: the event's title and the places.
func describe(p *reservation.Payable) string {
	r := &p.Reservation
	if len(r.Seats) > 0 {
		return p.EventTitle + ": " + strings.Join(r.SeatIDs(), ", ")
	}
	return p.EventTitle + ": " + strconv.Itoa(r.Quantity) + " × " + r.Section
}
