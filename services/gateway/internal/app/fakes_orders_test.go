package app_test

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/errs"

	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// The fakes know one order, which was paid, refunded and scanned. No order has the id absentOrder.
const (
	knownOrder  = requestID
	absentOrder = "01990f5e-7b5a-7c3e-9d1a-000000000000"
	providerID  = "order-1" // the id of knownOrder at the payment provider
)

// minute returns the time n minutes after start.
func minute(n int) *timestamppb.Timestamp {
	return timestamppb.New(start.Add(time.Duration(n) * time.Minute))
}

func (f *fakeTicket) SearchOrders(_ context.Context, in *ticketv1.SearchOrdersRequest) (*ticketv1.SearchOrdersResponse, error) {
	f.add("SearchOrders", in.GetCaller(), in)
	return &ticketv1.SearchOrdersResponse{Items: []*ticketv1.Order{{ReservationId: knownOrder, Status: "CONFIRMED"}}, NextCursor: "next"}, nil
}

func (f *fakeTicket) GetOrder(_ context.Context, in *ticketv1.GetOrderRequest) (*ticketv1.OrderDetail, error) {
	f.add("GetOrder", in.GetCaller(), in)
	if in.GetReservationId() == absentOrder {
		return nil, errs.ErrReservationNotFound
	}
	return &ticketv1.OrderDetail{
		Order: &ticketv1.Order{ReservationId: in.GetReservationId(), Status: "CONFIRMED", CreatedAt: minute(0), UpdatedAt: minute(3)},
		Tickets: []*ticketv1.OrderTicket{{
			TicketId: "t1", Status: "VOIDED", Section: "A", IssuedAt: minute(3), Void: &ticketv1.TicketVoid{At: minute(12), UserId: "op", Reason: "stolen card"},
		}},
		Scans: []*ticketv1.OrderScan{{ScanId: "s1", TicketId: "t1", Result: "ADMITTED", DeviceId: "gate", RecordedAt: minute(9)}},
	}, nil
}

func (f *fakeTicket) VoidTicket(_ context.Context, in *ticketv1.VoidTicketRequest) (*ticketv1.VoidedTickets, error) {
	f.add("VoidTicket", in.GetCaller(), in)
	return &ticketv1.VoidedTickets{Status: "CONFIRMED", TicketIds: []string{in.GetTicketId()}}, nil
}

func (f *fakeTicket) VoidOrder(_ context.Context, in *ticketv1.VoidOrderRequest) (*ticketv1.VoidedTickets, error) {
	f.add("VoidOrder", in.GetCaller(), in)
	return &ticketv1.VoidedTickets{ReservationId: in.GetReservationId(), Status: "VOIDED"}, nil
}

func (f *fakePayment) FindPayments(_ context.Context, in *paymentv1.FindPaymentsRequest) (*paymentv1.FindPaymentsResponse, error) {
	f.add("FindPayments", in.GetCaller(), in)
	if f.down.Load() {
		return nil, errs.ErrUnavailable
	}
	if in.GetReference() == nil && in.GetOrderId() != providerID {
		return &paymentv1.FindPaymentsResponse{}, nil
	}
	return &paymentv1.FindPaymentsResponse{Payments: []*paymentv1.PaymentDetail{{
		PaymentId: "p1", OrderId: providerID, PaymentType: "reservation", ReferenceId: knownOrder, Status: "CONFIRMED",
		Timeline: []*paymentv1.TimelineEntry{{At: minute(1), Status: "PREPARED"}, {At: minute(2), Status: "CONFIRMED", Note: "charged"}},
		Refunds:  []*paymentv1.RefundDetail{{RefundId: "r1", Cause: "USER", Status: "HELD", CreatedAt: minute(5)}},
	}}}, nil
}
