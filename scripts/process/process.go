package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// maxLog is the size in bytes above which a log file is rotated at the next start.
const maxLog = 64 << 20

// Spec describes a process to start.
type Spec struct {
	Name       string
	Path       string
	Args       []string
	Env        []string // all environment variables; nil: those of the starter
	Dir        string
	Log        string // output is appended to this file
	Credential *syscall.Credential
	// Bound: the kernel kills the process when the thread that has started it ends; see Children.
	Bound bool
}

// Process is a started child process.
type Process struct {
	Identity
	done chan struct{}
	err  error
}

// Start starts a process in its own session, so that it continues when the terminal closes or this
// process ends. A bound process does not, so it only gets its own process group: Linux may give each
// session the same share of the processors, and the many servers of a test would get almost all.
func Start(spec Spec) (*Process, error) {
	out, err := openLog(spec.Log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Env, cmd.Dir = spec.Env, spec.Dir
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: !spec.Bound, Setpgid: spec.Bound, Credential: spec.Credential}
	if spec.Bound {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	p := &Process{done: make(chan struct{})}
	p.Identity, err = Identify(cmd.Process.Pid) // the id cannot be reused before Wait
	if err != nil {
		return nil, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

func (p *Process) Done() <-chan struct{} { return p.done }

// Exit returns how the process ended: "exit status 1", "signal: killed". Call it only after Done.
func (p *Process) Exit() string {
	if p.err == nil {
		return "exit status 0"
	}
	return p.err.Error()
}

// WaitReady repeats check until it succeeds. If the process ends first, the error contains the last
// lines of its log. If ctx ends first, the error contains the last error of check.
func (p *Process) WaitReady(ctx context.Context, spec Spec, check func(context.Context) error) error {
	const step, tries = 100 * time.Millisecond, 2 * time.Second
	for {
		attempt, cancel := context.WithTimeout(ctx, tries)
		err := check(attempt)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended while starting (%s); %s", spec.Name, p.Exit(), LogEnd(spec.Log))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready (%w); %s", spec.Name, err, LogEnd(spec.Log))
		case <-time.After(step):
		}
	}
}

// Save writes a value to a file as JSON, atomically.
func Save(path string, v any) error {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	// The temporary file has a unique name, so that concurrent calls do not collide. It is synced
	// before the rename, so that after a power failure the file has either the old or the new content.
	var f *os.File
	if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
		f, err = os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // readable by its owner only
	}
	if err != nil {
		return fmt.Errorf("save %s: %w", path, err)
	}
	_, err = f.Write(append(raw, '\n'))
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("save %s: %w", path, errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// Load reads a value that Save has written; found is false if the file does not exist.
func Load(path string, v any) (found bool, err error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("load %s: %w", path, err)
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return false, fmt.Errorf("load %s: %w", path, err)
	}
	return true, nil
}

// LogEnd returns the path of a log and its last 15 lines, for an error message.
func LogEnd(path string) string { return fmt.Sprintf("the end of %s:\n%s", path, Tail(path, 15)) }

// Tail returns the last n lines of a file, or the error if the file cannot be read.
func Tail(path string, n int) string { return TailFrom(path, 0, n) }

// TailFrom returns the last n lines of the part of a file after the first `offset` bytes. If the
// file is shorter than that, it uses the whole file.
func TailFrom(path string, offset int64, n int) string {
	const window = 64 << 10
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil {
		if info.Size() < offset {
			offset = 0
		}
		if _, err := f.Seek(max(offset, info.Size()-window), io.SeekStart); err != nil {
			return err.Error()
		}
	}
	raw := make([]byte, window)
	read, err := f.Read(raw)
	if err != nil {
		return "(nothing)"
	}
	lines := strings.Split(strings.TrimRight(string(raw[:read]), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func openLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, fmt.Errorf("set log aside: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	return f, nil
}

// Children starts processes that end when this program ends, even if it is killed or panics. The
// kernel ends a child when the thread that started it ends (PR_SET_PDEATHSIG), so all are started
// by one thread, which lives as long as the program.
type Children struct {
	queue chan func()
}

// NewChildren starts the thread that starts the processes; it runs until the program ends.
func NewChildren() *Children {
	n := &Children{queue: make(chan func())}
	go func() {
		runtime.LockOSThread()
		for start := range n.queue {
			start()
		}
	}()
	return n
}

// Start starts a process that ends when this program ends.
func (n *Children) Start(spec Spec) (p *Process, err error) {
	spec.Bound = true
	done := make(chan struct{})
	n.queue <- func() {
		defer close(done)
		p, err = Start(spec)
	}
	<-done
	return p, err
}
