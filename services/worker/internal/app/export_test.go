package app

// RunBy is Run with a clock as its last parameter.
var RunBy = run
