package request_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/testkit"
	"urr.guru/services/ingest/internal/request"
)

// users has the users of all requests, and counts how often it was asked.
type users struct {
	request.WinnerStore

	promotion promotion.Promotion
	calls     int
	given     int64
	succeeded []promotion.Request
}

func (s *users) Capacity(context.Context, string) (promotion.Capacity, bool, error) {
	return promotion.Capacity{Total: s.given + 1, Remaining: 1}, true, nil
}

func (s *users) Succeeded(context.Context, *promotion.Promotion) ([]promotion.Request, error) {
	return s.succeeded, nil
}

func (s *users) Promotion(context.Context, string) (promotion.Promotion, error) {
	return s.promotion, nil
}

func (s *users) Users(_ context.Context, requestIDs []string) (map[string]string, error) {
	s.calls++
	out := make(map[string]string, len(requestIDs))
	for _, id := range requestIDs {
		out[id] = "user-" + id
	}
	return out, nil
}

// The users of many winners are read together, in the order of the ranks.
func TestExportOfManyWinners(t *testing.T) {
	t.Parallel()
	s := newStored(t, 1)
	s.winners = make([]uuid.UUID, 2500)
	for i := range s.winners {
		s.winners[i] = uuid.New()
	}
	clock := testkit.NewClock(time.UnixMilli(s.promotion.AnnouncedAt))
	store := &users{promotion: s.promotion}
	var exported []request.Winner
	exporter := request.NewExporter(request.NewDraws(s, s, clock.Now), store)
	export := func(r request.Range) (more bool) {
		more, err := exporter.Winners(t.Context(), "big", r, func(page []request.Winner) error {
			exported = append(exported, page...)
			return nil
		})
		require.NoError(t, err)
		return more
	}
	require.False(t, export(request.Range{}))
	require.Len(t, exported, len(s.winners))
	for i, id := range s.winners {
		require.Equal(t, request.Winner{RequestID: id.String(), UserID: "user-" + id.String()}, exported[i])
	}
	require.Equal(t, 3, store.calls)

	whole := exported
	exported = nil
	for more := true; more; {
		before := len(exported)
		more = export(request.Range{After: int64(before), Limit: 800})
		require.Equal(t, more, len(exported) < len(whole))
		require.LessOrEqual(t, len(exported)-before, 800)
	}
	require.Equal(t, whole, exported)
	require.False(t, export(request.Range{After: 2499, Limit: 1}))
	require.False(t, export(request.Range{After: 9999, Limit: 1}))
	require.Len(t, exported, len(whole)+1)
}

// A list that lacks a place which was given before is not exported: the index is behind the table.
func TestExportFromAnIndexThatIsBehind(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(2_000)
	store := &users{promotion: promotion.Promotion{EventID: "e", EventType: promotion.FirstCome, ClosesAt: 3_000}, given: 2}
	exporter := request.NewExporter(request.NewDraws(&stored{}, &stored{}, func() time.Time { return now }), store)
	lines := 0
	export := func() error {
		_, err := exporter.Winners(t.Context(), "e", request.Range{}, func(page []request.Winner) error {
			lines += len(page)
			return nil
		})
		return err
	}
	store.succeeded = []promotion.Request{{RequestID: "a"}}
	require.ErrorIs(t, export(), errs.ErrUnavailable)
	require.Zero(t, lines)
	store.succeeded = append(store.succeeded, promotion.Request{RequestID: "b"})
	require.NoError(t, export())
	require.Equal(t, 2, lines)
	store.succeeded, now = nil, now.AddDate(1, 0, 0)
	require.NoError(t, export(), "expired")
}
