package lobby

// RanksKept reports whether the file of a lobby's entries in memory has their positions.
func (s *Service) RanksKept(k Key) bool {
	f := s.public.cachedFile(k)
	return f != nil && f.ranks != nil
}

// TermsKept returns the number of events whose terms are cached.
func (s *Service) TermsKept() int {
	s.terms.mu.Lock()
	defer s.terms.mu.Unlock()
	return len(s.terms.latest)
}
