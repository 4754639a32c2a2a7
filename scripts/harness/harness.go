// Package harness runs the platform for tests: any number of replicas of each service, built with
// failpoints. What it starts ends with the test process, however that ends.
//
//	p := harness.Start(t, harness.Options{Replicas: map[string]int{"ticket": 2}})
//	p.Service("ticket").Kill(0)
//	answer, err := p.Client("alice").Call(ctx, "GET", "/api/v1/events", nil)
//
// A run stores its state on the checkout's backends, in its own databases and under its own
// prefixes, so that runs can be concurrent. Tests that kill or pause a backend set
// Options.OwnBackends; such runs of one process take turns and share their data, so they must use
// distinct event ids.
//
// Tests that do not kill or pause processes use one platform, Shared. Their package has
//
//	func TestMain(m *testing.M) { harness.Main(m) }
package harness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"urr.guru/scripts/awsproxy"
	"urr.guru/scripts/platform"
)

// Time limits. A start competes with compilers and other tests for two processors.
const (
	readyLimit   = 60 * time.Second
	startLimit   = 5 * time.Minute // of all services, after the build
	migrateLimit = 2 * time.Minute
	stopGrace    = 30 * time.Second
)

// maxReplicas is the maximum per service: each listens on a loopback address of its own, 127.0.0.1
// to .8.
const maxReplicas = 8

// Options of a run.
type Options struct {
	// Services to run; empty: all. Services that they call must be listed too, or be absent on
	// purpose.
	Services []string
	// Replicas per service, 1 where absent, at most 8.
	Replicas map[string]int
	// Env adds NAME=value to the environment of a service, or of all under "*".
	Env map[string][]string
	// OwnBackends starts backends that the run may kill and pause (Platform.Backend).
	OwnBackends bool
	// Upgrade is what services run at first, until Service.Replace upgrades them. nil: all run this
	// checkout's programs.
	Upgrade *Release
	// Production runs the programs without failpoints, as they are deployed.
	Production bool
	// OIDC makes users of the gateway's last replica sign in at the identity provider of the sandbox, those
	// of the others by DEV_LOGIN.
	OIDC bool
	// Links puts a proxy between the services and their backends and callees, for Platform.Link.
	Links bool
	// AWS puts proxies between the services and DynamoDB and SQS that understand the calls, for
	// Platform.DynamoDB and Platform.SQS; there are no links to these two then.
	AWS bool
}

// Platform is a running platform.
type Platform struct {
	tb        testing.TB
	testRun   *testRun
	workspace *workspace
	opts      Options
	services  map[string]*Service
	names     *nameServer
	links     map[string]*Link
	dynamoDB  *awsproxy.Proxy // nil without Options.AWS
	sqs       *awsproxy.Proxy
	shared    bool
	visitors  *atomic.Uint32 // the number of addresses in use
	// oldPrograms is the folder with the programs of Options.Upgrade.
	oldPrograms string
}

// ownBackendsTurn is held by the run that uses the process's own backends.
var ownBackendsTurn sync.Mutex

// Start runs a platform until the test ends; it is ready when Start returns. A failed start fails
// the test. When the test fails, the end of every service's log is shown.
func Start(tb testing.TB, opts Options) *Platform {
	tb.Helper()
	if opts.OwnBackends {
		ownBackendsTurn.Lock()
		tb.Cleanup(ownBackendsTurn.Unlock)
	}
	p, err := newPlatform(tb.Context(), opts)
	if err != nil {
		tb.Fatal("harness: ", err)
	}
	p.tb = tb
	tb.Cleanup(func() {
		p.showLogsOfFailure()
		if err := p.end(); err != nil {
			tb.Errorf("harness: %v", err)
		}
	})
	if err := p.start(tb.Context()); err != nil {
		tb.Fatal("harness: ", err)
	}
	return p
}

// newPlatform prepares a platform without starting processes.
func newPlatform(ctx context.Context, opts Options) (*Platform, error) {
	w, err := currentRun()
	if err != nil {
		return nil, err
	}
	p := &Platform{visitors: new(atomic.Uint32), testRun: w, opts: opts, services: map[string]*Service{}, links: map[string]*Link{}}
	if opts.OwnBackends {
		p.workspace, err = w.own()
	} else {
		p.workspace, err = w.sharedBackends(ctx, opts.Production)
	}
	return p, err
}

