package postgres

import "time"

// At returns a copy of the store whose clock stands at now.
func (s *Store) At(now time.Time) *Store {
	at := *s
	at.now = &now
	return &at
}
