package harness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"urr.guru/pkg/filelock"
	"urr.guru/scripts/backends"
	"urr.guru/scripts/internal/programs"
	"urr.guru/scripts/platform"
	"urr.guru/scripts/process"
)

// testRun is what all platforms of one test process share: programs and the checkout's backends.
type testRun struct {
	checkout        platform.Layout
	children        *process.Children
	own             func() (*workspace, error) // returns the one workspace with its own backends
	acquireBackends func() error               // keeps the checkout's backends running until release

	mu      sync.Mutex
	built   map[string]bool // paths of the programs that are built
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

// ownBackends starts backends for this process alone. They end when the process ends.
func (w *testRun) ownBackends() (*workspace, error) {
	s, err := claimWorkspace(w.checkout)
	if err != nil {
		return nil, err
	}
	s.backends = backends.New(s.layout, false, func(string, ...any) {}).WithStarter(w.children.Start)
	if err := s.backends.Wipe(); err != nil {
		return nil, fmt.Errorf("wipe what the run before left: %w", err)
	}
	if err := s.backends.Start(context.Background()); err != nil {
		return nil, err
	}
	return s, nil
}

// sharedBackends returns a workspace on the checkout's backends. A test's databases are on the
// PostgreSQL server that keeps its data in memory, a benchmark's on the one that writes to disk.
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

// end releases the checkout's backends if this process has acquired them.
func (w *testRun) end() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.release == nil {
		return nil
	}
	return w.release(context.Background())
}

// variant is one way to build the programs: the flags of go build, and the output folder in bin.
type variant struct {
	folder string
	flags  []string
}

// variant returns how this platform's programs are built: for production or with failpoints.
func (p *Platform) variant() variant {
	if p.opts.Production {
		return variant{folder: "production", flags: []string{"-buildvcs=false"}}
	}
	return variant{folder: "failpoint", flags: []string{"-tags=failpoint", "-buildvcs=false"}}
}

// build builds the services' programs, once per test process and variant.
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

// commonEnv returns environment variables of all services. They do not inherit those of the test.
func (w *testRun) commonEnv() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "GOMAXPROCS=2"}
}

// workspace is what one platform does not share: a name with a folder, ports, secrets, and either
// its own backends or a namespace on the checkout's backends.
type workspace struct {
	layout    platform.Layout
	number    int // part of the name
	secrets   platform.Secrets
	backends  *backends.Set // this workspace's own; nil: it uses the checkout's
	namespace *namespace
	unlock    func()       // releases the name, which no other run can use until then
	ports     net.Listener // reserves the ports until it is closed

	mu       sync.Mutex
	migrated map[string]bool // paths of the programs that have migrated
}

// maxWorkspaces limits a checkout's concurrent runs: each needs its own Redis database.
const maxWorkspaces = 15

// claimWorkspace reserves the first name that no other run of the checkout uses, and free ports.
// The name is free again when the process ends, at the latest.
func claimWorkspace(checkout platform.Layout) (*workspace, error) {
	for number := 1; number <= maxWorkspaces; number++ {
		name := "harness-" + strconv.Itoa(number)
		layout := checkout.ForRun(name, 0)
		unlock, locked, err := filelock.TryLock(layout.State("lock"))
		if err != nil {
			return nil, fmt.Errorf("reserve the run's name: %w", err)
		}
		if !locked {
			continue
		}
		offset, ports, err := claimPorts()
		if err == nil {
			// The ledger of an earlier run would contain payments that no longer exist.
			err = errors.Join(os.RemoveAll(layout.State("logs")), os.RemoveAll(layout.State("data", platform.Sandbox)))
		}
		if err != nil {
			unlock()
			return nil, err
		}
		return &workspace{
			layout: checkout.ForRun(name, offset), number: number, secrets: platform.NewSecrets(), unlock: unlock, ports: ports,
			migrated: map[string]bool{},
		}, nil
	}
	return nil, fmt.Errorf("%d runs of this checkout's platform are under way: no name is left", maxWorkspaces)
}

// release removes the run's data from the checkout's backends, and frees the name and the ports.
func (s *workspace) release(ctx context.Context) error {
	defer s.unlock()
	return errors.Join(s.namespace.removeData(ctx), s.ports.Close())
}

func (s *workspace) wiring() platform.Wiring {
	w := s.layout.Wiring(s.secrets)
	if s.namespace != nil {
		s.namespace.fillWiring(&w)
	}
	return w
}

// migrate updates the tables and topics of a service for a program, once per workspace and program.
func (s *workspace) migrate(ctx context.Context, service platform.Service, program string, env []string) error {
	s.mu.Lock()
	done := s.migrated[program]
	s.mu.Unlock()
	if done {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, migrateLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "migrate")
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s migrate: %w\n%s", service.Name, err, out)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.migrated[program] = true
	return nil
}

// restoreBackends resumes or restarts the workspace's own backends that a test has paused or
// killed.
func (s *workspace) restoreBackends() error {
	for _, name := range Backends() {
		if s.backends.Running(name) {
			if err := s.backends.Signal(name, syscall.SIGCONT); err != nil {
				return err
			}
		}
	}
	return s.backends.Start(context.Background())
}

// claimPorts finds ports for a whole platform: lower than the ports that the kernel assigns to
// outgoing connections, and unlike the ports of other checkouts. An abstract socket reserves them
// on this machine, even while no process listens on them.
func claimPorts() (offset int, claim net.Listener, err error) {
	const lowest, step, steps = 5000, 100, 79
	for _, i := range rand.Perm(steps) {
		offset = lowest + i*step
		claim, err = net.Listen("unix", "@urr-ports-"+strconv.Itoa(offset)) // an abstract socket has no file
		if err != nil {
			continue
		}
		if allPortsFree(platform.Ports(), offset) {
			return offset, claim, nil
		}
		if err := claim.Close(); err != nil {
			return 0, nil, fmt.Errorf("give ports back: %w", err)
		}
	}
	return 0, nil, errors.New("no free ports for the platform")
}

func allPortsFree(bases []int, offset int) bool {
	for _, base := range bases {
		for i := range maxReplicas {
			l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.%d:%d", 1+i, base+offset))
			if err != nil || l.Close() != nil {
				return false
			}
		}
	}
	return true
}
