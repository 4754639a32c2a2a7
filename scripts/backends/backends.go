// Package backends runs, for development and tests, the servers in which URR stores its state:
// Redis, PostgreSQL, Kafka, DynamoDB Local and ElasticMQ. They are installed by apt and Maven, keep
// their data under .urr, and listen on loopback ports of this checkout.
package backends

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"urr.guru/pkg/filelock"
	"urr.guru/pkg/loop"
	"urr.guru/scripts/internal/apt"
	"urr.guru/scripts/platform"
	"urr.guru/scripts/process"
)

// Time limits. They are long, since a JVM starts slowly while the machine compiles programs; one
// that ends while starting is reported at once.
const (
	startLimit = 5 * time.Minute
	stopLimit  = 20 * time.Second
	readyTry   = 2 * time.Second // for one readiness check
)

// Set has the backends of one checkout.
type Set struct {
	layout       platform.Layout
	say          func(format string, args ...any)
	apt          apt.Installer
	backends     []backend
	startProcess func(process.Spec) (*process.Process, error)
	// checkPort returns an error if a port is in use for longer than a moment.
	checkPort func(port int) error

	kafkaOutside KafkaListener // added by AddKafkaListener

	mu      sync.Mutex
	started map[string]*process.Process // by name: the processes that this set has started
}

// backend is one server process.
type backend struct {
	name  string
	ports []int
	stop  syscall.Signal // the signal that requests a clean shutdown
	// prepare installs missing programs and creates the data folder. It is idempotent.
	prepare func(ctx context.Context) error
	// spec returns the command to start. It may be called only after prepare.
	spec  func() (process.Spec, error)
	ready func(ctx context.Context) error
	// pidFile is a file in the data folder with the server's process id. While any process has this
	// id, the server refuses to start.
	pidFile string
	// forTests: only tests use the backend.
	forTests bool
	// temporary: the data of the backend is removed when it stops.
	temporary bool
	// settle sets up a server that is ready: it creates databases, or distributes cluster slots. It is
	// idempotent.
	settle func(ctx context.Context) error
}

// runRecord is the content of a backend's run file, which exists while the backend should run. If
// the file exists but the process does not, the backend has died.
type runRecord struct {
	process.Identity
	Started time.Time `json:"started"`
	Ports   []int     `json:"ports"`
	// Stopping is set before Stop sends the process its first signal. It is never cleared.
	Stopping bool   `json:"stopping,omitempty"`
	Restarts int    `json:"restarts,omitempty"`
	LastExit string `json:"last_exit,omitempty"`
}

func (s *Set) loadRecord(name string) (r runRecord, found bool, err error) {
	found, err = process.Load(s.layout.RunFile(name), &r)
	return r, found, err
}

// New returns the backends of a checkout. With forTests, it includes those that only tests use: the
// three-node Redis Cluster and a second PostgreSQL. say prints progress and notices.
func New(layout platform.Layout, forTests bool, say func(format string, args ...any)) *Set {
	s := &Set{
		layout: layout, say: say, startProcess: process.Start, checkPort: process.CheckPort, started: map[string]*process.Process{},
	}
	s.apt = apt.Installer{Log: layout.LogFile("apt"), Say: say}
	s.backends = []backend{s.redis(), s.postgres(), s.kafka(), s.dynamodb(), s.sqs()}
	if forTests {
		s.backends = append(append(s.backends, s.testPostgres()), s.redisCluster()...)
	}
	return s
}

// WithStarter replaces process.Start, for example by a function that ties processes to a test.
func (s *Set) WithStarter(start func(process.Spec) (*process.Process, error)) *Set {
	s.startProcess = start
	return s
}

// KafkaListener is a listener on which clients sign in with SCRAM-SHA-512, over TLS.
type KafkaListener struct {
	Addr        string            // host:port that it advertises, since clients connect to that address
	Certificate string            // path of the certificate and its key, PEM
	Users       map[string]string // name → password, as of the first start
}

