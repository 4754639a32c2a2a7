package app_test

import (
	"context"
	"sync/atomic"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"urr.guru/pkg/errs"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// fakeTicket has every reservation, and every event except "absent", which exists after a PUT.
// Holds succeed unless the function hold returns something else.
type fakeTicket struct {
	ticketv1.UnimplementedEventServiceServer
	ticketv1.UnimplementedEventAdminServiceServer
	ticketv1.UnimplementedHoldServiceServer
	ticketv1.UnimplementedReservationServiceServer
	ticketv1.UnimplementedTicketServiceServer
	ticketv1.UnimplementedCompServiceServer
	ticketv1.UnimplementedTransferServiceServer
	ticketv1.UnimplementedMembershipServiceServer
	ticketv1.UnimplementedMembershipAdminServiceServer
	ticketv1.UnimplementedWebhookServiceServer
	ticketv1.UnimplementedCheckInServiceServer
	ticketv1.UnimplementedOrderAdminServiceServer
	callLog

	hold func(event string) *ticketv1.HoldResult
	// taken is the number of taken seats, besides the twelve free ones.
	taken int64
	// status and code are the status and the code of every ticket.
	status, code string
	// price is the price in the only section.
	price int64
	// seats, unless nil, returns the free seats of an event.
	seats func(event string) (*ticketv1.Availability, error)
	// down makes GetEventInfo fail.
	down atomic.Bool
}

func (f *fakeTicket) ListEvents(_ context.Context, in *ticketv1.ListEventsRequest) (*ticketv1.ListEventsResponse, error) {
	f.add("ListEvents", nil, in)
	return &ticketv1.ListEventsResponse{Items: []*ticketv1.Event{{EventId: calm}, {EventId: busy}}}, nil
}

func (f *fakeTicket) GetEvent(_ context.Context, in *ticketv1.GetEventRequest) (*ticketv1.Event, error) {
	f.add("GetEvent", nil, in)
	if in.GetEventId() == "absent" {
		return nil, errs.ErrEventNotFound
	}
	return &ticketv1.Event{EventId: in.GetEventId(), Sections: []*ticketv1.Section{{Section: "A", Capacity: 100, Free: 60}}}, nil
}

func (f *fakeTicket) GetEventInfo(_ context.Context, in *ticketv1.GetEventInfoRequest) (*ticketv1.EventInfo, error) {
	f.add("GetEventInfo", nil, in)
	if f.down.Load() {
		return nil, errs.ErrUnavailable
	}
	if in.GetEventId() == "absent" && len(f.of("PutEvent")) == 0 {
		return nil, errs.ErrEventNotFound
	}
	return &ticketv1.EventInfo{EventId: in.GetEventId()}, nil
}

func (f *fakeTicket) GetSeatMap(_ context.Context, in *ticketv1.GetSeatMapRequest) (*ticketv1.SeatMap, error) {
	f.add("GetSeatMap", in.GetCaller(), in)
	return &ticketv1.SeatMap{EventId: in.GetEventId(), Seating: "ASSIGNED", Seats: 12, Etag: "layout1"}, nil
}

func (f *fakeTicket) GetAvailability(_ context.Context, in *ticketv1.GetAvailabilityRequest) (*ticketv1.Availability, error) {
	f.add("GetAvailability", in.GetCaller(), in)
	if f.seats != nil {
		return f.seats(in.GetEventId())
	}
	bitmap := append([]byte{0xff, 0xf0}, make([]byte, f.taken/8)...)
	return &ticketv1.Availability{EventId: in.GetEventId(), Bitmap: bitmap, Etag: "free1", Seats: 12 + f.taken, Sections: []*ticketv1.Section{{Section: "A", Price: f.price}}}, nil
}

func (f *fakeTicket) CreateEvent(_ context.Context, in *ticketv1.CreateEventRequest) (*ticketv1.Event, error) {
	f.add("CreateEvent", in.GetCaller(), in)
	return &ticketv1.Event{EventId: "created"}, nil
}

func (f *fakeTicket) PutEvent(_ context.Context, in *ticketv1.PutEventRequest) (*ticketv1.Event, error) {
	f.add("PutEvent", in.GetCaller(), in)
	return &ticketv1.Event{EventId: in.GetEventId(), Threshold: new(int64(5)), Etag: new("put1")}, nil
}

func (f *fakeTicket) GetEventSettings(_ context.Context, in *ticketv1.GetEventSettingsRequest) (*ticketv1.EventSettings, error) {
	f.add("GetEventSettings", in.GetCaller(), in)
	return &ticketv1.EventSettings{Spec: &ticketv1.EventSpec{Title: in.GetEventId(), Threshold: new(int64(5))}, Etag: new("settings1")}, nil
}

// act records an operator's act on an event.
func (f *fakeTicket) act(name string, caller *commonv1.Caller, in interface {
	proto.Message
	GetEventId() string
}) (*ticketv1.EventState, error) {
	f.add(name, caller, in)
	return &ticketv1.EventState{EventId: in.GetEventId(), State: "CANCELLED"}, nil
}

func (f *fakeTicket) PauseEvent(_ context.Context, in *ticketv1.PauseEventRequest) (*ticketv1.EventState, error) {
	return f.act("PauseEvent", in.GetCaller(), in)
}

func (f *fakeTicket) ResumeEvent(_ context.Context, in *ticketv1.ResumeEventRequest) (*ticketv1.EventState, error) {
	return f.act("ResumeEvent", in.GetCaller(), in)
}

func (f *fakeTicket) CancelEvent(_ context.Context, in *ticketv1.CancelEventRequest) (*ticketv1.EventState, error) {
	return f.act("CancelEvent", in.GetCaller(), in)
}

func (f *fakeTicket) UndoCancelEvent(_ context.Context, in *ticketv1.UndoCancelEventRequest) (*ticketv1.EventState, error) {
	return f.act("UndoCancelEvent", in.GetCaller(), in)
}

func (f *fakeTicket) RefundEvent(_ context.Context, in *ticketv1.RefundEventRequest) (*ticketv1.EventState, error) {
	return f.act("RefundEvent", in.GetCaller(), in)
}

func (f *fakeTicket) PostponeEvent(_ context.Context, in *ticketv1.PostponeEventRequest) (*ticketv1.EventState, error) {
	return f.act("PostponeEvent", in.GetCaller(), in)
}

func (f *fakeTicket) CreateComp(_ context.Context, in *ticketv1.CreateCompRequest) (*ticketv1.Comp, error) {
	f.add("CreateComp", in.GetCaller(), in)
	return &ticketv1.Comp{EventId: in.GetEventId(), Name: in.GetName()}, nil
}

func (f *fakeTicket) ListComps(_ context.Context, in *ticketv1.ListCompsRequest) (*ticketv1.ListCompsResponse, error) {
	f.add("ListComps", in.GetCaller(), in)
	return &ticketv1.ListCompsResponse{}, nil
}

func (f *fakeTicket) ClaimComp(_ context.Context, in *ticketv1.ClaimCompRequest) (*ticketv1.ClaimedComp, error) {
	f.add("ClaimComp", in.GetCaller(), in)
	return &ticketv1.ClaimedComp{ReservationId: "r"}, nil
}

func (f *fakeTicket) OfferTicket(_ context.Context, in *ticketv1.OfferTicketRequest) (*ticketv1.Transfer, error) {
	f.add("OfferTicket", in.GetCaller(), in)
	return &ticketv1.Transfer{}, nil
}

func (f *fakeTicket) CancelTransfer(_ context.Context, in *ticketv1.CancelTransferRequest) (*ticketv1.Transfer, error) {
	f.add("CancelTransfer", in.GetCaller(), in)
	return &ticketv1.Transfer{}, nil
}

func (f *fakeTicket) ListMyTransfers(_ context.Context, in *ticketv1.ListMyTransfersRequest) (*ticketv1.ListMyTransfersResponse, error) {
	f.add("ListMyTransfers", in.GetCaller(), in)
	return &ticketv1.ListMyTransfersResponse{}, nil
}

func (f *fakeTicket) LookAtTransfer(_ context.Context, in *ticketv1.LookAtTransferRequest) (*ticketv1.Transfer, error) {
	f.add("LookAtTransfer", in.GetCaller(), in)
	return &ticketv1.Transfer{}, nil
}

func (f *fakeTicket) AcceptTransfer(_ context.Context, in *ticketv1.AcceptTransferRequest) (*ticketv1.Transfer, error) {
	f.add("AcceptTransfer", in.GetCaller(), in)
	return &ticketv1.Transfer{}, nil
}

func (f *fakeTicket) PutWebhook(_ context.Context, in *ticketv1.PutWebhookRequest) (*ticketv1.Webhook, error) {
	f.add("PutWebhook", in.GetCaller(), in)
	return &ticketv1.Webhook{Name: in.GetName()}, nil
}

func (f *fakeTicket) ListWebhooks(_ context.Context, in *ticketv1.ListWebhooksRequest) (*ticketv1.ListWebhooksResponse, error) {
	f.add("ListWebhooks", in.GetCaller(), in)
	return &ticketv1.ListWebhooksResponse{}, nil
}

func (f *fakeTicket) DeleteWebhook(_ context.Context, in *ticketv1.DeleteWebhookRequest) (*emptypb.Empty, error) {
	f.add("DeleteWebhook", in.GetCaller(), in)
	return &emptypb.Empty{}, nil
}

func (f *fakeTicket) ListDeliveries(_ context.Context, in *ticketv1.ListDeliveriesRequest) (*ticketv1.ListDeliveriesResponse, error) {
	f.add("ListDeliveries", in.GetCaller(), in)
	return &ticketv1.ListDeliveriesResponse{}, nil
}

func (f *fakeTicket) ReplayWebhook(_ context.Context, in *ticketv1.ReplayWebhookRequest) (*ticketv1.ReplayWebhookResponse, error) {
	f.add("ReplayWebhook", in.GetCaller(), in)
	return &ticketv1.ReplayWebhookResponse{}, nil
}

func (f *fakeTicket) GetHouse(_ context.Context, in *ticketv1.GetHouseRequest) (*ticketv1.House, error) {
	f.add("GetHouse", in.GetCaller(), in)
	return &ticketv1.House{EventId: in.GetEventId()}, nil
}

func (f *fakeTicket) PutHouse(_ context.Context, in *ticketv1.PutHouseRequest) (*ticketv1.House, error) {
	f.add("PutHouse", in.GetCaller(), in)
	return &ticketv1.House{EventId: in.GetEventId(), SeatIds: in.GetTake()}, nil
}

func (f *fakeTicket) HoldSeats(_ context.Context, in *ticketv1.HoldSeatsRequest) (*ticketv1.HoldResponse, error) {
	out := &ticketv1.HoldResponse{}
	for _, i := range in.GetItems() {
		f.add("HoldSeats", i.GetCaller(), i)
		out.Results = append(out.Results, f.hold(i.GetEventId()))
	}
	return out, nil
}

func (f *fakeTicket) HoldBest(_ context.Context, in *ticketv1.HoldBestRequest) (*ticketv1.HoldResponse, error) {
	out := &ticketv1.HoldResponse{}
	for _, i := range in.GetItems() {
		f.add("HoldBest", i.GetCaller(), i)
		out.Results = append(out.Results, f.hold(i.GetEventId()))
	}
	return out, nil
}

func (f *fakeTicket) GetReservation(_ context.Context, in *ticketv1.GetReservationRequest) (*ticketv1.Reservation, error) {
	f.add("GetReservation", in.GetCaller(), in)
	return &ticketv1.Reservation{ReservationId: in.GetReservationId(), Status: "HELD"}, nil
}

func (f *fakeTicket) GetMyReservation(_ context.Context, in *ticketv1.GetReservationRequest) (*ticketv1.Reservation, error) {
	f.add("GetMyReservation", in.GetCaller(), in)
	return &ticketv1.Reservation{ReservationId: in.GetReservationId(), Status: "HELD"}, nil
}

func (f *fakeTicket) CancelReservation(_ context.Context, in *ticketv1.CancelReservationRequest) (*emptypb.Empty, error) {
	f.add("CancelReservation", in.GetCaller(), in)
	return &emptypb.Empty{}, nil
}

func (f *fakeTicket) CancelMyReservation(_ context.Context, in *ticketv1.CancelReservationRequest) (*emptypb.Empty, error) {
	f.add("CancelMyReservation", in.GetCaller(), in)
	return &emptypb.Empty{}, nil
}

func (f *fakeTicket) ListMyReservations(_ context.Context, in *ticketv1.ListMyReservationsRequest) (*ticketv1.ListMyReservationsResponse, error) {
	f.add("ListMyReservations", in.GetCaller(), in)
	return &ticketv1.ListMyReservationsResponse{}, nil
}

func (f *fakeTicket) ListMyTickets(_ context.Context, in *ticketv1.ListMyTicketsRequest) (*ticketv1.ListMyTicketsResponse, error) {
	f.add("ListMyTickets", in.GetCaller(), in)
	return &ticketv1.ListMyTicketsResponse{}, nil
}

func (f *fakeTicket) GetMyTicket(_ context.Context, in *ticketv1.GetMyTicketRequest) (*ticketv1.Ticket, error) {
	f.add("GetMyTicket", in.GetCaller(), in)
	return &ticketv1.Ticket{TicketId: in.GetTicketId(), Status: f.status, Code: f.code}, nil
}

func (f *fakeTicket) CheckIn(_ context.Context, in *ticketv1.CheckInRequest) (*ticketv1.CheckedIn, error) {
	f.add("CheckIn", in.GetCaller(), in)
	return &ticketv1.CheckedIn{Section: "A"}, nil
}

func (f *fakeTicket) UndoCheckIn(_ context.Context, in *ticketv1.UndoCheckInRequest) (*ticketv1.CheckedIn, error) {
	f.add("UndoCheckIn", in.GetCaller(), in)
	return &ticketv1.CheckedIn{ScanId: in.GetScanId()}, nil
}

func (f *fakeTicket) GetDoorCounts(_ context.Context, in *ticketv1.GetDoorCountsRequest) (*ticketv1.DoorCounts, error) {
	f.add("GetDoorCounts", in.GetCaller(), in)
	return &ticketv1.DoorCounts{}, nil
}

func (f *fakeTicket) GetDoorList(_ context.Context, in *ticketv1.GetDoorListRequest) (*ticketv1.DoorList, error) {
	f.add("GetDoorList", in.GetCaller(), in)
	return &ticketv1.DoorList{}, nil
}

func (f *fakeTicket) UploadScans(_ context.Context, in *ticketv1.UploadScansRequest) (*ticketv1.UploadedScans, error) {
	f.add("UploadScans", in.GetCaller(), in)
	return &ticketv1.UploadedScans{}, nil
}

func (f *fakeTicket) ListConflicts(_ context.Context, in *ticketv1.ListConflictsRequest) (*ticketv1.ListConflictsResponse, error) {
	f.add("ListConflicts", in.GetCaller(), in)
	return &ticketv1.ListConflictsResponse{}, nil
}
