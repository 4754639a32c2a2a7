package figures_test

import (
	"context"
	"encoding/base64"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/stats/internal/figures"
)

var friday = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)

// dayStore is a fake store of events that each have figures on Friday and Saturday.
type dayStore []string

func (s dayStore) CountedEvents(context.Context, time.Time, time.Time) ([]string, error) {
	return s, nil
}

func (s dayStore) EventDays(_ context.Context, q figures.DaysQuery) (page []figures.EventDay, err error) {
	for _, day := range []time.Time{friday, friday.AddDate(0, 0, 1)} {
		for _, id := range slices.Sorted(maps.Keys(q.Zones)) {
			afterCursor := day.After(q.AfterDay) || day.Equal(q.AfterDay) && id > q.AfterEvent
			if afterCursor && len(page) < q.Limit {
				page = append(page, figures.EventDay{EventID: id, Day: day, Zone: q.Zones[id]})
			}
		}
	}
	return page, nil
}

type zones map[string]string

func (z zones) ZonesOf(_ context.Context, ids []string) (map[string]string, error) {
	found := make(map[string]string)
	for _, id := range ids {
		found[id] = z[id]
	}
	return found, nil
}

func TestDaysComeInPages(t *testing.T) {
	t.Parallel()
	list := figures.NewDays(dayStore{"", "a", "b"}, zones{"": "Asia/Seoul", "a": "Asia/Seoul", "b": "Europe/Paris"})
	filter := figures.DaysFilter{From: friday, To: friday.AddDate(0, 0, 1), Limit: 2}
	var got []string
	for range 4 {
		page, next, err := list.List(t.Context(), filter)
		require.NoError(t, err)
		for _, day := range page {
			got = append(got, day.Day.Format("02 ")+day.EventID+" "+day.Zone)
		}
		if next == "" {
			break
		}
		filter.After, err = figures.ParseDayCursor(next)
		require.NoError(t, err)
	}
	require.Equal(t, []string{
		"20  Asia/Seoul", "20 a Asia/Seoul", "20 b Europe/Paris", "21  Asia/Seoul", "21 a Asia/Seoul", "21 b Europe/Paris",
	}, got)

	filter.EventID, filter.After = "b", figures.DayPosition{}
	page, next, err := list.List(t.Context(), filter)
	require.NoError(t, err)
	require.Len(t, page, 2)
	require.Empty(t, next)
}

func TestBadPeriodsAreRefused(t *testing.T) {
	t.Parallel()
	list := figures.NewDays(dayStore{}, zones{})
	for days, fails := range map[int]bool{-1: true, 0: false, 365: false, 366: true} {
		_, _, err := list.List(t.Context(), figures.DaysFilter{From: friday, To: friday.AddDate(0, 0, days)})
		require.Equal(t, fails, err != nil, days)
	}
	for _, cursor := range []string{"x", "1", "2026-11-20.a", "1.a b", ".a"} {
		_, err := figures.ParseDayCursor(base64.RawURLEncoding.EncodeToString([]byte(cursor)))
		require.ErrorIs(t, err, errs.ErrInvalidCursor, cursor)
	}
}
