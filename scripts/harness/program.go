package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Run runs a platform for a program that is not a test, until do returns. It returns an error where
// a test would fail.
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

// errFatal is the panic that ends a program's run after Fatal.
var errFatal = errors.New("harness: fatal")

// program implements what the harness uses of testing.TB. It has no other method: the embedded
// interface is nil.
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

// end cleans up in reverse order and returns what has failed.
func (p *program) end() error {
	for _, do := range slices.Backward(p.cleanups) {
		do()
	}
	if !p.Failed() {
		return nil
	}
	return errors.New(strings.Join(p.failures, "\n"))
}
