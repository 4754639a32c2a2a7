package testkit

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// leakLimit is how long goroutines may take to end after the tests. Some of the clients of gRPC,
// Kafka, PostgreSQL and Redis end after Close has returned. goleak waits only half a second, which
// is too short on a busy machine.
const leakLimit = time.Minute

// MainWithoutLeaks runs the tests of a package, then fails if they left goroutines behind. It does not
// return:
//
//	func TestMain(m *testing.M) { testkit.MainWithoutLeaks(m) }
func MainWithoutLeaks(m *testing.M, opts ...goleak.Option) {
	os.Exit(RunWithoutLeaks(m, opts...)) //nolint:forbidigo // as the testing package does without a TestMain
}

// RunWithoutLeaks is like MainWithoutLeaks, but returns the exit code.
func RunWithoutLeaks(m *testing.M, opts ...goleak.Option) int {
	if code := m.Run(); code != 0 {
		return code
	}
	if err := findLeaks(leakLimit, opts...); err != nil {
		fmt.Fprintln(os.Stderr, "the tests left goroutines behind:", err)
		return 1
	}
	return 0
}

func findLeaks(within time.Duration, opts ...goleak.Option) error {
	for begun := time.Now(); ; {
		err := goleak.Find(opts...) // waits up to half a second by itself
		if err == nil || time.Since(begun) > within {
			return err
		}
	}
}
