package backends

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"urr.guru/scripts/process"
)

// Bounds of DynamoDB Local's heap, in MiB. What it needs grows with the data of all earlier runs.
// It takes at most a sixteenth of the machine's memory, since several checkouts and tests may each
// have their own.
const leastHeap, mostHeap, heapShare = 256, 1024, 16

// heapMiB returns the heap of DynamoDB Local on a machine with so many bytes of memory.
func heapMiB(memory uint64) uint64 { return min(max(leastHeap, memory>>20/heapShare), mostHeap) }

// maxHeap returns the JVM's option for this machine.
func maxHeap() (string, error) {
	var info syscall.Sysinfo_t
	if err := syscall.Sysinfo(&info); err != nil {
		return "", fmt.Errorf("ask for the machine's memory: %w", err)
	}
	return fmt.Sprintf("-Xmx%dm", heapMiB(info.Totalram*uint64(info.Unit))), nil
}

// terminating begins the last line of a JVM that ends since its heap is full
// (-XX:+ExitOnOutOfMemoryError).
const terminating = "Terminating due to java.lang.OutOfMemoryError: "

// outOfMemory begins BackendState.LastExit of a server that needed more memory than it may have.
const outOfMemory = "out of memory"

// explainExit adds to the exit of a server whether it ran out of memory, as the end of its log says.
func explainExit(exit, log string) string {
	const lines = 3 // other threads may have logged something at the same time
	if _, cause, found := strings.Cut(process.Tail(log, lines), terminating); found {
		cause, _, _ = strings.Cut(cause, "\n")
		return fmt.Sprintf("%s (%s): make reset removes its data; %s", outOfMemory, cause, exit)
	}
	return exit
}

// diskUse returns how many bytes the files in a folder take on the disk. It leaves out what cannot
// be read, such as files that are removed meanwhile.
func diskUse(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // the other files count
		}
		if info, err := entry.Info(); err == nil {
			if stat, ok := info.Sys().(*syscall.Stat_t); ok {
				bytes += stat.Blocks * 512 // not the size: Kafka's indexes are sparse
			}
		}
		return nil
	})
	return bytes
}
