package rpc

import (
	"context"
	"maps"
	"slices"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/rpc"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/event"
)

// Events serves the RPCs with which visitors read events, and the queue service reads sales and
// settings of lines.
type Events struct {
	ticketv1.UnimplementedEventServiceServer

	events *event.Service
}

// NewEvents makes a server that calls s for events.
func NewEvents(s *event.Service) *Events { return &Events{events: s} }

func (s *Events) ListEvents(ctx context.Context, req *ticketv1.ListEventsRequest) (*ticketv1.ListEventsResponse, error) {
	after, err := decodeEventCursor(req.GetCursor())
	if err != nil {
		return nil, err
	}
	list, next, err := s.events.List(ctx, pageLimit(req.GetLimit()), after)
	if err != nil {
		return nil, err
	}
	res := &ticketv1.ListEventsResponse{Items: make([]*ticketv1.Event, len(list)), NextCursor: encodeEventCursor(next)}
	for i := range list {
		res.Items[i] = fromSnapshot(&list[i])
	}
	return res, nil
}

func (s *Events) GetEvent(ctx context.Context, req *ticketv1.GetEventRequest) (*ticketv1.Event, error) {
	snap, err := s.events.Snapshot(ctx, req.GetEventId())
	if err != nil {
		return nil, err
	}
	return fromSnapshot(&snap), nil
}

func (s *Events) GetSeatMap(ctx context.Context, req *ticketv1.GetSeatMapRequest) (*ticketv1.SeatMap, error) {
	if _, err := userInEvent(req.GetCaller(), req.GetEventId()); err != nil {
		return nil, err
	}
	e, err := s.events.Event(ctx, req.GetEventId())
	if err != nil {
		return nil, err
	}
	return fromLayout(&e), nil
}

func (s *Events) GetAvailability(ctx context.Context, req *ticketv1.GetAvailabilityRequest) (*ticketv1.Availability, error) {
	if _, err := userInEvent(req.GetCaller(), req.GetEventId()); err != nil {
		return nil, err
	}
	snap, err := s.events.Snapshot(ctx, req.GetEventId())
	if err != nil {
		return nil, err
	}
	return fromAvailability(&snap), nil
}

func (s *Events) GetEventInfo(ctx context.Context, req *ticketv1.GetEventInfoRequest) (*ticketv1.EventInfo, error) {
	e, err := s.events.Event(ctx, req.GetEventId())
	if err != nil {
		return nil, err
	}
	return &ticketv1.EventInfo{EventId: e.ID, Title: e.Title, Artist: e.Artist, Seating: string(e.Seating), TimeZone: e.TimeZone}, nil
}

func (s *Events) GetSaleStatus(ctx context.Context, req *ticketv1.GetSaleStatusRequest) (*ticketv1.GetSaleStatusResponse, error) {
	found, missing, err := s.events.SaleStatuses(ctx, req.GetEventIds())
	if err != nil {
		return nil, err
	}
	res := &ticketv1.GetSaleStatusResponse{
		Sales: make([]*ticketv1.SaleStatus, 0, len(found)), MeasuredAgoMs: missing.Milliseconds(),
	}
	for _, id := range slices.Sorted(maps.Keys(found)) {
		res.Sales = append(res.Sales, fromSaleStatus(id, found[id]))
	}
	return res, nil
}

func (s *Events) GetLineSettings(ctx context.Context, req *ticketv1.GetLineSettingsRequest) (*ticketv1.LineSettings, error) {
	return answerLineSettings(s.events.LineSettings(ctx, req.GetEventId()))
}

// PutLineSettings accepts any id, since promotions and campaigns have lines too.
func (s *Events) PutLineSettings(ctx context.Context, req *ticketv1.PutLineSettingsRequest) (*ticketv1.LineSettings, error) {
	block, unblock := req.GetBlockUser(), req.GetUnblockUser()
	switch {
	case block != "" && !ids.ValidUser(block):
		return nil, errs.ErrInvalidID.WithFields(errs.Field{Path: "blockUser", Message: "is not a user id"})
	case unblock != "" && !ids.ValidUser(unblock):
		return nil, errs.ErrInvalidID.WithFields(errs.Field{Path: "unblockUser", Message: "is not a user id"})
	case block != "" && unblock != "":
		return nil, errs.ErrInvalidRequest.WithFields(errs.Field{Path: "unblockUser", Message: "excludes blockUser"})
	}
	change := event.LineChange{Threshold: req.Threshold, Paused: req.Paused, BlockUser: block, UnblockUser: unblock, Act: req.GetAct()}
	if change.Act > 0 && len(change.Settings()) != 1 {
		return nil, errs.ErrInvalidRequest.WithFields(errs.Field{Path: "act", Message: "is for one setting"})
	}
	return answerLineSettings(s.events.ChangeLine(ctx, req.GetEventId(), change))
}

