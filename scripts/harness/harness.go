// Package harness runs the platform for tests: any number of replicas of each service, built with
// failpoints. All its processes end when the test process ends, for whatever reason.
//
//	p := harness.Start(t, harness.Options{Replicas: map[string]int{"ticket": 2}})
//	p.Service("ticket").Kill(0)
//	answer, err := p.Client("alice").Call(ctx, "GET", "/api/v1/events", nil)
//
// A run stores its state on the checkout's backends, in its own databases and under its own
// prefixes, so that several runs can be active. Tests that kill or pause a backend set
// Options.OwnBackends. One process has one such set of backends: its runs take turns and share the
// data, so they must use distinct event ids.
//
// Tests that do not kill or pause processes use the platform Shared. Their package has
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

// Time limits. They are long, because compilers and other tests use the same two processors.
const (
	readyLimit   = 60 * time.Second
	startLimit   = 5 * time.Minute // to start all services, after the build
	migrateLimit = 2 * time.Minute
	stopGrace    = 30 * time.Second
)

// maxReplicas is the most replicas of a service. Their loopback addresses are 127.0.0.1 to .8.
const maxReplicas = 8

// Options say which services a platform has and how they run.
type Options struct {
	// Services are the services to run; empty: all. A service that is called but not listed is absent,
	// as if it were down.
	Services []string
	// Replicas is the number of replicas per service: 1 unless given, at most 8.
	Replicas map[string]int
	// Env has NAME=value pairs for the environment of a service, or of all services under "*".
	Env map[string][]string
	// OwnBackends starts separate backends, which the test may kill and pause (Platform.Backend).
	OwnBackends bool
	// Upgrade describes the older programs that services run until Service.Replace upgrades them. If
	// it is nil, all run this checkout's programs.
	Upgrade *Release
	// Production runs the programs without failpoints, as they are deployed.
	Production bool
	// OIDC makes users of the gateway's last replica sign in at the sandbox's identity provider, and
	// users of the other replicas by DEV_LOGIN.
	OIDC bool
	// ProviderPage lets buyers pay on the sandbox's page; without it, they choose the payment key.
	ProviderPage bool
	// Providers are the payment service's, the default one first; empty: the sandbox. With stripe or
	// toss, their fakes run beside the platform (Platform.Fake).
	Providers []string
	// Links puts proxies between the services and their backends and callees, for Platform.Link.
	Links bool
	// AWS puts proxies that understand the calls between the services and DynamoDB and SQS, for
	// Platform.DynamoDB and Platform.SQS. Links then puts no proxies there.
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
	visitors  *atomic.Uint32 // how many visitors were given an IP address
	// oldPrograms is the folder with the programs that Options.Upgrade describes.
	oldPrograms string
}

// ownBackendsTurn is locked by each run that uses this process's own backends, until the run ends.
var ownBackendsTurn sync.Mutex

// Start runs a platform until the test ends, and returns when it is ready. If it cannot start, the
// test fails. After a failed test, the output shows the end of every service's log.
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

// newPlatform prepares a platform: it reserves a workspace with backends, but starts no service.
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

// start builds, migrates and starts every service. After an error, end stops what was started.
func (p *Platform) start(ctx context.Context) error {
	wanted, err := p.wantedServices()
	if err != nil {
		return err
	}
	if err := p.build(ctx, wanted); err != nil { // the build has no time limit
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

// build builds the programs of the services, and the older programs for Options.Upgrade.
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
		if err := p.startAWSProxies(); err != nil {
			return err
		}
	}
	for _, s := range wanted {
		if err := p.addService(s); err != nil {
			return err
		}
	}
	for _, s := range wanted {
		p.replicaEnv(p.services[s.Name], 0) // creates the links, before other goroutines use them
	}
	return nil
}

