package audit

// Admission is one entry of the stream {eventId}:admitted: an issued slot.
type Admission struct {
	Slot, User string
	// Score is the place in the line (lower is earlier), µs.
	Score int64
	// Tick is the second of Redis's clock in which the slot was issued.
	Tick int64
	// PresentSince is when the user last joined or rejoined the line, and At when the slot was
	// issued; epoch milliseconds.
	PresentSince, At int64
}

// Inversion is a violation of the order: First was present when Then was admitted, had the lower
// score, and was admitted at a later tick.
type Inversion struct {
	First, Then Admission
}

// Inversions finds every user who was overtaken, each with one user who overtook. The admissions
// are in the stream's order.
//
// A is overtaken when some B with a higher score was admitted at a tick before A's, at which A was
// already present. The order within a tick does not matter, since all of it is admitted together.
func Inversions(admissions []Admission) []Inversion {
	var out []Inversion
	for i, a := range admissions {
		for j := i - 1; j >= 0; j-- {
			b := admissions[j]
			if b.At < a.PresentSince {
				break // the stream is ordered by time: A was not present before this entry
			}
			if b.Tick < a.Tick && b.Score > a.Score {
				out = append(out, Inversion{First: a, Then: b})
				break
			}
		}
	}
	return out
}
