package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"urr.guru/scripts/backends"
	"urr.guru/scripts/internal/programs"
	"urr.guru/scripts/platform"
	"urr.guru/scripts/process"
)

// testRun is shared by all platforms of one test process: the programs and the checkout's backends.
type testRun struct {
	checkout        platform.Layout
	children        *process.Children
	own             func() (*workspace, error) // the one workspace with its own backends
	acquireBackends func() error               // keeps the checkout's backends running until release

	mu      sync.Mutex
	built   map[string]bool // by the path of the program
	release func(context.Context) error
}

var currentRun = sync.OnceValues(newTestRun)

func newTestRun() (*testRun, error) {
	checkout, err := platform.Find()
	if err != nil {
		return nil, err
	}
	w := &testRun{checkout: checkout, children: process.NewChildren(), built: map[string]bool{}}
	w.own = sync.OnceValues(w.ownBackends)
	w.acquireBackends = sync.OnceValue(w.acquire)
	return w, nil
}

// ownBackends starts backends for this process alone. They end with the process.
func (w *testRun) ownBackends() (*workspace, error) {
	s, err := claimWorkspace(w.checkout)
	if err != nil {
		return nil, err
	}
	s.backends = backends.New(s.layout, false, func(string, ...any) {}).StartedBy(w.children.Start)
	if err := s.backends.Wipe(); err != nil {
		return nil, fmt.Errorf("wipe what the run before left: %w", err)
	}
	if err := s.backends.Start(context.Background()); err != nil {
		return nil, err
	}
	return s, nil
}

// sharedBackends is a workspace on the checkout's backends. Its databases are on the server of the
// tests, which is in memory, but those of a benchmark on the one that writes to the disk.
func (w *testRun) sharedBackends(ctx context.Context, production bool) (*workspace, error) {
	if err := w.acquireBackends(); err != nil {
		return nil, err
	}
	s, err := claimWorkspace(w.checkout)
	if err != nil {
		return nil, err
	}
	server := platform.TestPostgresPort
	if production {
		server = platform.PostgresPort
	}
	s.namespace, err = openNamespace(ctx, w.checkout, server, s.number)
	return s, err
}

func (w *testRun) acquire() error {
	release, err := backends.New(w.checkout, true, func(string, ...any) {}).Acquire(context.Background())
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.release = release
	return nil
}

// end releases the backends, if they were acquired.
func (w *testRun) end() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.release == nil {
		return nil
	}
	return w.release(context.Background())
}

// variant is one way of building the programs, and the folder in bin that they are in.
type variant struct {
	folder string
	flags  []string
}

// variant is the one that the services run.
func (p *Platform) variant() variant {
	if p.opts.Production {
		return variant{folder: "production", flags: []string{"-buildvcs=false"}}
	}
	return variant{folder: "failpoint", flags: []string{"-tags=failpoint", "-buildvcs=false"}}
}

// build builds the programs, once per test process and variant.
func (w *testRun) build(ctx context.Context, v variant, services []platform.Service) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var missing []string
	for _, s := range services {
		if !w.built[w.program(v, s)] {
			missing = append(missing, s.Package)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	var out strings.Builder
	if err := programs.Build(ctx, w.checkout.Root, w.checkout.Shared("bin", v.folder), &out, v.flags, missing...); err != nil {
		return fmt.Errorf("%w\n%s", err, out.String())
	}
	for _, s := range services {
		w.built[w.program(v, s)] = true
	}
	return nil
}

func (w *testRun) program(v variant, s platform.Service) string {
	return w.checkout.Shared("bin", v.folder, filepath.Base(s.Package))
}

// base is the part of the environment that does not depend on the service; it does not include the
// test's own environment.
func (w *testRun) base() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "GOMAXPROCS=2"}
}
