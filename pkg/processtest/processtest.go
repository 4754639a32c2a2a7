// Package processtest runs a program as a separate process in tests that kill it: the test binary
// is started again and acts as that program. `go test -short` skips such tests.
//
//	func TestMain(m *testing.M) {
//		processtest.Main(m, func() int { return lifecycle.Main("ticket", app.Run, app.Migrate) })
//	}
package processtest

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"urr.guru/pkg/testkit"
)

// variable is the environment variable that tells a process to act as the program under test.
const variable = "URR_TEST_PROCESS"

// Tests is what Main runs: a *testing.M or the result of WithLeakCheck.
type Tests interface{ Run() int }

// WithLeakCheck makes Main check for leaked goroutines after the tests.
func WithLeakCheck(m *testing.M) Tests { return leakCheckedTests{m} }

type leakCheckedTests struct{ *testing.M }

func (v leakCheckedTests) Run() int {
	return testkit.RunWithoutLeaks(v.M, goleak.IgnoreTopFunction("urr.guru/pkg/processtest.runLaunches"))
}

// Main runs the tests or, in a process that Command prepared, the program. It does not return. The
// program finds its arguments in os.Args.
func Main(m Tests, program func() int) {
	if os.Getenv(variable) != "" { //nolint:forbidigo // tells the child process what it is
		os.Exit(program()) //nolint:forbidigo // this is the main of that process
	}
	os.Exit(m.Run()) //nolint:forbidigo // as the testing package does without a TestMain
}

// Command prepares a process that acts as the program under test. Its environment is only env.
func Command(tb testing.TB, env map[string]string, args ...string) *exec.Cmd {
	tb.Helper()
	testkit.SkipIfShort(tb, "tests that start processes")
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = []string{variable + "=1"}
	if race, set := os.LookupEnv("GORACE"); set { //nolint:forbidigo // options of the race detector, handed on
		cmd.Env = append(cmd.Env, "GORACE="+race)
	}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	slices.Sort(cmd.Env)
	return cmd
}

// Run runs the program under test to its end and returns its output and the error of the process.
func Run(tb testing.TB, env map[string]string, args ...string) (string, error) {
	tb.Helper()
	cmd := Command(tb, env, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := Launch(cmd); err != nil {
		return "", err
	}
	err := cmd.Wait()
	return out.String(), err
}

// Process is a program under test. It runs until it ends by itself, Stop is called, or the test
// ends.
type Process struct {
	tb    testing.TB
	cmd   *exec.Cmd
	out   output
	ended chan struct{}
	err   error // how it ended; read after ended is closed
}

// Start starts the program under test. Its output is logged if the test fails.
func Start(tb testing.TB, env map[string]string, args ...string) *Process {
	tb.Helper()
	p := &Process{tb: tb, cmd: Command(tb, env, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := Launch(p.cmd); err != nil {
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

// Signal sends a signal; it has no effect on a process that has ended.
func (p *Process) Signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }
func (p *Process) Ended() <-chan struct{}    { return p.ended }

func (p *Process) Wait() error {
	p.tb.Helper()
	testkit.Receive(p.tb, p.ended, "the end of the program under test")
	return p.err
}

func (p *Process) Stop() {
	p.Signal(syscall.SIGTERM)
	<-p.ended
}

func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.ended
}

func (p *Process) Output() string { return p.out.String() }

// output is a buffer that can be read while a process writes to it.
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

// launches passes functions that start a process to one thread, which lives as long as the test
// program: the kernel kills a child when the thread that started it ends (PR_SET_PDEATHSIG), and no
// child may outlive the tests.
var launches = sync.OnceValue(func() chan<- func() {
	c := make(chan func())
	go runLaunches(c)
	return c
})

func runLaunches(launches <-chan func()) {
	runtime.LockOSThread()
	for launch := range launches {
		launch()
	}
}

// Launch starts a command. The kernel kills the process however the test program ends.
func Launch(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err := make(chan error)
	launches() <- func() { err <- cmd.Start() }
	return <-err
}
