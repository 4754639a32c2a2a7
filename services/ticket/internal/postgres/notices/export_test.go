package notices

// Page limits a transaction of the store to the e-mails about one event to n of its orders.
func (s *Store) Page(n int32) *Store {
	s.orderBatch, s.eventsAtOnce = n, 1
	return s
}
