package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc"
	statsv1 "urr.guru/proto/gen/urr/stats/v1"
	"urr.guru/services/stats/internal/audit"
)

func (s *Stats) ListActs(ctx context.Context, req *statsv1.ListActsRequest) (*statsv1.ListActsResponse, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	f := audit.Filter{EventID: req.GetEventId(), UserID: req.GetUser(), Limit: int(req.GetLimit())}
	for name, t := range map[string]*timestamppb.Timestamp{"from": req.GetFrom(), "to": req.GetTo()} {
		if t != nil && t.CheckValid() != nil {
			return nil, errs.ErrInvalidRequest.WithFields(errs.Field{Path: name, Message: "must be a time"})
		}
	}
	if req.GetFrom() != nil {
		f.From = req.GetFrom().AsTime()
	}
	if req.GetTo() != nil {
		f.To = req.GetTo().AsTime()
	}
	var err error
	if f.Before, err = audit.ParseCursor(req.GetCursor()); err != nil {
		return nil, err
	}
	acts, next, err := audit.ReadPage(ctx, s.acts, f)
	if err != nil {
		return nil, err
	}
	out := &statsv1.ListActsResponse{NextCursor: next}
	for i := range acts {
		out.Items = append(out.Items, toAct(&acts[i]))
	}
	return out, nil
}

func toAct(a *audit.Act) *statsv1.Act {
	out := &statsv1.Act{
		ActId: a.ID.String(), At: timestamppb.New(a.At), UserId: a.UserID, Address: a.Address, Method: a.Method, Route: a.Route, Path: a.Path,
		EventId: a.EventID, RequestId: a.RequestID, Body: a.Body, BodySha256: a.BodySHA256,
	}
	if o := a.Outcome; o != nil {
		out.Status, out.Code, out.EndedAt = new(int32(o.Status)), rpc.Optional(o.Code), timestamppb.New(o.At) //nolint:gosec // an HTTP status
		if c := o.Entries; c != nil {
			out.Entries = &statsv1.EntryCounts{Total: c.Total, Added: c.Added, Removed: c.Removed}
		}
	}
	return out
}
