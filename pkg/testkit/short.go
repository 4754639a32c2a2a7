package testkit

import "testing"

// SkipIfShort leaves the test out of `go test -short`, which `make quick` runs after an edit. kind
// is the kind of the test in the plural, such as "tests that start servers".
func SkipIfShort(tb testing.TB, kind string) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("-short leaves out " + kind)
	}
}
