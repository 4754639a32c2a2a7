package edge

// Values of headers that many responses share, built once since polls are served in microseconds.
// Nothing changes them in place: http.Header replaces a slice, or appends to a full one.
var (
	NoStore = []string{"no-store"}
	Nosniff = []string{"nosniff"}
)
