package overload

import "time"

// Longest is the function longest, for tests with waits of their own.
var Longest = longest

// Measure returns the result of measure.
func (s *Shedder) Measure() time.Duration { return s.measure() }
