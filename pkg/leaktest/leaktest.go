// Package leaktest fails the tests of a package when they leave goroutines behind.
//
//	func TestMain(m *testing.M) { leaktest.Main(m) }
//
// Clients of gRPC, Kafka, PostgreSQL and Redis end some of their goroutines after Close has
// returned. goleak waits for them for half a second only, which is too short on a busy machine.
package leaktest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// limit is how long goroutines have to end.
const limit = time.Minute

// Main runs the tests, then checks for goroutines; it does not return.
func Main(m *testing.M, opts ...goleak.Option) {
	os.Exit(Run(m, opts...)) //nolint:forbidigo // as the testing package does without a TestMain
}

// Run is Main that returns the exit code.
func Run(m *testing.M, opts ...goleak.Option) int {
	if code := m.Run(); code != 0 {
		return code
	}
	if err := find(limit, opts...); err != nil {
		fmt.Fprintln(os.Stderr, "the tests left goroutines behind:", err)
		return 1
	}
	return 0
}

// find returns an error with the goroutines that do not end.
func find(within time.Duration, opts ...goleak.Option) error {
	for begun := time.Now(); ; {
		err := goleak.Find(opts...) // makes the pauses
		if err == nil || time.Since(begun) > within {
			return err
		}
	}
}
