package lobby

// RanksKept reports whether the ranks of a lobby are kept with its file.
func (s *Service) RanksKept(k Key) bool {
	f := s.public.cachedFile(k)
	return f != nil && f.ranks != nil
}
