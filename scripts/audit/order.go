package audit

// Admission is one entry of the stream {eventId}:admitted: a slot that was given.
type Admission struct {
	Slot, User string
	// Score is the place in the line (lower is earlier), µs.
	Score int64
	// Tick is the second of Redis's clock in which the slot was given.
	Tick int64
	// PresentSince is when the user last came (back) into the line, and At when the slot was given; epoch milliseconds.
	PresentSince, At int64
}

// Inversion is a breach of the order: First was present when Then was admitted, had the lower score, and got in at a later tick.
type Inversion struct {
	First, Then Admission
}

// Inversions finds everyone who was overtaken, each with one who overtook. The admissions are in the stream's order.
//
// A is overtaken when some B with a higher score was admitted at a tick before A's, at which A was present already. Within a tick
// the order is of no consequence: all of it gets in at once.
func Inversions(admissions []Admission) []Inversion {
	var out []Inversion
	for i, a := range admissions {
		for j := i - 1; j >= 0; j-- {
			b := admissions[j]
			if b.At < a.PresentSince {
				break // the stream is in order of time: nothing before concerned a present A
			}
			if b.Tick < a.Tick && b.Score > a.Score {
				out = append(out, Inversion{First: a, Then: b})
				break
			}
		}
	}
	return out
}
