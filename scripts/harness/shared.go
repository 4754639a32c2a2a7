package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"urr.guru/scripts/platform"
)

// sharedPlatform returns the platform that all tests share. The first call in a process starts it.
var sharedPlatform = sync.OnceValues(func() (*Platform, error) {
	ctx := context.Background()
	p, err := newPlatform(ctx, Options{ProviderPage: true, Providers: []string{platform.Sandbox, platform.Stripe, platform.Toss}})
	if err != nil {
		return nil, err
	}
	p.shared = true
	return p, p.start(ctx)
})

// sharedStarted is true if the shared platform was started, so that Main must stop it.
var sharedStarted atomic.Bool

// Shared returns the platform that all tests of the process share: one replica of every service, on
// the checkout's backends. Buyers may pay at the sandbox, on its page or by a key, and at the fakes
// of other providers. Tests use their own events and change neither its processes nor its faults.
func Shared(tb testing.TB) *Platform {
	tb.Helper()
	sharedStarted.Store(true)
	p, err := sharedPlatform()
	if err != nil {
		tb.Fatal("harness: ", err)
	}
	view := p.ForTest(tb)
	tb.Cleanup(view.showLogsOfFailure)
	return view
}

// ForTest returns a copy of the shared platform whose errors fail the test tb.
func (p *Platform) ForTest(tb testing.TB) *Platform {
	tb.Helper()
	view := *p
	view.tb, view.services = tb, map[string]*Service{}
	for name, s := range p.services {
		view.services[name] = &Service{p: &view, desc: s.desc, replicas: s.replicas}
	}
	return &view
}

// Main runs the tests of a package that uses the harness, and then stops what the tests have
// shared. TestMain calls it; it does not return.
func Main(m *testing.M) {
	code := m.Run()
	if err := endAll(); err != nil {
		fmt.Fprintln(os.Stderr, "harness:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func endAll() error {
	var errs []error
	if sharedStarted.Load() {
		if p, err := sharedPlatform(); err == nil {
			errs = append(errs, p.end())
		}
	}
	if w, err := currentRun(); err == nil {
		errs = append(errs, w.end())
	}
	return errors.Join(errs...)
}

// Run starts a platform for a program that is not a test, and stops it when do returns. It returns
// an error where a test would fail.
func Run(ctx context.Context, opts Options, do func(context.Context, *Platform) error) (err error) {
	run := &program{ctx: ctx}
	defer func() { err = errors.Join(err, run.end(), endAll()) }() //nolint:contextcheck // an interrupted run is cleaned up too
	defer func() {
		if r := recover(); r != nil && r != errFatal { //nolint:errorlint // the value itself
			panic(r)
		}
	}()
	return do(ctx, Start(run, opts)) //nolint:contextcheck // likewise
}

// errFatal is the panic value with which Fatal ends the run of a program.
var errFatal = errors.New("harness: fatal")

// program implements the methods of testing.TB that the harness uses. All other methods would
// panic, since the embedded interface is nil.
type program struct {
	testing.TB
	ctx context.Context //nolint:containedctx // as in testing.T

	mu       sync.Mutex
	cleanups []func()
	failures []string
}

func (p *program) Helper()                  {}
func (p *program) Context() context.Context { return p.ctx }
func (p *program) Logf(string, ...any)      {}

func (p *program) Cleanup(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cleanups = append(p.cleanups, do)
}

func (p *program) Failed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.failures) > 0
}

func (p *program) Errorf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures = append(p.failures, fmt.Sprintf(format, args...))
}

func (p *program) Fatal(args ...any) {
	p.Errorf("%s", fmt.Sprint(args...))
	panic(errFatal)
}

func (p *program) Fatalf(format string, args ...any) {
	p.Errorf(format, args...)
	panic(errFatal)
}

// end runs the cleanups in reverse order and returns the recorded errors.
func (p *program) end() error {
	for _, do := range slices.Backward(p.cleanups) {
		do()
	}
	if !p.Failed() {
		return nil
	}
	return errors.New(strings.Join(p.failures, "\n"))
}
