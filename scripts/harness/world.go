package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"urr.guru/scripts/backends"
	"urr.guru/scripts/internal/process"
	"urr.guru/scripts/internal/programs"
	"urr.guru/scripts/platform"
)

// world is what all runs of one test process share: the programs, and the checkout's backends.
type world struct {
	checkout platform.Layout
	nursery  *process.Nursery
	own      func() (*site, error) // the one site with backends of its own
	borrow   func() error          // keeps the checkout's backends up until giveBack

	mu       sync.Mutex
	built    map[string]bool
	giveBack func(context.Context) error
}

var theWorld = sync.OnceValues(newWorld)

func newWorld() (*world, error) {
	checkout, err := platform.Find()
	if err != nil {
		return nil, err
	}
	w := &world{checkout: checkout, nursery: process.NewNursery(), built: map[string]bool{}}
	w.own = sync.OnceValues(w.ownSite)
	w.borrow = sync.OnceValue(w.lend)
	return w, nil
}

// ownSite starts backends that nobody else uses. They end with the process.
func (w *world) ownSite() (*site, error) {
	s, err := claim(w.checkout)
	if err != nil {
		return nil, err
	}
	s.backends = backends.New(s.layout, false, func(string, ...any) {}).StartedBy(w.nursery.Start)
	if err := s.backends.Wipe(); err != nil {
		return nil, fmt.Errorf("wipe what the run before left: %w", err)
	}
	if err := s.backends.Start(context.Background()); err != nil {
		return nil, err
	}
	return s, nil
}

// guestSite is a site on the checkout's backends.
func (w *world) guestSite(ctx context.Context) (*site, error) {
	if err := w.borrow(); err != nil {
		return nil, err
	}
	s, err := claim(w.checkout)
	if err != nil {
		return nil, err
	}
	s.realm, err = openRealm(ctx, w.checkout, s.number)
	return s, err
}

func (w *world) lend() error {
	giveBack, err := backends.New(w.checkout, true, func(string, ...any) {}).Lend(context.Background())
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.giveBack = giveBack
	return nil
}

// end gives the backends back, if they were borrowed.
func (w *world) end() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.giveBack == nil {
		return nil
	}
	return w.giveBack(context.Background())
}

// build makes the programs with failpoints, once per test process.
func (w *world) build(ctx context.Context, services []platform.Service) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var missing []string
	for _, s := range services {
		if !w.built[s.Name] {
			missing = append(missing, s.Package)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	var out strings.Builder
	if err := programs.Build(ctx, w.checkout.Root, w.checkout.Shared("bin", "failpoint"), &out, []string{"-tags=failpoint", "-buildvcs=false"}, missing...); err != nil {
		return fmt.Errorf("%w\n%s", err, out.String())
	}
	for _, s := range services {
		w.built[s.Name] = true
	}
	return nil
}

func (w *world) program(s platform.Service) string {
	return w.checkout.Shared("bin", "failpoint", filepath.Base(s.Package))
}

// base is the part of the environment that does not depend on the service; the test's own
// environment stays outside.
func (w *world) base() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "GOMAXPROCS=2"}
}
