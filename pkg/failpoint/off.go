//go:build !failpoint

package failpoint

import "time"

// Hit does nothing in this build.
func Hit(string) {}

// Err never fails in this build.
func Err(string) error { return nil }

// Now is the time.
func Now() time.Time { return time.Now() }
