// Package shorttest leaves tests out of `go test -short`, which `make quick` runs after an edit.
package shorttest

import "testing"

// LeaveOut skips the test when -short is given. what is the kind of test in the plural, as in "tests
// that start servers".
func LeaveOut(tb testing.TB, what string) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("-short leaves out " + what)
	}
}
