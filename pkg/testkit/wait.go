package testkit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

const (
	firstPause, longestPause = time.Millisecond, 50 * time.Millisecond // pauses between polls

	margin = 20 * time.Second // before the deadline of the run, for the failure's message and cleanups
)

// Until polls until condition holds. The message (a format and its arguments) says which state the
// test waits for. There is no time limit of its own, so that a test is slow but does not fail on a
// slow machine. It fails shortly before the deadline of the run (`go test -timeout`), so that the
// failure shows which test waits. Inside a testing/synctest bubble use synctest.Wait instead.
func Until(t testing.TB, condition func() bool, message ...any) {
	t.Helper()
	pollUntilDeadline(t, func() error {
		if condition() {
			return nil
		}
		return errConditionFalse
	}, message)
}

// UntilNoError polls until attempt returns nil. If the test fails, the message has the last error.
func UntilNoError(t testing.TB, attempt func() error, message ...any) {
	t.Helper()
	pollUntilDeadline(t, attempt, message)
}

// Receive waits for the next value of a channel and returns it; the zero value once it is closed.
func Receive[T any](t testing.TB, channel <-chan T, message ...any) T {
	t.Helper()
	ctx, cancel := Context(t)
	defer cancel()
	select {
	case v := <-channel:
		return v
	case <-ctx.Done():
		t.Fatalf("nothing was received: %s", formatMessage(message))
		panic("unreachable")
	}
}

// Context returns a context that ends with the test, or shortly before the deadline of the run.
func Context(t testing.TB) (context.Context, context.CancelFunc) {
	t.Helper()
	if run, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if deadline, limited := run.Deadline(); limited {
			return context.WithDeadline(t.Context(), deadline.Add(-margin))
		}
	}
	return context.WithCancel(t.Context())
}

var errConditionFalse = errors.New("the condition does not hold")

func pollUntilDeadline(t testing.TB, attempt func() error, message []any) {
	t.Helper()
	ctx, cancel := Context(t)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := attempt()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%v: %s", err, formatMessage(message))
			return
		case <-time.After(pause):
		}
	}
}

func formatMessage(message []any) string {
	if len(message) == 0 {
		return "waited until the end of the test run"
	}
	if format, ok := message[0].(string); ok {
		return fmt.Sprintf(format, message[1:]...)
	}
	return fmt.Sprint(message...)
}
