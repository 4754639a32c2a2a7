package overload

import "time"

// Percentile90 exports percentile90.
var Percentile90 = percentile90

// Measure returns the result of measure.
func (s *Shedder) Measure() time.Duration { return s.measure() }
