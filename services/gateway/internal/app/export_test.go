package app

// Server makes the HTTP server with its time-outs.
var Server = server
