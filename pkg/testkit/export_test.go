package testkit

// FindLeaks returns an error with the goroutines that have not ended within a time.
var FindLeaks = findLeaks
