package notices

// Page makes the store tell n orders of an event, and of one event, in a transaction.
func (s *Store) Page(n int32) *Store {
	s.orderBatch, s.eventsAtOnce = n, 1
	return s
}
