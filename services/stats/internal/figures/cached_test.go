package figures_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/stats/internal/figures"
)

// slowStore counts its queries, which take a tenth of a second.
type slowStore struct{ totals, series int }

func (s *slowStore) EventFigures(context.Context, string) (figures.EventFigures, error) {
	s.totals++
	time.Sleep(time.Second / 10)
	return figures.EventFigures{}, nil
}

func (s *slowStore) EventSeries(context.Context, figures.SeriesQuery) ([]figures.Point, error) {
	s.series++
	time.Sleep(time.Second / 10)
	return nil, nil
}

// However many ask, each event and each series is read once a second.
func TestFiguresAreReadOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{}
		cached := figures.NewCached(store, time.Now)
		from := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
		ask := func(q figures.SeriesQuery) {
			var work sync.WaitGroup
			var failed [50]error
			for i := range failed {
				work.Go(func() {
					_, err := cached.EventFigures(t.Context(), q.EventID)
					_, seriesErr := cached.EventSeries(t.Context(), q)
					failed[i] = errors.Join(err, seriesErr)
				})
			}
			work.Wait()
			require.NoError(t, errors.Join(failed[:]...))
		}
		hour := figures.SeriesQuery{EventID: "e", From: from, To: from.Add(time.Hour), Step: time.Minute, Public: true}
		ask(hour)
		ask(hour)
		require.Equal(t, slowStore{1, 1}, *store)
		operators := hour
		operators.Public = false
		ask(operators)
		require.Equal(t, slowStore{1, 2}, *store, "operators see more")
		time.Sleep(time.Second)
		ask(hour)
		require.Equal(t, slowStore{2, 3}, *store)
	})
}
