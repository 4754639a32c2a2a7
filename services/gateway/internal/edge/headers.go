package edge

// Values of headers that many responses share, built once since polls take microseconds. They are
// never changed in place: the methods of http.Header replace a slice, or append to a full one.
var (
	NoStore = []string{"no-store"}
	Nosniff = []string{"nosniff"}
)
