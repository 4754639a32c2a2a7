package app

// Server is the listener's, with its time-outs.
var Server = server
