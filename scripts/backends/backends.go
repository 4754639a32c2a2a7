// Package backends runs the servers that URR stores its state in, for development and tests:
// Redis, PostgreSQL, Kafka, DynamoDB Local and ElasticMQ. They come from apt and Maven, keep their
// data under .urr, and listen on loopback ports of this checkout.
package backends

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"urr.guru/scripts/internal/apt"
	"urr.guru/scripts/internal/process"
	"urr.guru/scripts/platform"
)

// Time limits. Starting a JVM on a machine that is building something else takes its time.
const (
	startLimit = 90 * time.Second
	stopLimit  = 20 * time.Second
)

// Set is the backends of one checkout.
type Set struct {
	layout   platform.Layout
	say      func(format string, args ...any)
	apt      apt.Installer
	backends []backend
	begin    func(process.Spec) (*process.Process, error)

	kafkaOutside string
}

// backend is one server process.
type backend struct {
	name  string
	ports []int
	stop  syscall.Signal // asks for a clean end
	// prepare installs what is missing and lays out the data folder; repeating it changes nothing.
	prepare func(ctx context.Context) error
	// spec says how to start; only called after prepare.
	spec  func() (process.Spec, error)
	ready func(ctx context.Context) error
	// forTests: the platform itself has no use for it.
	forTests bool
	// settle completes a server that is ready (databases, cluster slots); repeating it changes nothing.
	settle func(ctx context.Context) error
}

// State is a row of the status table.
type State struct {
	Name    string
	Port    int
	PID     int // 0: not running
	Ready   bool
	Started time.Time
	// ForTests tells that the platform itself has no use for it.
	ForTests bool
}

// record is what a run file holds.
type record struct {
	process.Identity
	Started time.Time `json:"started"`
	Ports   []int     `json:"ports"`
}

// New describes the backends of a checkout; cluster adds the three-node Redis Cluster. Progress and
// notices go to say.
func New(layout platform.Layout, cluster bool, say func(format string, args ...any)) *Set {
	s := &Set{layout: layout, say: say, begin: process.Start}
	s.apt = apt.Installer{Log: layout.Log("apt"), Say: say}
	s.backends = []backend{s.redis(), s.postgres(), s.kafka(), s.dynamodb(), s.sqs()}
	if cluster {
		s.backends = append(s.backends, s.redisCluster()...)
	}
	return s
}

// StartedBy makes the set start its processes by another function than process.Start, as by one that
// ties them to the life of a test.
func (s *Set) StartedBy(begin func(process.Spec) (*process.Process, error)) *Set {
	s.begin = begin
	return s
}

// KafkaOutside gives Kafka a second listener, on the loopback port KafkaOutsidePort, whose clients are sent to addr (host:port): for those
// who come by a way of their own, as pods do. Kafka's clients follow what the broker advertises, so that one listener cannot serve both.
func (s *Set) KafkaOutside(addr string) *Set {
	s.kafkaOutside = addr
	return s
}

// lock makes commands that start or stop backends of a run take turns.
func (s *Set) lock(ctx context.Context) (unlock func(), err error) {
	return process.Lock(ctx, s.layout.State("run", "backends.lock"), func() { s.say("waiting for another command to start or stop backends") })
}

