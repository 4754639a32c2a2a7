package postgres

import "time"

// At is the store at a time that a test sets.
func (s *Store) At(now time.Time) *Store {
	at := *s
	at.now = &now
	return &at
}
