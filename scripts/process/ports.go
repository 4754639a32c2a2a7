package process

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// PortTaken explains why a port cannot be listened on.
type PortTaken struct {
	Port  int
	Owner string // "redis-server (process 123)", "another user's process", or "an outgoing connection"
}

func (e *PortTaken) Error() string {
	return fmt.Sprintf("port %d is taken by %s", e.Port, e.Owner)
}

// CheckPort returns a *PortTaken if 127.0.0.1:port cannot be listened on. It retries briefly: a
// process that is being started holds the probe's socket until its exec.
func CheckPort(port int) error {
	const step, longest = 20 * time.Millisecond, time.Second
	for deadline := time.Now().Add(longest); ; time.Sleep(step) {
		if err := CheckPortOnce(port); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// CheckPortOnce is CheckPort without the retry.
func CheckPortOnce(port int) error {
	l, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return &PortTaken{Port: port, Owner: portOwner(port)}
	}
	return l.Close()
}

// Free reports whether 127.0.0.1:port can be listened on now.
func Free(port int) bool { return CheckPortOnce(port) == nil }

// FreePort returns a loopback port that had no listener a moment ago.
func FreePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}

// portOwner identifies the listener: its socket's inode is in /proc/net/tcp, and a process that we
// may inspect has that socket open.
func portOwner(port int) string {
	inode := listenerInode(port)
	if inode == "" {
		return "an outgoing connection" // no listener: the kernel assigned the port to an outgoing connection
	}
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return "another process"
	}
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || target != "socket:["+inode+"]" {
			continue
		}
		pid := strings.Split(link, "/")[2]
		name, err := os.ReadFile("/proc/" + pid + "/comm")
		if err != nil {
			return "process " + pid
		}
		return fmt.Sprintf("%s (process %s)", strings.TrimSpace(string(name)), pid)
	}
	return "another user's process"
}

func listenerInode(port int) string {
	const listening, localField, stateField, inodeField = "0A", 1, 3, 9
	suffix := fmt.Sprintf(":%04X", port)
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		raw, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(raw)) {
			f := strings.Fields(line)
			if len(f) > inodeField && f[stateField] == listening && strings.HasSuffix(f[localField], suffix) {
				return f[inodeField]
			}
		}
	}
	return ""
}
