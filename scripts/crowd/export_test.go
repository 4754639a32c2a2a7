package crowd

// Bend and Arrivals are the functions that tests look at from outside.
var (
	Bend     = bend
	Arrivals = arrivals
)
