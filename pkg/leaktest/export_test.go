package leaktest

// Find returns an error with the goroutines that have not ended within a time.
var Find = find
