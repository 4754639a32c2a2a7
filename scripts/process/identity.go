// Package process starts processes that outlive their starter, records them in files, and stops
// them. It identifies a process by its id, start time and boot id, so that it never signals a later
// process with the same id.
package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Identity identifies a process of this machine, even if a later process has the same id.
type Identity struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks after boot, field 22 of proc_pid_stat(5)
	Boot  string `json:"boot"`  // random id of the boot
}

const bootIDFile = "/proc/sys/kernel/random/boot_id"

// Identify returns the identity of the running process with this id.
func Identify(pid int) (Identity, error) {
	boot, err := os.ReadFile(bootIDFile)
	if err != nil {
		return Identity{}, fmt.Errorf("read the boot id: %w", err)
	}
	stat, err := readStat(pid)
	if err != nil {
		return Identity{}, err
	}
	return Identity{PID: pid, Start: stat.start, Boot: string(bytes.TrimSpace(boot))}, nil
}

// Alive reports whether the process still runs. A zombie, which has ended but whose parent has not
// waited for it, counts as ended. A zombie that still has threads counts as alive, since it is
// terminating and holds its ports.
func (id Identity) Alive() bool {
	if id.PID <= 0 || !id.ThisBoot() {
		return false
	}
	stat, err := readStat(id.PID)
	ended := stat.state == 'X' || stat.state == 'Z' && stat.threads <= 1
	return err == nil && stat.start == id.Start && !ended
}

func (id Identity) ThisBoot() bool {
	boot, err := os.ReadFile(bootIDFile)
	return err == nil && string(bytes.TrimSpace(boot)) == id.Boot
}

// RunningIn returns the processes that run the program at path with the working directory dir, as
// far as this process may inspect them.
func RunningIn(dir, path string) ([]Identity, error) {
	folder, err := filepath.EvalSymlinks(dir)
	program, programErr := filepath.EvalSymlinks(path)
	entries, globErr := filepath.Glob("/proc/[0-9]*/cwd")
	if err := errors.Join(err, programErr, globErr); err != nil {
		return nil, fmt.Errorf("look for processes in %s: %w", dir, err)
	}
	var found []Identity
	for _, entry := range entries {
		if cwd, err := os.Readlink(entry); err != nil || cwd != folder {
			continue // another user's process, or one that has ended
		}
		exe, err := os.Readlink(filepath.Join(filepath.Dir(entry), "exe"))
		if err != nil || strings.TrimSuffix(exe, " (deleted)") != program {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(entry)))
		if err != nil {
			continue
		}
		if id, err := Identify(pid); err == nil && id.Alive() {
			found = append(found, id)
		}
	}
	return found, nil
}

// Signal sends a signal to the process if it still runs. Since threads on other processors continue
// for a moment, it returns after SIGSTOP when every thread has stopped, and after SIGKILL when all
// have ended. It opens a handle of the process before it checks the identity, so that the id cannot
// be reused in between.
func (id Identity) Signal(sig syscall.Signal) error {
	p, err := os.FindProcess(id.PID)
	if err != nil {
		return fmt.Errorf("find process %d: %w", id.PID, err)
	}
	defer func() { _ = p.Release() }()
	if !id.Alive() {
		return os.ErrProcessDone
	}
	if err := p.Signal(sig); err != nil {
		return err
	}
	const limit = 5 * time.Second
	if sig == syscall.SIGSTOP {
		return id.awaitStopped(limit)
	}
	if sig == syscall.SIGKILL && !id.waitGone(limit) {
		return fmt.Errorf("process %d does not end", id.PID)
	}
	return nil
}

func (id Identity) awaitStopped(limit time.Duration) error {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if id.allThreadsStopped() {
			return nil
		}
	}
	return fmt.Errorf("process %d does not stop", id.PID)
}

// allThreadsStopped reports whether every thread is in state T (stopped). It ignores threads that
// have ended.
func (id Identity) allThreadsStopped() bool {
	tasks, err := filepath.Glob("/proc/" + strconv.Itoa(id.PID) + "/task/*/stat")
	if err != nil {
		return false
	}
	for _, task := range tasks {
		raw, err := os.ReadFile(task)
		if err != nil {
			continue
		}
		if thread, err := parseStat(string(raw)); err != nil || thread.state != 'T' {
			return false
		}
	}
	return true
}

// Stop sends a signal, and kills the process if it still runs after the time grace. It returns when
// the process has ended, or with an error if it could not be ended.
func (id Identity) Stop(sig syscall.Signal, grace time.Duration) error {
	if err := id.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal process %d: %w", id.PID, err)
	}
	if id.waitGone(grace) {
		return nil
	}
	if err := id.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill process %d: %w", id.PID, err)
	}
	return nil
}

func (id Identity) waitGone(limit time.Duration) bool {
	const step = 20 * time.Millisecond
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(step) {
		if !id.Alive() {
			return true
		}
	}
	return !id.Alive()
}

// processState has the fields of /proc/<pid>/stat (proc_pid_stat(5)) that this package reads.
type processState struct {
	state   byte
	threads int    // number of threads of the process
	start   uint64 // clock ticks after boot
}

func readStat(pid int) (processState, error) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return processState{}, fmt.Errorf("read the state of process %d: %w", pid, err)
	}
	return parseStat(string(raw))
}

// parseStat parses /proc/<pid>/stat. It counts the fields after the last closing parenthesis, since
// the name (field 2) may contain spaces and parentheses.
func parseStat(raw string) (processState, error) {
	const threadsField, startField = 20 - 3, 22 - 3 // counted from field 3, the state
	end := strings.LastIndexByte(raw, ')')
	if end < 0 {
		return processState{}, errors.New("malformed process state")
	}
	fields := strings.Fields(raw[end+1:])
	if len(fields) <= startField || len(fields[0]) != 1 {
		return processState{}, errors.New("malformed process state")
	}
	threads, err := strconv.Atoi(fields[threadsField])
	if err != nil {
		return processState{}, fmt.Errorf("malformed count of a process's threads: %w", err)
	}
	start, err := strconv.ParseUint(fields[startField], 10, 64)
	if err != nil {
		return processState{}, fmt.Errorf("malformed process start time: %w", err)
	}
	return processState{state: fields[0][0], threads: threads, start: start}, nil
}
