// Package processtest runs a whole program as a process of its own in tests that kill it: the test
// program is started again and acts as that program. `go test -short` skips such tests.
//
//	func TestMain(m *testing.M) {
//		processtest.Main(m, func() int { return lifecycle.Main("ticket", app.Run, app.Migrate) })
//	}
package processtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"urr.guru/pkg/waittest"
)

// variable makes a process of this program act as the program under test.
const variable = "URR_TEST_PROCESS"

// Tests are those of a package: *testing.M, or Verified.
type Tests interface{ Run() int }

// Verified are the tests, followed by a search for goroutines that they left behind
// (goleak.VerifyTestMain).
func Verified(m *testing.M) Tests { return verified{m} }

type verified struct{ *testing.M }

// Run implements Tests.
func (v verified) Run() int {
	if code := v.M.Run(); code != 0 {
		return code
	}
	if err := goleak.Find(goleak.IgnoreTopFunction("urr.guru/pkg/processtest.attend")); err != nil {
		fmt.Fprintln(os.Stderr, "the tests left goroutines behind:", err)
		return 1
	}
	return 0
}

// Main runs the tests, or, in a process that Command prepared, the program in their place; it does
// not return. The program finds its arguments in os.Args.
func Main(m Tests, program func() int) {
	if os.Getenv(variable) != "" { //nolint:forbidigo // how parent and child know each other
		os.Exit(program()) //nolint:forbidigo // this is the main of that process
	}
	os.Exit(m.Run()) //nolint:forbidigo // as the testing package does without a TestMain
}

// Command prepares the program under test. Its environment is env alone, NAME by value.
func Command(tb testing.TB, env map[string]string, args ...string) *exec.Cmd {
	tb.Helper()
	if testing.Short() {
		tb.Skip("-short leaves out tests that start processes")
	}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = []string{variable + "=1"}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	slices.Sort(cmd.Env)
	return cmd
}

// Run runs the program to its end and returns what it printed. The error tells how it ended.
func Run(tb testing.TB, env map[string]string, args ...string) (string, error) {
	tb.Helper()
	cmd := Command(tb, env, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := start(cmd); err != nil {
		return "", err
	}
	err := cmd.Wait()
	return out.String(), err
}

// Process is a program that runs until it ends by itself, Stop is called, or the test ends.
type Process struct {
	tb    testing.TB
	cmd   *exec.Cmd
	out   output
	ended chan struct{}
	err   error // how it ended; read after ended is closed
}

// Start starts the program. What it prints is shown if the test fails.
func Start(tb testing.TB, env map[string]string, args ...string) *Process {
	tb.Helper()
	p := &Process{tb: tb, cmd: Command(tb, env, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := start(p.cmd); err != nil {
		tb.Fatalf("start the program under test: %v", err)
	}
	go func() {
		defer close(p.ended)
		p.err = p.cmd.Wait()
	}()
	tb.Cleanup(func() {
		p.Stop()
		if tb.Failed() {
			tb.Logf("the program under test printed:\n%s", p.Output())
		}
	})
	return p
}

// Signal sends a signal; one that has ended already is left alone.
func (p *Process) Signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Wait waits until the process has ended by itself, and tells how: nil is exit code 0.
func (p *Process) Wait() error {
	p.tb.Helper()
	waittest.Receive(p.tb, p.ended, "the end of the program under test")
	return p.err
}

// Stop asks the process to end (SIGTERM) and waits until it has.
func (p *Process) Stop() {
	p.Signal(syscall.SIGTERM)
	<-p.ended
}

// Kill ends the process as the loss of its machine would (SIGKILL).
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.ended
}

// Output is what the process has printed so far.
func (p *Process) Output() string { return p.out.String() }

// output is a buffer that may be read while a process writes to it.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// births is served by one thread that lives as long as the test program: the kernel ties a child to
// the thread that started it (PR_SET_PDEATHSIG), and no child may outlive the tests.
var births = sync.OnceValue(func() chan<- func() {
	c := make(chan func())
	go attend(c)
	return c
})

func attend(births <-chan func()) {
	runtime.LockOSThread()
	for birth := range births {
		birth()
	}
}

func start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err := make(chan error)
	births() <- func() { err <- cmd.Start() }
	return <-err
}