// Start brings up what is not up. It returns when all are ready, or with every reason why not.
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
	var missing []backend
	for _, b := range s.backends {
		if s.Running(b.name) {
			moved, err := s.moved(b)
			if err != nil {
				return err
			}
			if !moved {
				continue
			}
		}
		missing = append(missing, b)
	}
	errs := make([]error, len(missing))
	var wg sync.WaitGroup
	for i, b := range missing {
		wg.Go(func() { errs[i] = s.start(ctx, b) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for _, b := range s.backends {
		if err := b.settle(ctx); err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	return nil
}

// moved stops a backend that an earlier start, with another URR_PORT_OFFSET, put on other ports.
func (s *Set) moved(b backend) (bool, error) {
	var r record
	if _, err := process.Load(s.layout.Record(b.name), &r); err != nil {
		return false, err
	}
	if slices.Equal(r.Ports, b.ports) {
		return false, nil
	}
	s.say("%-16s runs on ports %v, wanted on %v", b.name, r.Ports, b.ports)
	return true, s.stop(b)
}

func (s *Set) start(ctx context.Context, b backend) error {
	if err := b.prepare(ctx); err != nil {
		return fmt.Errorf("%s: %w", b.name, err)
	}
	for _, port := range b.ports {
		if err := process.CheckPort(port); err != nil {
			return fmt.Errorf("%s: %w; end it, or run this checkout on other ports (%s=%d)",
				b.name, err, platform.OffsetVariable, s.layout.Offset+1000)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit) // installing, before, takes as long as it takes
	defer cancel()
	began := time.Now()
	spec, err := b.spec()
	if err != nil {
		return fmt.Errorf("%s: %w", b.name, err)
	}
	spec.Name, spec.Log = b.name, s.layout.Log(b.name)
	p, err := s.begin(spec)
	if err != nil {
		return err
	}
	// Remembered before it is ready: an interrupted start must not leave a process that nobody can stop.
	if err := process.Save(s.layout.Record(b.name), record{p.Identity, began, b.ports}); err != nil {
		return errors.Join(err, p.Stop(b.stop, stopLimit))
	}
	if err := p.WaitReady(ctx, spec, b.ready); err != nil {
		return errors.Join(err, s.stop(b))
	}
	s.say("%-16s ready on %d after %.1f s", b.name, b.ports[0], time.Since(began).Seconds())
	return nil
}

// Stop ends the named backends, or without a name every one that Start began, the Redis Cluster
// included, whether or not this Set lists it.
func (s *Set) Stop(ctx context.Context, names ...string) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return s.stopNamed(names...)
}

func (s *Set) stopNamed(names ...string) error {
	all := New(s.layout, true, s.say).backends
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, b := range all {
		if len(names) == 0 || slices.Contains(names, b.name) {
			wg.Go(func() { errs[i] = s.stop(b) })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (s *Set) stop(b backend) error {
	var r record
	found, err := process.Load(s.layout.Record(b.name), &r)
	if err != nil || !found {
		return err
	}
	if r.Alive() {
		if err := r.Stop(b.stop, stopLimit); err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		s.say("%-16s stopped", b.name)
	}
	return os.Remove(s.layout.Record(b.name))
}

// Wipe removes the data of stopped backends, so that the next Start begins with none.
func (s *Set) Wipe() error {
	if err := s.Stop(context.Background()); err != nil {
		return err
	}
	dir, _, err := s.postgresHome()
	if err != nil && os.Geteuid() == 0 {
		dir = "" // there is no PostgreSQL on this machine yet, and no data of it
	}
	return errors.Join(os.RemoveAll(s.layout.State("data")), os.RemoveAll(dir))
}

// Signal sends a signal to a backend's process: SIGKILL loses it, SIGSTOP makes it hang, SIGCONT
// ends that.
func (s *Set) Signal(name string, sig syscall.Signal) error {
	var r record
	found, err := process.Load(s.layout.Record(name), &r)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("%s does not run", name)
	}
	if err := r.Signal(sig); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Running tells whether the process that Start began is still there.
func (s *Set) Running(name string) bool {
	var r record
	found, err := process.Load(s.layout.Record(name), &r)
	return err == nil && found && r.Alive()
}

// Missing lists the backends of the set that do not run.
func (s *Set) Missing() []string {
	var missing []string
	for _, b := range s.backends {
		if !s.Running(b.name) {
			missing = append(missing, b.name)
		}
	}
	return missing
}

// Status asks every backend.
func (s *Set) Status(ctx context.Context) []State {
	states := make([]State, len(s.backends))
	var wg sync.WaitGroup
	for i, b := range s.backends {
		wg.Go(func() {
			states[i] = State{Name: b.name, Port: b.ports[0], ForTests: b.forTests}
			var r record
			if found, err := process.Load(s.layout.Record(b.name), &r); err != nil || !found || !r.Alive() {
				return
			}
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			states[i].PID, states[i].Started = r.PID, r.Started
			states[i].Ready = b.ready(ctx) == nil
		})
	}
	wg.Wait()
	return states
}

// data makes the data folder of a backend.
func (s *Set) data(name string) (string, error) {
	dir := s.layout.State("data", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make data folder: %w", err)
	}
	return dir, nil
}

// checkDisk refuses to start servers that would fail later, in words that say less.
func checkDisk(dir string) error {
	const need = 1 << 30
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("ask for free space: %w", err)
	}
	if free := fs.Bavail * uint64(fs.Bsize); free < need {
		return fmt.Errorf("only %d MiB are free below %s: the backends need 1 GiB", free>>20, filepath.Clean(dir))
	}
	return nil
}

func nothing(context.Context) error { return nil }