// AddKafkaListener gives Kafka a second listener, on the loopback port KafkaOutsidePort, for
// clients such as pods that use a forwarded port. They may do what ACLs grant them, and clients of the
// first listener everything.
func (s *Set) AddKafkaListener(l KafkaListener) *Set {
	s.kafkaOutside = l
	return s
}

// lock waits until no other command of this checkout starts or stops backends.
func (s *Set) lock(ctx context.Context) (unlock func(), err error) {
	return filelock.Lock(ctx, s.layout.State("run", "backends.lock"), func() { s.say("waiting for another command to start or stop backends") })
}

// Start starts the backends that are not running. It returns when all are ready, or with the errors
// of those that failed.
func (s *Set) Start(ctx context.Context) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return s.startMissing(ctx)
}

func (s *Set) startMissing(ctx context.Context) error {
	if err := checkDisk(s.layout.State()); err != nil {
		return err
	}
	var missing, alreadyRunning []backend
	for _, b := range s.backends {
		running, err := s.runsAsConfigured(b)
		if err != nil {
			return err
		}
		if running {
			alreadyRunning = append(alreadyRunning, b)
		} else {
			missing = append(missing, b)
		}
	}
	if err := forEach(missing, func(b backend) error { return s.start(ctx, b) }); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for _, b := range alreadyRunning {
		if err := s.awaitReady(ctx, b); err != nil {
			return err
		}
		if r, _, err := s.loadRecord(b.name); err == nil && strings.HasPrefix(r.LastExit, outOfMemory) {
			s.say("%-16s restarts: %d, last exit: %s", b.name, r.Restarts, r.LastExit)
		}
	}
	for _, b := range s.backends {
		if err := b.settle(ctx); err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	return nil
}

// runsAsConfigured reports whether a backend runs on this set's ports. It first stops a backend
// whose stop was interrupted, or that runs on the ports of a different URR_PORT_OFFSET.
func (s *Set) runsAsConfigured(b backend) (bool, error) {
	r, found, err := s.loadRecord(b.name)
	if err != nil || !found || !r.Alive() {
		return false, err
	}
	if r.Stopping {
		return false, s.stop(b)
	}
	if slices.Equal(r.Ports, b.ports) {
		return true, nil
	}
	s.say("%-16s runs on ports %v, wanted on %v", b.name, r.Ports, b.ports)
	return false, s.stop(b)
}

// awaitReady waits until a backend is ready which another process is starting.
func (s *Set) awaitReady(ctx context.Context, b backend) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, readyTry)
		err := b.ready(attempt)
		cancel()
		switch {
		case err == nil:
			return nil
		case !s.Running(b.name):
			return fmt.Errorf("%s ended; %s", b.name, process.LogEnd(s.layout.LogFile(b.name)))
		case !loop.Sleep(ctx, 100*time.Millisecond):
			return fmt.Errorf("%s is not ready (%w); %s", b.name, err, process.LogEnd(s.layout.LogFile(b.name)))
		}
	}
}

