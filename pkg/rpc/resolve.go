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

// The times of name look-ups. grpc's own DNS resolver looks up again only after a failure of a
// connection, so that new replicas would get no calls before that, and after look-ups without an
// address it waits for up to 120 s.
const (
	lookupEvery   = 10 * time.Second // a fifth more or less, so that clients spread
	lookupAgain   = time.Second      // after a failure, and the least time between two look-ups
	lookupTimeout = 5 * time.Second
)

// lookupFunc returns the addresses of a host name.
type lookupFunc func(ctx context.Context, host string) ([]string, error)

// nameResolver builds resolvers of dns:///host:port and dns://server:port/host:port. It replaces
// grpc's own for that scheme.
type nameResolver struct{ lookup lookupFunc }

var _ resolver.Builder = nameResolver{}

func (nameResolver) Scheme() string { return "dns" }

func (n nameResolver) Build(target resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	host, port, err := net.SplitHostPort(target.Endpoint())
	if err != nil {
		return nil, fmt.Errorf("rpc: %q is not host:port: %w", target.Endpoint(), err)
	}
	r := &names{host: host, port: port, cc: cc, lookup: n.lookup, now: make(chan struct{}, 1), done: make(chan struct{})}
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

// lookupAt returns a look-up by the given name server, or by the system's resolver for "".
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

// names looks up the addresses behind one name until Close.
type names struct {
	host, port string
	cc         resolver.ClientConn
	lookup     lookupFunc
	now        chan struct{} // holds a token when a look-up is asked for
	cancel     context.CancelFunc
	done       chan struct{}

	known []string // addresses last reported, sorted
}

var _ resolver.Resolver = (*names)(nil)

func (r *names) ResolveNow(resolver.ResolveNowOptions) {
	select {
	case r.now <- struct{}{}:
	default:
	}
}

func (r *names) Close() {
	r.cancel()
	<-r.done
}

func (r *names) run(ctx context.Context) {
	defer close(r.done)
	for {
		err := r.resolve(ctx)
		if !loop.Sleep(ctx, lookupAgain) {
			return
		}
		if err != nil {
			continue
		}
		rest := lookupEvery*4/5 - lookupAgain + rand.N(lookupEvery*2/5)
		if !loop.SleepOrWake(ctx, rest, r.now) {
			return
		}
	}
}

// resolve looks up once. A look-up that fails or has no address does not remove known addresses:
// the connections to them show whether the replicas are there.
func (r *names) resolve(ctx context.Context) error {
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
		if r.known == nil {
			r.cc.ReportError(err)
		}
		return err
	}
	slices.Sort(hosts)
	if slices.Equal(hosts, r.known) {
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
	r.known = hosts
	return nil
}
