package answers

import "time"

// Find is the statement that every request with a key runs.
const Find = find

// Store is what the functions of the package work by.
type Store = store

// At is the package at a time that a test sets.
func At(now time.Time) Store { return Store{now: &now} }
