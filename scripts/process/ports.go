package process

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// PortTaken is the error that this process cannot listen on a port.
type PortTaken struct {
	Port  int
	Owner string // "redis-server (process 123)", "another user's process", or "an outgoing connection"
}

func (e *PortTaken) Error() string {
	return fmt.Sprintf("port %d is taken by %s", e.Port, e.Owner)
}

// CheckPort returns a *PortTaken if nothing can listen on 127.0.0.1:port. It retries for a second,
// because a child process that is starting may hold the socket of an earlier check for a moment.
func CheckPort(port int) error {
	const step, limit = 20 * time.Millisecond, time.Second
	for deadline := time.Now().Add(limit); ; time.Sleep(step) {
		if err := CheckPortOnce(port); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// CheckPortOnce does the same as CheckPort, but tries only once.
func CheckPortOnce(port int) error {
	l, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return &PortTaken{Port: port, Owner: portOwner(port)}
	}
	return l.Close()
}

// Free reports whether a process could listen on 127.0.0.1:port now.
func Free(port int) bool { return CheckPortOnce(port) == nil }

// portOwner describes the process that uses a port. It finds the listening socket in the kernel's
// table of TCP connections, and then, if permitted, the process that has this socket open.
func portOwner(port int) string {
	inode := listenerInode(port)
	if inode == "" {
		return "an outgoing connection" // nothing listens: the kernel gave the port to an outgoing connection
	}
	processes, err := procfs.AllProcs()
	if err != nil {
		return "another process"
	}
	for _, p := range processes {
		targets, _ := p.FileDescriptorTargets() // empty for another user's process
		if slices.Contains(targets, "socket:["+inode+"]") {
			name, _ := p.Comm()
			return strings.TrimSpace(fmt.Sprintf("%s (process %d)", name, p.PID))
		}
	}
	return "another user's process"
}

func listenerInode(port int) string {
	const listening, localField, stateField, inodeField = "0A", 1, 3, 9
	tcp4, _ := os.ReadFile("/proc/net/tcp")
	tcp6, _ := os.ReadFile("/proc/net/tcp6") // absent without IPv6
	for line := range strings.Lines(string(append(tcp4, tcp6...))) {
		f := strings.Fields(line)
		if len(f) > inodeField && f[stateField] == listening && strings.HasSuffix(f[localField], fmt.Sprintf(":%04X", port)) {
			return f[inodeField]
		}
	}
	return ""
}
