package events

import "time"

// SetNow sets the clock by which all seats are read again.
func (s *Store) SetNow(now func() time.Time) { s.halls.now = now }

// ReadElsewhere makes the seats of an event those that a snapshot of another server has shown.
func (s *Store) ReadElsewhere(id, snapshot string) { s.halls.of(id).snapshot = snapshot }

// ReadBeforeARestart makes the seats of an event those that were read before the server started.
func (s *Store) ReadBeforeARestart(id string) { s.halls.of(id).started = time.Time{} }
