package postgres

import "time"

// At is the store at a time that a test sets.
func (s *Store) At(now time.Time) *Store { return &Store{pool: s.pool, q: s.q, now: &now} }
