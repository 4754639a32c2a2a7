package sale

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Only the last time at which a sale was sold out counts.
func TestSoldOutForGood(t *testing.T) {
	t.Parallel()
	var c soldOutClock
	require.Equal(t, "never", c.String())
	for i, soldOut := range []bool{false, true, true, false, false, true, true} {
		c.record(time.Duration(i)*1500*time.Millisecond, soldOut)
	}
	require.Equal(t, "7.5 s after the opening", c.String())
	c.record(time.Minute, false)
	require.Zero(t, c.seconds())
}
