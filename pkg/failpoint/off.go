//go:build !failpoint

package failpoint

// Hit does nothing in this build.
func Hit(string) {}

// Err never fails in this build.
func Err(string) error { return nil }
