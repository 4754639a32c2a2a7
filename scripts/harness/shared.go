package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
)

// common is the platform that the tests of one process share. The first of them starts it.
var common = sync.OnceValues(func() (*Platform, error) {
	ctx := context.Background()
	p, err := newPlatform(ctx, Options{})
	if err != nil {
		return nil, err
	}
	p.shared = true
	return p, p.start(ctx)
})

// commonStarted tells Main that common must be stopped.
var commonStarted atomic.Bool

// Shared returns the platform that all tests of the process share: one replica of every service, on
// the checkout's backends. Tests use events of their own and leave its processes alone.
func Shared(tb testing.TB) *Platform {
	tb.Helper()
	commonStarted.Store(true)
	p, err := common()
	if err != nil {
		tb.Fatal("harness: ", err)
	}
	view := p.For(tb)
	tb.Cleanup(view.showLogsOfFailure)
	return view
}

// For returns the shared platform for another test, which fails in place of the first.
func (p *Platform) For(tb testing.TB) *Platform {
	tb.Helper()
	view := *p
	view.tb, view.services = tb, map[string]*Service{}
	for name, s := range p.services {
		view.services[name] = &Service{p: &view, desc: s.desc, replicas: s.replicas}
	}
	return &view
}

// Main runs the tests of a package that uses the harness, and stops what outlives single tests.
// Call it from TestMain; it does not return.
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
	if commonStarted.Load() {
		if p, err := common(); err == nil {
			errs = append(errs, p.end())
		}
	}
	if w, err := currentRun(); err == nil {
		errs = append(errs, w.end())
	}
	return errors.Join(errs...)
}
