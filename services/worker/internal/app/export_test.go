package app

// RunBy runs the service as Run does, by another clock.
var RunBy = run
