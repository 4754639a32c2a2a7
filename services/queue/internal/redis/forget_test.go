package redis_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// After the loss of a large line, the set `restored` has each visitor who has returned. Removing
// all of them by one command would block Redis for every line.
func TestRestoredIsCleanedInPages(t *testing.T) {
	f := setup(t, 0)
	f.failover()
	f.peek()
	members := make([]any, 1500)
	for i := range members {
		members[i] = fmt.Sprintf("u-%d:1", i)
	}
	require.NoError(t, f.client.SAdd(f.ctx(), f.key("restored"), members...).Err())
	clean := func() (left int64, more bool) {
		t.Helper()
		f.tick()
		s, _, more, err := f.store.Clean(f.ctx(), f.event, f.known)
		f.observe(s, err)
		left, err = f.client.SCard(f.ctx(), f.key("restored")).Result()
		require.NoError(t, err)
		return left, more
	}
	f.advance(3599 * time.Second)
	left, more := clean()
	require.Equal(t, int64(1500), left, "tickets of the last epoch count for an hour")
	require.False(t, more)
	f.advance(2 * time.Second)
	left, more = clean()
	require.Equal(t, int64(500), left)
	require.True(t, more)
	left, more = clean()
	require.Zero(t, left)
	require.False(t, more)
}
