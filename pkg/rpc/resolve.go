package rpc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"google.golang.org/grpc/resolver"

	"urr.guru/pkg/loop"
)

// The intervals and the timeout of DNS look-ups. grpc's own resolver looks a name up again only
// after a connection has failed, so new replicas would get no calls before that. After a look-up
// without an address it waits for up to 120 s.
const (
	lookupEvery   = 10 * time.Second // ±20 % at random, so that clients do not look up at once
	lookupRetry   = time.Second      // pause after a failure, and minimum time between two look-ups
	lookupTimeout = 5 * time.Second
)

// lookupFunc returns the addresses of a host name.
type lookupFunc func(ctx context.Context, host string) ([]string, error)

// nameResolver resolves dns:///host:port and dns://server:port/host:port, instead of grpc's own
// resolver for this scheme.
type nameResolver struct{ lookup lookupFunc }

var _ resolver.Builder = nameResolver{}

func (nameResolver) Scheme() string { return "dns" }

func (n nameResolver) Build(target resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	host, port, err := net.SplitHostPort(target.Endpoint())
	if err != nil {
		return nil, fmt.Errorf("rpc: %q is not host:port: %w", target.Endpoint(), err)
	}
	r := &nameWatcher{host: host, port: port, cc: cc, lookup: n.lookup, wake: make(chan struct{}, 1), done: make(chan struct{})}
	if r.lookup == nil {
		r.lookup = lookupAt(target.URL.Host)
	}
	if net.ParseIP(host) != nil {
		r.lookup = func(context.Context, string) ([]string, error) { return []string{host}, nil }
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go r.run(ctx)
	return r, nil
}

// lookupAt returns a look-up by a name server; "" means by the system's resolver.
func lookupAt(server string) lookupFunc {
	if server == "" {
		return net.DefaultResolver.LookupHost
	}
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, server)
	}}
	return r.LookupHost
}

// nameWatcher looks up the addresses of one name again and again until Close.
type nameWatcher struct {
	host, port string
	cc         resolver.ClientConn
	lookup     lookupFunc
	wake       chan struct{} // holds a token when a look-up is asked for
	cancel     context.CancelFunc
	done       chan struct{}

	reported []string // the addresses last reported to grpc, sorted
}

var _ resolver.Resolver = (*nameWatcher)(nil)

func (r *nameWatcher) ResolveNow(resolver.ResolveNowOptions) {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *nameWatcher) Close() {
	r.cancel()
	<-r.done
}

func (r *nameWatcher) run(ctx context.Context) {
	defer close(r.done)
	for {
		err := r.resolve(ctx)
		if !loop.Sleep(ctx, lookupRetry) {
			return
		}
		if err != nil {
			continue
		}
		pause := lookupEvery*4/5 - lookupRetry + rand.N(lookupEvery*2/5)
		if !loop.SleepOrWake(ctx, pause, r.wake) {
			return
		}
	}
}

// resolve looks the name up once and reports the addresses to grpc. After a failure, or without an
// address, grpc keeps the earlier ones: connections show whether their replicas are reachable.
func (r *nameWatcher) resolve(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	hosts, err := r.lookup(limited, r.host)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil && len(hosts) == 0 {
		err = errors.New("no address")
	}
	if err != nil {
		err = fmt.Errorf("look up %s: %w", r.host, err)
		if r.reported == nil {
			r.cc.ReportError(err)
		}
		return err
	}
	slices.Sort(hosts)
	if slices.Equal(hosts, r.reported) {
		return nil
	}
	var state resolver.State
	for _, host := range hosts {
		address := resolver.Address{Addr: net.JoinHostPort(host, r.port)}
		state.Addresses = append(state.Addresses, address)
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{address}})
	}
	if err := r.cc.UpdateState(state); err != nil {
		return err
	}
	r.reported = hosts
	return nil
}
