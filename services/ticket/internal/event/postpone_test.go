package event_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/ticket/internal/event"
)

func TestPostponement(t *testing.T) {
	t.Parallel()
	now := time.Date(2041, 3, 14, 19, 0, 0, 0, time.UTC)
	in := func(d time.Duration) time.Time { return now.Add(d) }
	const day = 24 * time.Hour
	sale := func() event.Event {
		return event.Event{State: event.Open, Spec: event.Spec{StartsAt: in(-time.Hour), SalesOpenAt: in(-30 * day), SalesCloseAt: in(-2 * time.Hour)}}
	}
	for name, c := range map[string]struct {
		ask     event.Postponement
		state   event.State
		want    event.Postponed
		refused error
		fields  []string
	}{
		"by default": {
			ask:  event.Postponement{StartsAt: in(30 * day)},
			want: event.Postponed{StartsAt: in(30 * day), SalesCloseAt: in(-2 * time.Hour), FeesUntil: in(7 * day)},
		},
		"paused": {
			ask: event.Postponement{StartsAt: in(30 * day)}, state: event.Paused,
			want: event.Postponed{StartsAt: in(30 * day), SalesCloseAt: in(-2 * time.Hour), FeesUntil: in(7 * day)},
		},
		"all times": {
			ask:  event.Postponement{StartsAt: in(9 * day), DoorsAt: in(8 * day), SalesCloseAt: in(5 * day), RefundUntil: in(8 * day)},
			want: event.Postponed{StartsAt: in(9 * day), DoorsAt: in(8 * day), SalesCloseAt: in(5 * day), FeesUntil: in(8 * day)},
		},
		"sooner than refunds last": {
			ask:  event.Postponement{StartsAt: in(day)},
			want: event.Postponed{StartsAt: in(day), SalesCloseAt: in(-2 * time.Hour), FeesUntil: in(23 * time.Hour)},
		},
		"a delay while people come in": {
			ask:  event.Postponement{StartsAt: in(5 * time.Hour)},
			want: event.Postponed{StartsAt: in(5 * time.Hour), ClosesAt: in(-2 * time.Hour), SalesCloseAt: in(-2 * time.Hour), FeesUntil: in(-2 * time.Hour)},
		},
		"with new doors": {
			ask: event.Postponement{StartsAt: in(5 * time.Hour), DoorsAt: in(4 * time.Hour)},
			want: event.Postponed{
				StartsAt: in(5 * time.Hour), DoorsAt: in(4 * time.Hour), SalesCloseAt: in(-2 * time.Hour), FeesUntil: in(4 * time.Hour),
			},
		},
		"cancelled":       {ask: event.Postponement{StartsAt: in(day)}, state: event.Cancelled, refused: event.ErrCancelled},
		"ended":           {ask: event.Postponement{StartsAt: in(day)}, state: event.Ended, refused: event.ErrCancelled},
		"to now":          {ask: event.Postponement{StartsAt: now}, refused: event.ErrStartPast},
		"doors too late":  {ask: event.Postponement{StartsAt: in(day), DoorsAt: in(2 * day)}, refused: event.ErrInvalid, fields: []string{"doorsAt"}},
		"no sale at all":  {ask: event.Postponement{StartsAt: in(day), SalesCloseAt: in(-30 * day)}, refused: event.ErrInvalid, fields: []string{"salesCloseAt"}},
		"refunds at last": {ask: event.Postponement{StartsAt: in(day), RefundUntil: in(day)}, refused: event.ErrInvalid, fields: []string{"refundUntil"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := sale()
			if c.state != "" {
				e.State = c.state
			}
			got, err := c.ask.Plan(&e, time.Time{}, now)
			if c.refused != nil {
				require.ErrorIs(t, err, c.refused)
				for i, f := range errs.From(err).Fields {
					require.Equal(t, c.fields[i], f.Path)
				}
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, *got)

			e.PostponedFrom, e.StartsAt, e.SalesCloseAt, e.FeesUntil = e.StartsAt, got.StartsAt, got.SalesCloseAt, got.FeesUntil
			again, err := c.ask.Plan(&e, got.DoorsAt, now.Add(time.Hour))
			require.NoError(t, err)
			require.Nil(t, again, "a repeated call")
		})
	}
}

// While a cancellation can be undone, the status for the waiting line is PAUSED, or CLOSED after
// the end of the sale. The status for visitors is CANCELLED at once.
func TestStatusForTheLine(t *testing.T) {
	t.Parallel()
	now := time.Date(2041, 3, 14, 19, 0, 0, 0, time.UTC)
	sale := event.Sale{State: event.Cancelled, OpenAt: now, CloseAt: now.Add(time.Hour)}
	require.Equal(t, event.StatusCancelled, sale.Status(now, false))
	require.Equal(t, event.StatusPaused, sale.LineStatus(now, false))
	require.Equal(t, event.StatusPaused, sale.LineStatus(now.Add(-time.Hour), false), "it may open meanwhile")
	require.Equal(t, event.StatusClosed, sale.LineStatus(now.Add(time.Hour), false))
	sale.State = event.Ended
	require.Equal(t, event.StatusCancelled, sale.LineStatus(now, false))
}