// startServices starts each service as soon as the services that it needs are ready.
func (p *Platform) startServices(ctx context.Context, wanted []platform.Service) error {
	ready := map[string]chan struct{}{}
	for _, s := range wanted {
		ready[s.Name] = make(chan struct{})
	}
	return forEachService(ctx, wanted, func(ctx context.Context, s platform.Service) error {
		for _, name := range s.Needs {
			if ready[name] == nil {
				continue // this run omits the service
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

// forEachService calls do for all services concurrently. The first error cancels the other calls.
func forEachService(ctx context.Context, services []platform.Service, do func(context.Context, platform.Service) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, s := range services {
		group.Go(func() error { return do(ctx, s) })
	}
	return group.Wait()
}

// wantedServices lists the services of this run, in the order in which they start.
func (p *Platform) wantedServices() ([]platform.Service, error) {
	for _, name := range slices.Concat(p.opts.Services, slices.Collect(maps.Keys(p.opts.Replicas))) {
		if _, err := platform.Lookup(name); err != nil {
			return nil, err
		}
	}
	var wanted []platform.Service
	if p.opts.fakes() {
		wanted = append(wanted, platform.FakeProviders())
	}
	for _, s := range platform.Services() {
		if p.opts.fakes() && s.Name == platform.Payment {
			s.Needs = append(s.Needs, platform.PSP)
		}
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
		if info, err := os.Stat(p.workspace.layout.LogFile(svc.name(i))); err == nil {
			svc.replicas[i].oldLogSize = info.Size()
		}
		ip := net.IPv4(127, 0, 0, byte(1+i))
		ips = append(ips, ip)
		svc.replicas[i].old = p.startsOld(s)
		svc.replicas[i].listen = platform.ListenAddrs{
			Addr: net.JoinHostPort(ip.String(), strconv.Itoa(p.workspace.layout.Port(s.Port))),
			Ops:  net.JoinHostPort(ip.String(), strconv.Itoa(p.workspace.layout.Port(s.OpsPort))),
		}
	}
	p.names.setAddresses(s.Name, ips)
	p.services[s.Name] = svc
	return nil
}

// end stops the services, each before those that it needs, and then the proxies. Another run can
// then use the workspace.
func (p *Platform) end() error {
	err := p.endServices()
	for _, l := range p.links {
		l.Cut()
	}
	p.closeAWSProxies()
	if p.names != nil {
		p.names.close()
	}
	if p.opts.OwnBackends {
		return errors.Join(err, p.workspace.restoreBackends())
	}
	return errors.Join(err, p.workspace.release(context.Background()))
}

// endServices stops each service as soon as all services that need it have ended. Other services
// stop concurrently, since stopping mostly means waiting for requests in progress.
func (p *Platform) endServices() error {
	ended := map[string]chan struct{}{}
	for name := range p.services {
		ended[name] = make(chan struct{})
	}
	var group errgroup.Group
	for name, svc := range p.services {
		group.Go(func() error {
			defer close(ended[name])
			for caller, other := range p.services {
				if slices.Contains(other.desc.Needs, name) {
					<-ended[caller]
				}
			}
			return svc.endAll()
		})
	}
	return group.Wait()
}

// showLogsOfFailure adds the end of every service's log to the output, if the test has failed.
func (p *Platform) showLogsOfFailure() {
	if !p.tb.Failed() {
		return
	}
	for _, s := range slices.Backward(append([]platform.Service{platform.FakeProviders()}, platform.Services()...)) {
		if svc := p.services[s.Name]; svc != nil {
			svc.showLogs()
		}
	}
}

// Service returns a service of the run. If the service does not run, the test fails.
func (p *Platform) Service(name string) *Service {
	p.tb.Helper()
	s := p.services[name]
	if s == nil {
		p.tb.Fatalf("harness: %s does not run here", name)
	}
	return s
}

func (p *Platform) Secrets() platform.Secrets { return p.workspace.secrets }

// Always calls check once per interval until the test ends. If check returns a non-empty text
// broken, the test fails with it. An error of check is ignored, since a store may be unavailable.
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

// replicaEnv returns all environment variables of the i-th replica of a service.
func (p *Platform) replicaEnv(svc *Service, i int) []string {
	w := p.wiring(svc.desc)
	if gateway := p.services[platform.Gateway]; p.opts.OIDC && (svc.desc.Name == platform.Sandbox || svc == gateway && i == gateway.Replicas()-1) {
		w.OIDC, w.GatewayURL = true, "http://"+gateway.Addr(gateway.Replicas()-1)
	}
	env := append(p.testRun.commonEnv(), w.Env(svc.desc, svc.replicas[i].listen)...)
	if p.opts.AWS {
		env = append(env, p.awsEnv(svc.name(i))...)
	}
	env = slices.Concat(env, p.opts.Env["*"], p.opts.Env[svc.desc.Name], svc.replicas[i].env)
	if svc.replicas[i].old {
		env = append(env, p.opts.Upgrade.Env...)
	}
	return env
}
