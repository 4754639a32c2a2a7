package handlers

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/rpc"
	"urr.guru/services/gateway/internal/caller"
	"urr.guru/services/gateway/internal/edge"

	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// paymentPartTimeout is the longest wait for an order's payments. Then the order lacks them.
const paymentPartTimeout = 2 * time.Second

// reservationType is the type of payments for reservations.
const reservationType = "reservation"

// Orders serves operators' RPCs about orders, from the ticket service and the payment service.
type Orders struct {
	Tickets  ticketv1.OrderAdminServiceClient
	Payments paymentv1.PaymentAdminServiceClient
}

var _ ticketv1.OrderAdminServiceClient = (*Orders)(nil)

// SearchOrders asks the ticket service for orders. That service does not know the order ids of
// payment providers, so the payment service first finds the reservation of such an id.
func (o *Orders) SearchOrders(ctx context.Context, in *ticketv1.SearchOrdersRequest, _ ...grpc.CallOption) (*ticketv1.SearchOrdersResponse, error) {
	if in.GetOrderId() == "" {
		return o.Tickets.SearchOrders(ctx, in)
	}
	if err := rpc.Validate(in); err != nil {
		return nil, err
	}
	found, err := o.findPayments(ctx, &paymentv1.FindPaymentsRequest{By: &paymentv1.FindPaymentsRequest_OrderId{OrderId: in.GetOrderId()}})
	if err != nil {
		return nil, err
	}
	reservation := ""
	for _, p := range found {
		if p.GetPaymentType() == reservationType {
			reservation = p.GetReferenceId()
		}
	}
	if reservation == "" || in.GetReservationId() != "" && in.GetReservationId() != reservation {
		return &ticketv1.SearchOrdersResponse{}, nil
	}
	in = proto.CloneOf(in)
	in.OrderId, in.ReservationId = "", reservation
	return o.Tickets.SearchOrders(ctx, in)
}

// GetOrder calls the ticket and the payment service concurrently. Only the former must succeed.
func (o *Orders) GetOrder(ctx context.Context, in *ticketv1.GetOrderRequest, _ ...grpc.CallOption) (*ticketv1.OrderDetail, error) {
	if err := rpc.Validate(in); err != nil {
		return nil, err
	}
	var payments []*paymentv1.PaymentDetail
	var paymentErr error
	var paymentCall sync.WaitGroup
	paymentCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	paymentCall.Go(func() {
		payments, paymentErr = o.findPayments(paymentCtx, &paymentv1.FindPaymentsRequest{By: &paymentv1.FindPaymentsRequest_Reference{
			Reference: &paymentv1.PaymentReference{PaymentType: reservationType, ReferenceId: in.GetReservationId()},
		}})
	})
	out, err := o.Tickets.GetOrder(ctx, in)
	if err != nil {
		cancel()
	}
	paymentCall.Wait()
	if err != nil {
		return nil, err
	}
	if out.Payments = payments; paymentErr != nil {
		out.Unreachable = []string{"payment"}
	}
	out.Timeline = timelineOf(out)
	return out, nil
}

func (o *Orders) VoidTicket(ctx context.Context, in *ticketv1.VoidTicketRequest, opts ...grpc.CallOption) (*ticketv1.VoidedTickets, error) {
	return o.Tickets.VoidTicket(ctx, in, opts...)
}

func (o *Orders) VoidOrder(ctx context.Context, in *ticketv1.VoidOrderRequest, opts ...grpc.CallOption) (*ticketv1.VoidedTickets, error) {
	return o.Tickets.VoidOrder(ctx, in, opts...)
}

// findPayments calls the payment service on behalf of the operator whose request is in ctx.
func (o *Orders) findPayments(ctx context.Context, in *paymentv1.FindPaymentsRequest) ([]*paymentv1.PaymentDetail, error) {
	ctx, cancel := context.WithTimeout(caller.With(ctx, edge.RequestFrom(ctx).Caller()), paymentPartTimeout)
	defer cancel()
	out, err := o.Payments.FindPayments(ctx, in)
	return out.GetPayments(), err
}

// timelineOf returns everything that happened to an order, sorted by time.
func timelineOf(d *ticketv1.OrderDetail) (steps []*ticketv1.OrderStep) {
	add := func(at *timestamppb.Timestamp, of, id, status, note string) {
		steps = append(steps, &ticketv1.OrderStep{At: at, Of: of, Id: id, Status: status, Note: note})
	}
	order := d.GetOrder()
	add(order.GetCreatedAt(), reservationType, order.GetReservationId(), "HELD", "")
	if order.GetStatus() != "HELD" {
		add(order.GetUpdatedAt(), reservationType, order.GetReservationId(), order.GetStatus(), order.GetReason())
	}
	for _, t := range d.GetTickets() {
		add(t.GetIssuedAt(), "ticket", t.GetTicketId(), "VALID", cmp.Or(t.GetSeatId(), t.GetSection()))
		if v := t.GetVoid(); v != nil {
			add(v.GetAt(), "ticket", t.GetTicketId(), "VOIDED", v.GetUserId()+": "+v.GetReason())
		}
	}
	for _, s := range d.GetScans() {
		add(s.GetRecordedAt(), "scan", s.GetTicketId(), s.GetResult(), s.GetDeviceId())
	}
	for _, p := range d.GetPayments() {
		for _, e := range p.GetTimeline() {
			add(e.GetAt(), "payment", p.GetPaymentId(), e.GetStatus(), e.GetNote())
		}
		for _, r := range p.GetRefunds() {
			add(r.GetCreatedAt(), "refund", r.GetRefundId(), "REQUESTED", r.GetCause())
		}
	}
	slices.SortStableFunc(steps, func(a, b *ticketv1.OrderStep) int { return a.GetAt().AsTime().Compare(b.GetAt().AsTime()) })
	return steps
}
