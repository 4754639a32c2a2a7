package request_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/promotion"
	"urr.guru/pkg/testkit"
	"urr.guru/services/ingest/internal/request"
)

// userStore is a store with a user for every request. It counts its calls.
type userStore struct {
	request.WinnerStore

	promotion promotion.Promotion
	calls     int
	firstCome int
}

// FirstComeWinners returns firstCome winners in all, at most 2,700 per call.
func (s *userStore) FirstComeWinners(_ context.Context, _ string, after int64) (page []request.Winner, more bool, err error) {
	s.calls++
	for i := int(after); i < s.firstCome && len(page) < 2700; i++ {
		page = append(page, request.Winner{RequestID: fmt.Sprint("r", i), UserID: "u"})
	}
	return page, len(page) == 2700, nil
}

func (s *userStore) Promotion(context.Context, string) (promotion.Promotion, error) {
	return s.promotion, nil
}

func (s *userStore) Users(_ context.Context, requestIDs []string) (map[string]string, error) {
	s.calls++
	out := make(map[string]string, len(requestIDs))
	for _, id := range requestIDs {
		out[id] = "user-" + id
	}
	return out, nil
}

// The users of many winners are read in few calls, and exported in the order of the ranks.
func TestExportOfManyWinners(t *testing.T) {
	t.Parallel()
	s := newStored(t, 1)
	s.winners = make([]uuid.UUID, 2500)
	for i := range s.winners {
		s.winners[i] = uuid.New()
	}
	clock := testkit.NewClock(time.UnixMilli(s.promotion.AnnouncedAt))
	store := &userStore{promotion: s.promotion}
	var exported []request.Winner
	exporter := request.NewExporter(request.NewDraws(s, s, 1<<20, clock.Now), store)
	export := func(r request.WinnerRange) (more bool) {
		more, err := exporter.Winners(t.Context(), "big", r, func(page []request.Winner) error {
			exported = append(exported, page...)
			return nil
		})
		require.NoError(t, err)
		return more
	}
	require.False(t, export(request.WinnerRange{}))
	require.Len(t, exported, len(s.winners))
	for i, id := range s.winners {
		require.Equal(t, request.Winner{RequestID: id.String(), UserID: "user-" + id.String()}, exported[i])
	}
	require.Equal(t, 3, store.calls)

	whole := exported
	exported = nil
	for more := true; more; {
		before := len(exported)
		more = export(request.WinnerRange{After: int64(before), Limit: 800})
		require.Equal(t, more, len(exported) < len(whole))
		require.LessOrEqual(t, len(exported)-before, 800)
	}
	require.Equal(t, whole, exported)
	require.False(t, export(request.WinnerRange{After: 2499, Limit: 1}))
	require.False(t, export(request.WinnerRange{After: 9999, Limit: 1}))
	require.Len(t, exported, len(whole)+1)
}

// The winners of a first-come promotion are read by place. Reading a part costs the same however
// many winners come before it, and at most one page is in memory.
func TestExportOfManyFirstCome(t *testing.T) {
	t.Parallel()
	const winners = 150_500
	store := &userStore{promotion: promotion.Promotion{EventID: "e", EventType: promotion.FirstCome}, firstCome: winners}
	exporter := request.NewExporter(nil, store)
	at := 0
	r := request.WinnerRange{Limit: 50_000}
	for more := true; more; {
		store.calls = 0
		var err error
		more, err = exporter.Winners(t.Context(), "e", r, func(page []request.Winner) error {
			require.LessOrEqual(t, len(page), 1000)
			for _, w := range page {
				require.Equal(t, fmt.Sprint("r", at), w.RequestID)
				at++
			}
			r.After = int64(at)
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, at < winners, more)
		require.LessOrEqual(t, store.calls, 20)
	}
	require.Equal(t, winners, at)

	var got []request.Winner
	more, err := exporter.Winners(t.Context(), "e", request.WinnerRange{After: 1_500, Limit: 2}, func(page []request.Winner) error {
		got = append(got, page...)
		return nil
	})
	require.NoError(t, err)
	require.True(t, more)
	require.Equal(t, []request.Winner{{RequestID: "r1500", UserID: "u"}, {RequestID: "r1501", UserID: "u"}}, got)
}
