package answers

import "time"

// Find is the SQL with which every request looks up its key.
const Find = findSQL

// Store implements the functions of the package.
type Store = answerStore

// At returns the package's functions at a fixed time.
func At(now time.Time) Store { return Store{now: &now} }

// PrunerEvery makes a Pruner with an interval that a test can wait for.
var PrunerEvery = pruner
