package harness

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// recorder is a test double of testing.TB that records failures.
type recorder struct {
	testing.TB
	errors   chan string
	cleanups []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.errors <- fmt.Sprintf(format, args...)
}

func TestAlwaysFailsOnBrokenInvariantsOnly(t *testing.T) {
	t.Parallel()
	rec := &recorder{TB: t, errors: make(chan string, 10)}
	var calls atomic.Int64
	(&Platform{tb: rec}).Always("no oversell", time.Millisecond, func(context.Context) (string, error) {
		switch n := calls.Add(1); {
		case n < 5:
			return "", errors.New("connection refused")
		case n < 10:
			return "", nil
		default:
			return "seat A-1-1 twice", nil
		}
	})
	require.Equal(t, `invariant "no oversell" does not hold: seat A-1-1 twice`, <-rec.errors)
	for _, f := range rec.cleanups {
		f()
	}
	require.EqualValues(t, 10, calls.Load(), "one report is enough")
}