func (s *Set) start(ctx context.Context, b backend) error {
	if err := b.prepare(ctx); err != nil {
		return fmt.Errorf("%s: %w", b.name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit) // not for prepare, which may install programs
	defer cancel()
	began := time.Now()
	p, spec, err := s.launch(b, runRecord{})
	if err != nil {
		return err
	}
	if err := p.WaitReady(ctx, spec, b.ready); err != nil {
		return errors.Join(err, s.stop(b))
	}
	s.say("%-16s ready on %d after %.1f s", b.name, b.ports[0], time.Since(began).Seconds())
	return nil
}

// launch starts a backend's process and saves its run file, with the restart counters of r.
func (s *Set) launch(b backend, r runRecord) (*process.Process, process.Spec, error) {
	spec, err := b.spec()
	if err != nil {
		return nil, spec, fmt.Errorf("%s: %w", b.name, err)
	}
	spec.Name, spec.Log = b.name, s.layout.LogFile(b.name)
	if err := s.killLeftovers(b, spec); err != nil {
		return nil, spec, err
	}
	for _, port := range b.ports {
		if err := s.checkPort(port); err != nil {
			return nil, spec, fmt.Errorf("%s: %w; end it%s",
				b.name, err, platform.OffsetHint(", or run this checkout on other ports", s.layout.Offset))
		}
	}
	began := time.Now()
	p, err := s.startProcess(spec)
	if err != nil {
		return nil, spec, err
	}
	s.mu.Lock()
	s.started[b.name] = p
	s.mu.Unlock()
	// The run file is written before the backend is ready, so that Stop finds the process even if this
	// start is interrupted.
	r.Identity, r.Started, r.Ports = p.Identity, began, b.ports
	if err := process.Save(s.layout.RunFile(b.name), r); err != nil {
		return nil, spec, errors.Join(err, p.Stop(b.stop, stopLimit))
	}
	return p, spec, nil
}

// Stop stops the named backends. Without names it stops all backends of the checkout, including
// those that only tests use, even if this Set does not contain them.
func (s *Set) Stop(ctx context.Context, names ...string) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return s.stopNamed(names...)
}

func (s *Set) stopNamed(names ...string) error {
	return forEach(slices.DeleteFunc(New(s.layout, true, s.say).backends, func(b backend) bool {
		return len(names) > 0 && !slices.Contains(names, b.name)
	}), s.stop)
}

// forEach calls do for all items concurrently, and returns all errors.
func forEach[T any](items []T, do func(T) error) error {
	errs := make([]error, len(items))
	var wg sync.WaitGroup
	for i, item := range items {
		wg.Go(func() { errs[i] = do(item) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (s *Set) stop(b backend) error {
	r, found, err := s.loadRecord(b.name)
	if err != nil || !found {
		return err
	}
	if r.Alive() {
		// Set first: otherwise the supervisor would restart the backend after an interrupted stop.
		r.Stopping = true
		if err := process.Save(s.layout.RunFile(b.name), r); err != nil {
			return err
		}
		if err := r.Stop(b.stop, stopLimit); err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		s.say("%-16s stopped", b.name)
	}
	if spec, err := b.spec(); err == nil { // an error means that its program is no longer installed
		if err := s.killLeftovers(b, spec); err != nil {
			return err
		}
		if b.temporary {
			if err := removeData(spec.Dir); err != nil {
				return err
			}
		}
	}
	return os.Remove(s.layout.RunFile(b.name))
}

// Wipe stops all backends and removes their data.
func (s *Set) Wipe() error {
	if err := s.Stop(context.Background()); err != nil {
		return err
	}
	err := os.RemoveAll(s.layout.State("data"))
	spec, unknown := s.postgres().spec()
	if unknown != nil {
		return err // PostgreSQL is not installed, so there is no data outside the checkout
	}
	return errors.Join(err, removeData(spec.Dir))
}

// removeData removes a data folder. It also removes the parent folder if that is then empty:
// outside the checkout, only this checkout uses it.
func removeData(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove data: %w", err)
	}
	_ = os.Remove(filepath.Dir(dir))
	return nil
}

func (s *Set) makeDataFolder(name string) (string, error) {
	dir := s.layout.State("data", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make data folder: %w", err)
	}
	return dir, nil
}

// checkDisk returns an error if the disk is nearly full, since servers would fail later with
// unclear errors.
func checkDisk(dir string) error {
	const minFree = 1 << 30
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("ask for free space: %w", err)
	}
	if free := freeBytes(fs); free < minFree {
		return fmt.Errorf("only %d MiB are free below %s: the backends need 1 GiB", free>>20, filepath.Clean(dir))
	}
	return nil
}

// freeBytes returns the free space of a file system, in bytes.
func freeBytes(fs syscall.Statfs_t) uint64 { return fs.Bavail * uint64(fs.Bsize) }

func doNothing(context.Context) error { return nil }
