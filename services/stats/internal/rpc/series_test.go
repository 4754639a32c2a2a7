package rpc_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/errs"
	statsv1 "urr.guru/proto/gen/urr/stats/v1"
	"urr.guru/services/stats/internal/figures"
)

func TestGetEventSeries(t *testing.T) {
	t.Parallel()
	stats, store := client(t)
	from, to := timestamppb.New(updated), timestamppb.New(updated.Add(time.Hour))
	got, err := stats.GetEventSeries(t.Context(), &statsv1.GetEventSeriesRequest{EventId: "e", From: from, To: to})
	require.NoError(t, err)
	want := &statsv1.EventSeries{Items: []*statsv1.SeriesPoint{{At: from, Created: 3, Confirmed: 2, SeatsSold: 4}}}
	require.Empty(t, cmp.Diff(want, got, protocmp.Transform()))
	require.Equal(t, time.Minute, store.series.Step)
	require.True(t, store.series.Public)

	all, err := stats.GetEventSeriesForOperators(t.Context(), &statsv1.GetEventSeriesForOperatorsRequest{
		Caller: operator, EventId: "e", From: from, To: to, Step: 3600,
	})
	require.NoError(t, err)
	wanted := &statsv1.OperatorEventSeries{Items: []*statsv1.OperatorSeriesPoint{{At: from, Figures: allOfE}}}
	require.Empty(t, cmp.Diff(wanted, all, protocmp.Transform()))
	require.Equal(t, figures.SeriesQuery{EventID: "e", From: updated, To: updated.Add(time.Hour), Step: time.Hour}, store.series)
}

func TestBadSeriesAreRefused(t *testing.T) {
	t.Parallel()
	stats, _ := client(t)
	for name, c := range map[string]struct {
		from, to *timestamppb.Timestamp
		step     int32
		field    string
	}{
		"no begin":          {nil, timestamppb.New(updated), 60, "from"},
		"no end":            {timestamppb.New(updated), nil, 60, "to"},
		"no time":           {&timestamppb.Timestamp{Nanos: -1}, timestamppb.New(updated), 60, "from"},
		"a second":          {timestamppb.New(updated), timestamppb.New(updated.Add(time.Second)), 60, "to"},
		"backwards":         {timestamppb.New(updated), timestamppb.New(updated), 60, "to"},
		"a step of seconds": {timestamppb.New(updated), timestamppb.New(updated.Add(time.Hour)), 90, "step"},
		"a negative step":   {timestamppb.New(updated), timestamppb.New(updated.Add(time.Hour)), -60, "step"},
		"too many steps":    {timestamppb.New(updated), timestamppb.New(updated.Add(24*time.Hour + time.Minute)), 60, "step"},
	} {
		_, err := stats.GetEventSeries(t.Context(), &statsv1.GetEventSeriesRequest{EventId: "e", From: c.from, To: c.to, Step: c.step})
		require.ErrorIs(t, errs.FromStatus(err), errs.ErrInvalidRequest, name)
		require.Equal(t, c.field, errs.FromStatus(err).Fields[0].Path, name)
	}
	_, err := stats.GetEventSeries(t.Context(), &statsv1.GetEventSeriesRequest{
		EventId: "e", From: timestamppb.New(updated), To: timestamppb.New(updated.Add(24 * time.Hour)),
	})
	require.NoError(t, err, "a day by minute")
}

func TestListDays(t *testing.T) {
	t.Parallel()
	stats, store := client(t)
	friday := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	got, err := stats.ListDays(t.Context(), &statsv1.ListDaysRequest{
		Caller: operator, From: "2026-11-20", To: "2026-11-21", EventId: "e", Limit: 7, Cursor: figures.DayPosition{Day: friday, EventID: "d"}.Cursor(),
	})
	require.NoError(t, err)
	want := &statsv1.ListDaysResponse{
		Items: []*statsv1.EventDay{{Day: "2026-11-20", EventId: "e", TimeZone: "Asia/Seoul", Figures: allOfE}}, NextCursor: "next",
	}
	require.Empty(t, cmp.Diff(want, got, protocmp.Transform()))
	require.Equal(t, figures.DaysFilter{
		From: friday, To: friday.AddDate(0, 0, 1), EventID: "e", Limit: 7, After: figures.DayPosition{Day: friday, EventID: "d"},
	}, store.days)

	for name, c := range map[string]struct {
		req  *statsv1.ListDaysRequest
		want *errs.Error
	}{
		"nobody":      {&statsv1.ListDaysRequest{From: "2026-11-20", To: "2026-11-21"}, errs.ErrUnauthenticated},
		"no day":      {&statsv1.ListDaysRequest{Caller: operator, From: "2026-11-20"}, errs.ErrInvalidRequest},
		"no such day": {&statsv1.ListDaysRequest{Caller: operator, From: "2026-11-31", To: "2026-12-01"}, errs.ErrInvalidRequest},
		"an event":    {&statsv1.ListDaysRequest{Caller: operator, From: "2026-11-20", To: "2026-11-20", EventId: "a b"}, errs.ErrInvalidRequest},
		"a cursor":    {&statsv1.ListDaysRequest{Caller: operator, From: "2026-11-20", To: "2026-11-20", Cursor: "x"}, errs.ErrInvalidCursor},
	} {
		_, err := stats.ListDays(t.Context(), c.req)
		require.ErrorIs(t, errs.FromStatus(err), c.want, name)
	}
}
