package app_test

import (
	"context"

	"urr.guru/pkg/errs"

	statsv1 "urr.guru/proto/gen/urr/stats/v1"
)

type fakeStats struct {
	statsv1.UnimplementedStatsServiceServer
	callLog
}

func (f *fakeStats) GetEventStats(_ context.Context, in *statsv1.GetEventStatsRequest) (*statsv1.EventStats, error) {
	f.add("GetEventStats", nil, in)
	return &statsv1.EventStats{EventId: in.GetEventId()}, nil
}

func (f *fakeStats) GetEventStatsForOperators(_ context.Context, in *statsv1.GetEventStatsForOperatorsRequest) (*statsv1.OperatorEventStats, error) {
	f.add("GetEventStatsForOperators", in.GetCaller(), in)
	return &statsv1.OperatorEventStats{
		Counts: &statsv1.EventStats{EventId: in.GetEventId(), SeatsSold: 30, Rejected: 1}, Rewards: &statsv1.RewardStats{Failed: 2},
		Requests: &statsv1.RequestStats{Failed: 4},
	}, nil
}

func (f *fakeStats) GetEventSeries(_ context.Context, in *statsv1.GetEventSeriesRequest) (*statsv1.EventSeries, error) {
	f.add("GetEventSeries", nil, in)
	return &statsv1.EventSeries{Items: []*statsv1.SeriesPoint{{At: in.GetFrom(), Created: 3, SeatsSold: -1}}}, nil
}

// fakeFigures returns figures with revenue in two currencies.
func fakeFigures() *statsv1.Figures {
	return &statsv1.Figures{Created: 3, SeatsSold: -1, Revenue: []*statsv1.Revenue{
		{Currency: "EUR", Confirmed: 5, Net: 5, Payments: 1, ByCause: &statsv1.MoneyByCause{Membership: 5}},
		{Currency: "KRW", Confirmed: 70, Refunded: 80, Net: -10, Payments: 1, Refunds: 2, ByCause: &statsv1.MoneyByCause{Sale: 70, SaleRefund: 80}},
	}}
}

func (f *fakeStats) GetEventSeriesForOperators(_ context.Context, in *statsv1.GetEventSeriesForOperatorsRequest) (*statsv1.OperatorEventSeries, error) {
	f.add("GetEventSeriesForOperators", in.GetCaller(), in)
	return &statsv1.OperatorEventSeries{Items: []*statsv1.OperatorSeriesPoint{{At: in.GetFrom(), Figures: fakeFigures()}}}, nil
}

// ListDays returns two pages. The second one fails for the event "broken".
func (f *fakeStats) ListDays(_ context.Context, in *statsv1.ListDaysRequest) (*statsv1.ListDaysResponse, error) {
	f.add("ListDays", in.GetCaller(), in)
	switch {
	case in.GetCursor() == "":
		first := &statsv1.EventDay{Day: in.GetFrom(), EventId: "calm", TimeZone: "Asia/Seoul", Figures: fakeFigures()}
		return &statsv1.ListDaysResponse{Items: []*statsv1.EventDay{first}, NextCursor: "2"}, nil
	case in.GetEventId() == "broken":
		return nil, errs.ErrUnavailable
	default:
		return &statsv1.ListDaysResponse{Items: []*statsv1.EventDay{{Day: in.GetTo(), TimeZone: "Asia/Seoul", Figures: &statsv1.Figures{}}}}, nil
	}
}

func (f *fakeStats) ListActs(_ context.Context, in *statsv1.ListActsRequest) (*statsv1.ListActsResponse, error) {
	f.add("ListActs", in.GetCaller(), in)
	return &statsv1.ListActsResponse{}, nil
}
