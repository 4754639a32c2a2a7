package campaign_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/reward/internal/campaign"
)

// slowReads is a store whose reads take a tenth of a second.
type slowReads struct {
	campaign.Store

	mu    sync.Mutex
	reads int
}

func (s *slowReads) Get(_ context.Context, eventID string) (campaign.Campaign, time.Time, error) {
	s.mu.Lock()
	s.reads++
	s.mu.Unlock()
	time.Sleep(100 * time.Millisecond) // by the fake clock
	if eventID == "none" {
		return campaign.Campaign{}, time.Time{}, campaign.ErrNotFound
	}
	prizes := []campaign.Prize{{ID: 1, Stock: new(int64(9))}}
	return campaign.Campaign{EventID: eventID, Prizes: prizes}, time.Date(2026, 3, 7, 12, 0, 0, 0, time.UTC), nil
}

func (*slowReads) Enter(context.Context, string, string, campaign.EntryMethod) (campaign.RewardedEntry, error) {
	return campaign.RewardedEntry{Prize: &campaign.Prize{ID: 1, Stock: new(int64(5))}}, nil
}

// However many pages ask for a campaign, it is read once a second.
func TestPagesShareARead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slowReads{}
		cached := campaign.Cached(s, time.Second)
		var pages sync.WaitGroup
		for range 100 {
			pages.Go(func() {
				c, _, err := cached.Get(t.Context(), "c")
				require.NoError(t, err)
				require.Equal(t, "c", c.EventID)
			})
		}
		pages.Wait()
		require.Equal(t, 1, s.reads)
		_, first, err := cached.Get(t.Context(), "c")
		require.NoError(t, err)
		time.Sleep(500 * time.Millisecond)
		_, second, err := cached.Get(t.Context(), "c")
		require.NoError(t, err)
		require.Equal(t, 500*time.Millisecond, second.Sub(first), "the time goes on")
		require.Equal(t, 1, s.reads)
		time.Sleep(500 * time.Millisecond)
		_, _, err = cached.Get(t.Context(), "c")
		require.NoError(t, err)
		require.Equal(t, 2, s.reads)

		for range 3 {
			_, _, err = cached.Get(t.Context(), "none")
			require.ErrorIs(t, err, campaign.ErrNotFound)
		}
		require.Equal(t, 3, s.reads)
	})
}

// If the visitor whose page began a read leaves, the read goes on for other visitors.
func TestReadOutlivesThePageThatBeganIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slowReads{}
		cached := campaign.Cached(s, time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, _, err := cached.Get(ctx, "c")
			left <- err
		}()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-left, context.Canceled)
		_, _, err := cached.Get(t.Context(), "c")
		require.NoError(t, err)
		require.Equal(t, 1, s.reads)
	})
}

// A member who has drawn sees the stock after the draw.
func TestDrawLowersTheStockInMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slowReads{}
		cached := campaign.Cached(s, time.Second)
		before, _, err := cached.Get(t.Context(), "c")
		require.NoError(t, err)
		for range 2 {
			_, err = cached.Enter(t.Context(), "c", "ann", campaign.EntryMethod{})
			require.NoError(t, err)
		}
		after, _, err := cached.Get(t.Context(), "c")
		require.NoError(t, err)
		require.Equal(t, 1, s.reads)
		require.Equal(t, int64(9), *before.Prizes[0].Stock, "what was read before stays")
		require.Equal(t, int64(5), *after.Prizes[0].Stock)
	})
}
