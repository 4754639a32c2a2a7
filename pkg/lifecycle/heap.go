package lifecycle

import "runtime"

// ReserveHeap lets a process with a small heap collect garbage less often. The collector starts when
// the heap has grown by GOGC percent, which is a few MB for a process that keeps little: under load
// it then runs many times a second.
//
// It adds an array of so many bytes to the heap, until release is called. It is never written to, so it takes address space and no memory, but it counts as part of the heap: with the default
// of GOGC, at least so many more bytes are allocated between two collections. In a heap much larger
// than that it changes little. It counts towards GOMEMLIMIT.
func ReserveHeap(bytes int) (release func()) {
	reserved := make([]byte, bytes)
	return func() { runtime.KeepAlive(reserved) }
}
