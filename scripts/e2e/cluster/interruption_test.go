package cluster_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/scripts/platform"
)

const (
	faultDuration = 5 * time.Second
	// recoversWithin is the time after a fault within which requests may still fail.
	recoversWithin = 10 * time.Second
	// calm is the time without a failed request after which the platform has recovered.
	calm = 10 * time.Second
	// giveUp is the time after which the step no longer waits for a recovery.
	giveUp = 2 * time.Minute
)

// interruption makes Redis unavailable for 5 s under load. No service loses its addresses, which
// would make callers wait for the next DNS lookup. Requests succeed again soon after the fault.
func (w *world) interruption(t *testing.T) {
	t.Helper()
	link := w.links[platform.RedisPort]
	for _, fault := range []struct {
		name, event string
		begin, end  func() error
	}{
		{"refuses connections", "cluster-cut", func() error { link.Stop(); return nil }, link.Start},
		{
			"does not respond", "cluster-pause",
			func() error { return w.backends.Signal(platform.Redis, syscall.SIGSTOP) },
			func() error { return w.backends.Signal(platform.Redis, syscall.SIGCONT) },
		},
	} {
		t.Run(fault.name, func(t *testing.T) {
			before := w.pods(t)
			requests, stop := w.startPolls(t, fault.event)
			lookups := w.watchAddresses(t)
			require.NoError(t, fault.begin())
			time.Sleep(faultDuration)
			require.NoError(t, fault.end())
			ended := time.Now()
			recovery := requests.recovery(t, ended)
			stop()
			fewest := lookups()
			sent, failures := requests.results()
			t.Logf("%d of %d requests failed, the last %s after the end; fewest addresses: %v", len(failures), sent, recovery, fewest)
			require.NotEmpty(t, failures, "Redis was not needed")
			for service, n := range fewest {
				require.Positive(t, n, "%s had no address", service)
			}
			require.LessOrEqual(t, recovery, recoversWithin, "the last failure: %s", failures[len(failures)-1].text)
			require.Equal(t, before, w.pods(t), "no pod was replaced")
		})
	}
}

// recovery returns how long after the end of a fault the last request that failed was started.
func (p *polls) recovery(t *testing.T, ended time.Time) time.Duration {
	t.Helper()
	last := ended
	testkit.Until(t, func() bool {
		_, failures := p.results()
		if n := len(failures); n > 0 && failures[n-1].began.After(last) {
			last = failures[n-1].began
		}
		return time.Since(last) > calm+pollLimit || last.Sub(ended) > giveUp
	}, "requests succeed again")
	return last.Sub(ended).Round(time.Millisecond)
}

// addresses records the lowest number of addresses of each service that its callers could see:
// those of the DNS name of a gRPC service; 1 for the gateway while it accepts connections.
type addresses struct {
	resolver *net.Resolver
	gateway  string
	fewest   map[string]int
}

// watchAddresses records the numbers of addresses until end is called.
func (w *world) watchAddresses(t *testing.T) (end func() map[string]int) {
	t.Helper()
	dns := w.run(t, "kubectl", "-n", "kube-system", "get", "service", "kube-dns", "-o", "jsonpath={.spec.clusterIP}:53")
	a := &addresses{gateway: w.gateway(t), fewest: map[string]int{}}
	a.resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, dns)
	}}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			a.sample(ctx)
			<-tick.C
		}
	})
	end = func() map[string]int { cancel(); running.Wait(); return a.fewest }
	t.Cleanup(func() { end() })
	return end
}

func (a *addresses) sample(ctx context.Context) {
	for _, service := range platform.Names() {
		if service == platform.Sandbox {
			continue
		}
		n, err := a.count(ctx, service)
		if err != nil {
			continue // without a DNS response, the number is unknown
		}
		if fewest, seen := a.fewest[service]; !seen || n < fewest {
			a.fewest[service] = n
		}
	}
}

func (a *addresses) count(ctx context.Context, service string) (int, error) {
	if service == platform.Gateway {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", a.gateway)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		return 1, conn.Close()
	}
	found, err := a.resolver.LookupHost(ctx, "urr-"+service+"-headless."+namespace+".svc.cluster.local.")
	if unknown := new(net.DNSError); errors.As(err, &unknown) && unknown.IsNotFound {
		return 0, nil
	}
	return len(found), err
}
