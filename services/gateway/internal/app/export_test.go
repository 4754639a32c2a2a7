package app

import (
	"time"
)

// Rekey replaces the secrets, like a change of their files.
func (g *Gateway) Rekey(cfg *Config) error { return g.rekey(cfg) }

// Server returns the HTTP server of a handler.
var Server = newServer

// ReadSeatsEvery sets the time between two reads of an event whose changes are streamed.
func (g *Gateway) ReadSeatsEvery(d time.Duration) { g.changes.Interval = d }
