package events

import "time"

// SetNow sets the clock that decides when all seats are read again.
func (s *Store) SetNow(now func() time.Time) { s.seats.now = now }

// SetSnapshot sets the database snapshot (pg_snapshot) of the cached seats of an event.
func (s *Store) SetSnapshot(id, snapshot string) { s.seats.get(id).snapshot = snapshot }

// SetRestarted makes the cached seats of an event older than the start of the database server.
func (s *Store) SetRestarted(id string) { s.seats.get(id).serverStarted = time.Time{} }
