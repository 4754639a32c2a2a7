// Package compat names everything that exists for the sake of the release before this one: a switch
// for each, which is deleted together with what it guards. A switch is a constant that is true, with
// a comment that says what the release before does, and the release that removes it:
//
//	// StoreOldKeys also writes the keys that replicas of 0.1 read.
//	const StoreOldKeys = true // removed in 0.3.0
//
// A test fails when a switch lacks its comments, and once the release that removes it is tagged. Before
// 0.1.0 there are none, since nothing has been released.
package compat