func (s *Events) MarkLineOpened(ctx context.Context, req *ticketv1.MarkLineOpenedRequest) (*ticketv1.MarkLineOpenedResponse, error) {
	first, err := s.events.MarkLineOpened(ctx, req.GetEventId())
	if err != nil {
		return nil, err
	}
	return &ticketv1.MarkLineOpenedResponse{First: first}, nil
}

func answerLineSettings(l event.LineSettings, err error) (*ticketv1.LineSettings, error) {
	if err != nil {
		return nil, err
	}
	return fromLineSettings(l), nil
}

// EventAdmin serves the RPCs with which operators change events.
type EventAdmin struct {
	ticketv1.UnimplementedEventAdminServiceServer

	events *event.Service
}

// NewEventAdmin makes a server with which operators change the events of s.
func NewEventAdmin(s *event.Service) *EventAdmin { return &EventAdmin{events: s} }

func (s *EventAdmin) CreateEvent(ctx context.Context, req *ticketv1.CreateEventRequest) (*ticketv1.Event, error) {
	user, err := rpc.RequireRole(req, roleAdmin)
	if err != nil {
		return nil, err
	}
	key, err := idempotency.New(user, "CreateEvent", req.GetCaller().GetIdempotencyKey(), rpc.Fingerprint(req))
	if err != nil {
		return nil, err
	}
	spec, err := toSpec(req.GetSpec())
	if err != nil {
		return nil, err
	}
	snap, err := s.events.Create(ctx, spec, key)
	if err != nil {
		return nil, err
	}
	return s.withSettings(ctx, &snap)
}

func (s *EventAdmin) PutEvent(ctx context.Context, req *ticketv1.PutEventRequest) (*ticketv1.Event, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	match, err := toMatch(req.GetCaller().GetIfMatch())
	if err != nil {
		return nil, err
	}
	spec, err := toSpec(req.GetSpec())
	if err != nil {
		return nil, err
	}
	snap, err := s.events.Put(ctx, req.GetEventId(), spec, match)
	if err != nil {
		return nil, err
	}
	return s.withSettings(ctx, &snap)
}

// withSettings makes the answer to an operator's change: the event with its present settings, which
// another operator may have changed in the meantime.
func (s *EventAdmin) withSettings(ctx context.Context, snap *event.Snapshot) (*ticketv1.Event, error) {
	settings, err := s.events.Settings(ctx, snap.Event.ID)
	if err != nil {
		return nil, err
	}
	out := fromSnapshot(snap)
	out.HoldSeconds, out.SlotSeconds, out.Threshold, out.Etag = settings.HoldSeconds, settings.SlotSeconds, settings.Threshold, new(settings.ETag())
	out.ReturnsTo, out.MaxReturnsPerUser = new(string(*settings.ReturnsTo)), settings.MaxReturnsPerUser
	if snap.Unchecked {
		out.Warnings = []string{"PROVIDERS_UNKNOWN"}
	}
	out.ReturnWithin, out.CodesFrom, out.Expected = settings.ReturnWithin, settings.CodesFrom, rpc.FromExpected(*settings.Expected)
	out.StatementSuffix = settings.StatementSuffix
	return out, nil
}

func (s *EventAdmin) GetEventSettings(ctx context.Context, req *ticketv1.GetEventSettingsRequest) (*ticketv1.EventSettings, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	settings, err := s.events.Settings(ctx, req.GetEventId())
	if err != nil {
		return nil, err
	}
	return &ticketv1.EventSettings{Spec: fromSpec(&settings.Spec), Etag: new(settings.ETag())}, nil
}
