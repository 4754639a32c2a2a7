package testkit

import "testing"

// SkipIfShort leaves the test out of `go test -short`, which `make quick` runs after an edit. what is
// the kind of test in the plural, as in "tests that start servers".
func SkipIfShort(tb testing.TB, what string) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("-short leaves out " + what)
	}
}
