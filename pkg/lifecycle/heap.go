package lifecycle

import "runtime"

// heapFloor is about how many bytes each service allocates between two garbage collections.
const heapFloor = 32 << 20

// ReserveHeap makes the garbage collector run less often in a process with a small heap. It starts
// when the heap has grown by GOGC percent, which under load a heap of a few MB does often.
//
// ReserveHeap adds an array of the given size to the heap until release is called. The array is never
// written to, so it takes address space and no memory. It counts as part of the heap: by default
// (GOGC=100), at least its size is allocated between two collections. It also counts towards
// GOMEMLIMIT. In a heap much larger than the array it changes little.
func ReserveHeap(bytes int) (release func()) {
	reserved := make([]byte, bytes)
	return func() { runtime.KeepAlive(reserved) }
}
