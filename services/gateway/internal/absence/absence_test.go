package absence_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/testkit"
	"urr.guru/services/gateway/internal/absence"
)

func TestCache(t *testing.T) {
	t.Parallel()
	c, err := absence.New[string](nil)
	require.NoError(t, err)
	require.NoError(t, c.Check("a"))
	require.NoError(t, c.Note("a", nil))
	gone := fmt.Errorf("wrapped: %w", errs.ErrEventNotFound)
	require.ErrorIs(t, c.Note("a", gone), errs.ErrEventNotFound)
	require.ErrorIs(t, c.Check("a"), errs.ErrEventNotFound)
	require.NoError(t, c.Check("b"))
	c.Forget("a")
	require.NoError(t, c.Check("a"))
	for _, other := range []error{errs.ErrUnavailable, errs.ErrOverloaded, errors.New("unknown")} {
		require.Equal(t, other, c.Note("a", other))
		require.NoError(t, c.Check("a"), "%v", other)
	}
}

// manualClock is the clock of the cache. It stands still until the test advances it.
type manualClock struct{ *testkit.Clock }

func (c manualClock) NowNano() int64                      { return c.Now().UnixNano() }
func (c manualClock) Tick(time.Duration) <-chan time.Time { return nil }

// A cached error expires after a second, however often the key is checked meanwhile.
func TestAbsenceEnds(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock(time.Date(2026, time.March, 1, 10, 0, 0, 0, time.UTC))
	c, err := absence.New[int](manualClock{clock})
	require.NoError(t, err)
	require.Error(t, c.Note(1, errs.ErrEventNotFound))
	for range 3 {
		clock.Advance(300 * time.Millisecond)
		require.Error(t, c.Check(1))
	}
	clock.Advance(200 * time.Millisecond)
	require.NoError(t, c.Check(1))
}
