package rpc

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/rpc"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/event"
)

func (s *EventAdmin) PauseEvent(ctx context.Context, req *ticketv1.PauseEventRequest) (*ticketv1.EventState, error) {
	return s.act(ctx, req, event.Pause, 0)
}

func (s *EventAdmin) ResumeEvent(ctx context.Context, req *ticketv1.ResumeEventRequest) (*ticketv1.EventState, error) {
	return s.act(ctx, req, event.Resume, 0)
}

func (s *EventAdmin) CancelEvent(ctx context.Context, req *ticketv1.CancelEventRequest) (*ticketv1.EventState, error) {
	grace := event.DefaultGrace
	if req.GraceSeconds != nil {
		grace = time.Duration(req.GetGraceSeconds()) * time.Second
	}
	return s.act(ctx, req, event.Cancel, grace)
}

func (s *EventAdmin) UndoCancelEvent(ctx context.Context, req *ticketv1.UndoCancelEventRequest) (*ticketv1.EventState, error) {
	return s.act(ctx, req, event.Undo, 0)
}

func (s *EventAdmin) RefundEvent(ctx context.Context, req *ticketv1.RefundEventRequest) (*ticketv1.EventState, error) {
	return s.act(ctx, req, event.Refund, 0)
}

func (s *EventAdmin) PostponeEvent(ctx context.Context, req *ticketv1.PostponeEventRequest) (*ticketv1.EventState, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	return toState(req.GetEventId())(s.events.Postpone(ctx, req.GetEventId(), event.Postponement{
		StartsAt: toTime(req.GetStartsAt()), DoorsAt: toTime(req.GetDoorsAt()), SalesCloseAt: toTime(req.GetSalesCloseAt()),
		RefundUntil: toTime(req.GetRefundUntil()),
	}))
}

// actRequest is an operator's request to change the state of an event.
type actRequest interface {
	GetCaller() *commonv1.Caller
	GetEventId() string
}

func (s *EventAdmin) act(ctx context.Context, req actRequest, act event.Act, grace time.Duration) (*ticketv1.EventState, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	return toState(req.GetEventId())(s.events.Act(ctx, req.GetEventId(), act, grace))
}

func toState(eventID string) func(event.StateAndCounts, error) (*ticketv1.EventState, error) {
	return func(s event.StateAndCounts, err error) (*ticketv1.EventState, error) {
		if err != nil {
			return nil, err
		}
		return &ticketv1.EventState{
			EventId: eventID, State: string(s.State), RefundsAt: timestamp(s.RefundsAt), Holds: s.Holds, Orders: s.Orders, Tickets: s.Tickets,
			Refunds: s.Refunds,
		}, nil
	}
}

// toTime converts a timestamp to a time, nil to the zero time.
func toTime(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}