// start builds, migrates and starts every service. On failure, end stops what it has started.
func (p *Platform) start(ctx context.Context) error {
	wanted, err := p.wantedServices()
	if err != nil {
		return err
	}
	if err := p.build(ctx, wanted); err != nil { // without a time limit
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := p.connect(wanted); err != nil {
		return err
	}
	err = forEachService(ctx, wanted, func(ctx context.Context, s platform.Service) error {
		if !s.Migrates {
			return nil
		}
		return p.workspace.migrate(ctx, s, p.program(s, p.startsOld(s)), p.replicaEnv(p.services[s.Name], 0))
	})
	if err != nil {
		return err
	}
	return p.startServices(ctx, wanted)
}

// build builds the programs of the services, and those of the release that Options.Upgrade names.
func (p *Platform) build(ctx context.Context, wanted []platform.Service) error {
	if err := p.testRun.build(ctx, p.variant(), wanted); err != nil || p.opts.Upgrade == nil {
		return err
	}
	return p.buildOld(ctx, wanted)
}

// connect reserves the addresses of the services, and starts the proxies between them.
func (p *Platform) connect(wanted []platform.Service) (err error) {
	if p.names, err = startNameServer(); err != nil {
		return err
	}
	if p.opts.AWS {
		if err := p.serveAWS(); err != nil {
			return err
		}
	}
	for _, s := range wanted {
		if err := p.addService(s); err != nil {
			return err
		}
	}
	for _, s := range wanted {
		p.replicaEnv(p.services[s.Name], 0) // creates the links in one goroutine
	}
	return nil
}

// startServices starts each service once those that it needs are ready.
func (p *Platform) startServices(ctx context.Context, wanted []platform.Service) error {
	ready := map[string]chan struct{}{}
	for _, s := range wanted {
		ready[s.Name] = make(chan struct{})
	}
	return forEachService(ctx, wanted, func(ctx context.Context, s platform.Service) error {
		for _, name := range s.Needs {
			if ready[name] == nil {
				continue // absent on purpose
			}
			select {
			case <-ready[name]:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := p.services[s.Name].startAll(ctx); err != nil {
			return err
		}
		close(ready[s.Name])
		return nil
	})
}

// forEachService calls do for all services concurrently; the first error cancels the others.
func forEachService(ctx context.Context, services []platform.Service, do func(context.Context, platform.Service) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, s := range services {
		group.Go(func() error { return do(ctx, s) })
	}
	return group.Wait()
}

// wantedServices lists the services of this run in start order.
func (p *Platform) wantedServices() ([]platform.Service, error) {
	for _, name := range slices.Concat(p.opts.Services, slices.Collect(maps.Keys(p.opts.Replicas))) {
		if _, err := platform.Lookup(name); err != nil {
			return nil, err
		}
	}
	var wanted []platform.Service
	for _, s := range platform.Services() {
		if len(p.opts.Services) == 0 || slices.Contains(p.opts.Services, s.Name) {
			wanted = append(wanted, s)
		}
	}
	return wanted, nil
}

func (p *Platform) addService(s platform.Service) error {
	n := max(1, p.opts.Replicas[s.Name])
	if n > maxReplicas {
		return fmt.Errorf("%d replicas of %s: at most %d", n, s.Name, maxReplicas)
	}
	svc := &Service{p: p, desc: s, replicas: make([]replica, n)}
	var ips []net.IP
	for i := range svc.replicas {
		if info, err := os.Stat(p.workspace.layout.Log(svc.name(i))); err == nil {
			svc.replicas[i].logged = info.Size()
		}
		ip := net.IPv4(127, 0, 0, byte(1+i))
		ips = append(ips, ip)
		svc.replicas[i].old = p.startsOld(s)
		svc.replicas[i].listen = platform.Listen{
			Addr: net.JoinHostPort(ip.String(), strconv.Itoa(p.workspace.layout.Port(s.Port))),
			Ops:  net.JoinHostPort(ip.String(), strconv.Itoa(p.workspace.layout.Port(s.OpsPort))),
		}
	}
	p.names.setAddresses(s.Name, ips)
	p.services[s.Name] = svc
	return nil
}

// end stops the services in reverse order of their dependencies, and then the proxies. It leaves
// the workspace ready for the next run.
func (p *Platform) end() error {
	err := p.endServices()
	for _, l := range p.links {
		l.Cut()
	}
	p.closeAWS()
	if p.names != nil {
		p.names.close()
	}
	if p.opts.OwnBackends {
		return errors.Join(err, p.workspace.restoreBackends())
	}
	return errors.Join(err, p.workspace.release(context.Background()))
}

// endServices ends each service once all services that need it have ended, the others
// concurrently: an end takes little work, but waits for the drain.
func (p *Platform) endServices() error {
	ended := map[string]chan struct{}{}
	for name := range p.services {
		ended[name] = make(chan struct{})
	}
	var group errgroup.Group
	for name, svc := range p.services {
		group.Go(func() error {
			defer close(ended[name])
			for _, caller := range platform.Services() {
				if done := ended[caller.Name]; done != nil && slices.Contains(caller.Needs, name) {
					<-done
				}
			}
			return svc.endAll()
		})
	}
	return group.Wait()
}

// showLogsOfFailure adds the end of every service's log to the output of a failed test.
func (p *Platform) showLogsOfFailure() {
	if !p.tb.Failed() {
		return
	}
	for _, s := range slices.Backward(platform.Services()) {
		if svc := p.services[s.Name]; svc != nil {
			svc.showLogs()
		}
	}
}

// Service returns a service of the run; a service that does not run fails the test.
func (p *Platform) Service(name string) *Service {
	p.tb.Helper()
	s := p.services[name]
	if s == nil {
		p.tb.Fatalf("harness: %s does not run here", name)
	}
	return s
}

func (p *Platform) Secrets() platform.Secrets { return p.workspace.secrets }

// Always checks an invariant from now on until the test ends, and fails the test when it is
// violated. An error of the check itself is treated as an unavailable store: only `broken` fails
// the test.
func (p *Platform) Always(name string, every time.Duration, check func(context.Context) (broken string, err error)) {
	p.tb.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(p.tb.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(every); ; {
			attempt, stop := context.WithTimeout(ctx, 10*time.Second)
			broken, err := check(attempt)
			stop()
			if err == nil && broken != "" {
				p.tb.Errorf("invariant %q does not hold: %s", name, broken)
				return
			}
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
		}
	}()
	p.tb.Cleanup(func() {
		cancel()
		<-done
	})
}

// replicaEnv is a replica's whole environment.
func (p *Platform) replicaEnv(svc *Service, i int) []string {
	w := p.wiring(svc.desc)
	if gateway := p.services[platform.Gateway]; p.opts.OIDC && (svc.desc.Name == platform.Sandbox || svc == gateway && i == gateway.Replicas()-1) {
		w.OIDC, w.GatewayURL = true, "http://"+gateway.Addr(gateway.Replicas()-1)
	}
	env := append(p.testRun.commonEnv(), w.Env(svc.desc, svc.replicas[i].listen)...)
	if p.opts.AWS {
		env = append(env, p.awsEnv(svc.name(i))...)
	}
	env = append(append(env, p.opts.Env["*"]...), p.opts.Env[svc.desc.Name]...)
	if svc.replicas[i].old {
		env = append(env, p.opts.Upgrade.Env...)
	}
	return env
}

// wiring contains the addresses for a service: direct, or through its links.
func (p *Platform) wiring(s platform.Service) platform.Wiring {
	w := p.workspace.wiring()
	direct := w.Target
	w.Target = func(name string) string {
		callee := p.services[name]
		switch {
		case callee == nil:
			return direct(name) // no listener: like a callee that is down
		case len(callee.replicas) > 1:
			return p.names.target(name, p.workspace.layout.Port(callee.desc.Port))
		default:
			return p.linkedAddress(s, name, callee.replicas[0].listen.Addr)
		}
	}
	w.RedisAddrs = []string{p.linkedAddress(s, "redis", w.RedisAddrs[0])}
	if !p.opts.AWS {
		w.DynamoDBEndpoint = p.linkedURL(s, "dynamodb", w.DynamoDBEndpoint)
		w.SQSEndpoint = p.linkedURL(s, "sqs", w.SQSEndpoint)
	}
	w.SandboxURL = p.linkedURL(s, platform.Sandbox, w.SandboxURL)
	database := w.DatabaseURL
	w.DatabaseURL = func(s platform.Service) string { return p.linkedURL(s, "postgres", database(s)) }
	return w
}
