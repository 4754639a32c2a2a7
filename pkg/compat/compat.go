// Package compat holds a switch for each piece of code that exists only for compatibility with the
// previous release. The switch is deleted together with that code. It is a constant that is true,
// with comments that say what the previous release does, and which release removes the switch:
//
//	// StoreOldKeys also writes the keys that replicas of 0.1 read.
//	const StoreOldKeys = true // removed in 0.3.0
//
// A test fails when a switch lacks these comments, and once the release that removes it is tagged.
// Before 0.1.0 there are no switches, since nothing has been released.
package compat
