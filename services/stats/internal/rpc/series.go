package rpc

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc"
	statsv1 "urr.guru/proto/gen/urr/stats/v1"
	"urr.guru/services/stats/internal/figures"
)

// maxSteps is the most steps that a series may have: enough for one day by minute.
const maxSteps = 1440

func (s *Stats) GetEventSeries(ctx context.Context, req *statsv1.GetEventSeriesRequest) (*statsv1.EventSeries, error) {
	points, err := s.readSeries(ctx, req, true)
	if err != nil {
		return nil, err
	}
	out := &statsv1.EventSeries{}
	for _, p := range points {
		out.Items = append(out.Items, &statsv1.SeriesPoint{
			At: timestamppb.New(p.At), Created: p.Count(figures.Created), Confirmed: p.Count(figures.Confirmed), Cancelled: p.Count(figures.Cancelled),
			Expired: p.Count(figures.Expired), Rejected: p.Count(figures.Rejected), SeatsSold: p.Count(figures.SeatsSold),
		})
	}
	return out, nil
}

func (s *Stats) GetEventSeriesForOperators(ctx context.Context, req *statsv1.GetEventSeriesForOperatorsRequest) (*statsv1.OperatorEventSeries, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	points, err := s.readSeries(ctx, req, false)
	if err != nil {
		return nil, err
	}
	out := &statsv1.OperatorEventSeries{}
	for _, p := range points {
		out.Items = append(out.Items, &statsv1.OperatorSeriesPoint{At: timestamppb.New(p.At), Figures: toFigures(p.Figures)})
	}
	return out, nil
}

// seriesRequest has what visitors' and operators' requests for a series have in common.
type seriesRequest interface {
	GetEventId() string
	GetFrom() *timestamppb.Timestamp
	GetTo() *timestamppb.Timestamp
	GetStep() int32
}

func (s *Stats) readSeries(ctx context.Context, req seriesRequest, public bool) ([]figures.Point, error) {
	q := figures.SeriesQuery{
		EventID: req.GetEventId(), From: req.GetFrom().AsTime(), To: req.GetTo().AsTime(), Step: time.Duration(cmp.Or(req.GetStep(), 60)) * time.Second, Public: public,
	}
	invalid := func(path, message string) ([]figures.Point, error) {
		return nil, errs.ErrInvalidRequest.WithFields(errs.Field{Path: path, Message: message})
	}
	switch {
	case req.GetFrom().CheckValid() != nil || !wholeMinutes(q.From):
		return invalid("from", "must be a whole minute")
	case req.GetTo().CheckValid() != nil || !wholeMinutes(q.To):
		return invalid("to", "must be a whole minute")
	case !q.From.Before(q.To):
		return invalid("to", "must be after from")
	case q.Step%time.Minute != 0:
		return invalid("step", "must be whole minutes, in seconds")
	case q.To.Sub(q.From) > maxSteps*q.Step:
		return invalid("step", "must be so long that there are at most 1440")
	}
	return s.figures.EventSeries(ctx, q)
}

func wholeMinutes(t time.Time) bool { return t.Truncate(time.Minute).Equal(t) }

func (s *Stats) ListDays(ctx context.Context, req *statsv1.ListDaysRequest) (*statsv1.ListDaysResponse, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	f := figures.DaysFilter{EventID: req.GetEventId(), Limit: int(req.GetLimit())}
	for _, day := range []struct {
		name, value string
		to          *time.Time
	}{{"from", req.GetFrom(), &f.From}, {"to", req.GetTo(), &f.To}} {
		var err error
		if *day.to, err = time.Parse(time.DateOnly, day.value); err != nil {
			return nil, errs.ErrInvalidRequest.WithFields(errs.Field{Path: day.name, Message: "must be a day, YYYY-MM-DD"})
		}
	}
	var err error
	if f.After, err = figures.ParseDayCursor(req.GetCursor()); err != nil {
		return nil, err
	}
	days, next, err := s.days.List(ctx, f)
	if err != nil {
		return nil, err
	}
	out := &statsv1.ListDaysResponse{NextCursor: next}
	for _, d := range days {
		out.Items = append(out.Items, &statsv1.EventDay{
			Day: d.Day.Format(time.DateOnly), EventId: d.EventID, TimeZone: d.Zone, Figures: toFigures(d.Figures),
		})
	}
	return out, nil
}

func toFigures(f figures.Figures) *statsv1.Figures {
	return &statsv1.Figures{
		Created: f.Count(figures.Created), Confirmed: f.Count(figures.Confirmed), Cancelled: f.Count(figures.Cancelled),
		Expired: f.Count(figures.Expired), Rejected: f.Count(figures.Rejected), SeatsSold: f.Count(figures.SeatsSold),
		Comps: f.Count(figures.Comps), Voided: f.Count(figures.Voided),
		CheckedIn: f.Count(figures.CheckedIn), PaymentsDeclined: f.Count(figures.PaymentsDeclined), Entries: f.Count(figures.Entries),
		TransfersCompleted: f.Count(figures.TransfersCompleted), TransfersCancelled: f.Count(figures.TransfersCancelled),
		TransfersRejected: f.Count(figures.TransfersRejected), MembershipsActivated: f.Count(figures.MembershipsActivated),
		MembershipsRejected: f.Count(figures.MembershipsRejected), MembershipsEnded: f.Count(figures.MembershipsEnded),
		RewardsPaid: f.Count(figures.RewardsPaid), RewardsFailed: f.Count(figures.RewardsFailed), RewardsCancelled: f.Count(figures.RewardsCancelled),
		PointsPaid: f.Count(figures.PointsPaid), RequestsSucceeded: f.Count(figures.RequestsSucceeded),
		RequestsRejected: f.Count(figures.RequestsRejected), RequestsFailed: f.Count(figures.RequestsFailed), Revenue: toRevenue(f),
	}
}
