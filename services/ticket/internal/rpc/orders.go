package rpc

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"urr.guru/pkg/cursor"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/text"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/order"
	"urr.guru/services/ticket/internal/void"
)

// Orders serves the RPCs with which operators find orders, to which the gateway adds the payments,
// and void tickets.
type Orders struct {
	ticketv1.UnimplementedOrderAdminServiceServer

	orders *order.Service
	voids  void.Store
}

// NewOrders makes a server that calls s for orders, and ends tickets in voids.
func NewOrders(s *order.Service, voids void.Store) *Orders { return &Orders{orders: s, voids: voids} }

func (s *Orders) SearchOrders(ctx context.Context, req *ticketv1.SearchOrdersRequest) (*ticketv1.SearchOrdersResponse, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	before, err := cursor.ParseID(req.GetCursor())
	if err != nil {
		return nil, err
	}
	c := order.Criteria{SeatID: req.GetSeat(), EventID: req.GetEventId(), UserID: req.GetUser()}
	if req.GetReservationId() != "" {
		if c.ReservationID, err = parseID(req.GetReservationId()); err != nil {
			return nil, err
		}
	}
	switch {
	case c == order.Criteria{} && req.GetCode() == "":
		return nil, errs.ErrInvalidRequest.WithFields(errs.Field{Path: "user", Message: "or seat, orderId, code, eventId or reservationId is required"})
	case c.SeatID != "" && c.EventID == "":
		return nil, errs.ErrInvalidRequest.WithFields(errs.Field{Path: "eventId", Message: "is required with seat"})
	}
	list, next, err := s.orders.Search(ctx, c, req.GetCode(), pageLimit(req.GetLimit()), before)
	if err != nil {
		return nil, err
	}
	res := &ticketv1.SearchOrdersResponse{Items: make([]*ticketv1.Order, len(list)), NextCursor: cursor.ID(next)}
	for i := range list {
		res.Items[i] = fromOrder(&list[i])
	}
	return res, nil
}

func (s *Orders) GetOrder(ctx context.Context, req *ticketv1.GetOrderRequest) (*ticketv1.OrderDetail, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	id, err := parseID(req.GetReservationId())
	if err != nil {
		return nil, err
	}
	d, err := s.orders.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	out := &ticketv1.OrderDetail{
		Order: fromOrder(&d.Order), Tickets: make([]*ticketv1.OrderTicket, len(d.Tickets)), Scans: make([]*ticketv1.OrderScan, len(d.Scans)),
	}
	for i := range d.Tickets {
		out.Tickets[i] = fromOrderTicket(&d.Tickets[i])
	}
	for i, scan := range d.Scans {
		out.Scans[i] = &ticketv1.OrderScan{
			ScanId: scan.ID.String(), TicketId: scan.TicketID.String(), Result: string(scan.Result), DeviceId: scan.Device, UserId: scan.UserID,
			ScannedAt: timestamp(scan.At), RecordedAt: timestamp(scan.RecordedAt),
		}
	}
	return out, nil
}

func (s *Orders) VoidTicket(ctx context.Context, req *ticketv1.VoidTicketRequest) (*ticketv1.VoidedTickets, error) {
	id, err := parseID(req.GetTicketId())
	if err != nil {
		return nil, err
	}
	return s.void(ctx, req, void.Request{TicketID: id})
}

func (s *Orders) VoidOrder(ctx context.Context, req *ticketv1.VoidOrderRequest) (*ticketv1.VoidedTickets, error) {
	id, err := parseID(req.GetReservationId())
	if err != nil {
		return nil, err
	}
	return s.void(ctx, req, void.Request{ReservationID: id})
}

// void voids tickets; req is one of the two requests for it.
func (s *Orders) void(ctx context.Context, req interface{ GetReason() string }, r void.Request) (out *ticketv1.VoidedTickets, err error) {
	if r.Operator, err = rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	if r.Reason = req.GetReason(); !text.HasVisible(r.Reason) {
		return nil, invalidField("reason", "must have a visible character")
	}
	v, err := s.voids.Void(ctx, r)
	if err != nil {
		return nil, err
	}
	out = &ticketv1.VoidedTickets{ReservationId: v.ReservationID.String(), EventId: v.EventID, Status: string(v.Status), OfflineDoors: v.OfflineDoors}
	for _, id := range slices.Concat(v.Before, v.New) {
		out.TicketIds = append(out.TicketIds, id.String())
	}
	return out, nil
}

func fromOrder(o *order.Order) *ticketv1.Order {
	out := &ticketv1.Order{
		ReservationId: o.ID.String(), EventId: o.EventID, UserId: o.UserID, Origin: string(o.Origin), Status: string(o.Status), Reason: o.Reason,
		Section: o.Section, Quantity: int32(o.Quantity), Released: int32(o.Released), //nolint:gosec // ≤ 1000
		Amount: o.Amount, Fee: o.Fee, Currency: o.Currency, PaymentId: optionalID(o.PaymentID), ExpiresAt: timestamp(o.Until),
		CreatedAt: timestamp(o.CreatedAt), UpdatedAt: timestamp(o.UpdatedAt), Seats: make([]*ticketv1.Seat, len(o.Seats)),
	}
	for i := range o.Seats {
		out.Seats[i] = fromSeat(&o.Seats[i])
	}
	return out
}

func fromOrderTicket(t *order.Ticket) *ticketv1.OrderTicket {
	out := &ticketv1.OrderTicket{
		TicketId: t.ID.String(), Place: int32(t.N), Previous: optionalID(t.Previous), UserId: t.UserID, Section: t.Section, //nolint:gosec // ≤ 1000
		Status: string(t.Status), Price: t.Price, Paid: t.Paid, Fee: t.Fee, Given: t.GivenBack, PaymentId: optionalID(t.PaymentID),
		RefundId: optionalID(t.RefundID), Serial: int32(t.Serial), IssuedAt: timestamp(t.IssuedAt), //nolint:gosec // counts codes
		Disputed: t.Disputed,
	}
	if t.Seat != nil {
		out.SeatId = &t.Seat.ID
	}
	if v := t.Void; v != nil {
		out.Void = &ticketv1.TicketVoid{At: timestamp(v.At), UserId: v.Operator, Reason: v.Reason}
	}
	return out
}

// optionalID returns the text of an id, nil for the zero id.
func optionalID(id uuid.UUID) *string {
	if id == uuid.Nil {
		return nil
	}
	return new(id.String())
}
