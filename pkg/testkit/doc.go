// Package testkit holds what tests of all modules share: a clock that only the test moves, waiting
// for a state, the check for leaked goroutines, and what `make quick` leaves out.
package testkit
