package rpc

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/endpointsharding"
	"google.golang.org/grpc/balancer/pickfirst"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
)

// balancing is the name of the load balancing policy of all connections. It differs from grpc's
// round_robin with health checking when more than half of the replicas report NOT_SERVING:
//
//	replicas                             round_robin             balancing
//	all report SERVING                   uses all                uses all
//	at most half report NOT_SERVING      uses the SERVING ones   uses the SERVING ones
//	more than half report NOT_SERVING    uses the SERVING ones   uses all connected
//	all connected report NOT_SERVING     fails every call        uses all connected
//
// So a single replica that lost its store gets no calls. When most have lost a store that they
// share, or are overloaded, each call gets the answer of the service, which may not need that
// store, and the first replicas that recover do not get the calls of all.
var balancing = registerBalancing()

func registerBalancing() string {
	const name = "urr_prefer_serving"
	balancer.Register(balancerBuilder(name))
	return name
}

type balancerBuilder string

func (b balancerBuilder) Name() string { return string(b) }

func (balancerBuilder) Build(cc balancer.ClientConn, opts balancer.BuildOptions) balancer.Balancer {
	return &servingBalancer{endpointsharding.NewBalancer(&servingFirst{cc}, opts, newReplica, endpointsharding.Options{})}
}

// servingBalancer keeps a connection to each replica and follows the replica's health. Each replica
// is one endpoint.
type servingBalancer struct{ balancer.Balancer }

// UpdateClientConnState adds the health listener to the resolved addresses. It makes grpc's
// pickfirst follow the health that a server reports.
func (b *servingBalancer) UpdateClientConnState(s balancer.ClientConnState) error {
	return b.Balancer.UpdateClientConnState(balancer.ClientConnState{ResolverState: pickfirst.EnableHealthListener(s.ResolverState)})
}

// servingFirst chooses only among the replicas that report SERVING while these are at least half of
// the connected ones.
type servingFirst struct{ balancer.ClientConn }

func (c *servingFirst) UpdateState(s balancer.State) {
	var serving roundRobin
	unserving := 0
	for _, child := range endpointsharding.ChildStatesFromPicker(s.Picker) {
		if child.State.ConnectivityState != connectivity.Ready {
			continue
		}
		if _, ok := child.State.Picker.(notServing); ok {
			unserving++
			continue
		}
		serving.pickers = append(serving.pickers, child.State.Picker)
	}
	if unserving > 0 && unserving <= len(serving.pickers) {
		serving.next.Store(rand.Uint32())
		s.Picker = &serving
	}
	c.ClientConn.UpdateState(s)
}

// roundRobin uses several pickers, one after another.
type roundRobin struct {
	pickers []balancer.Picker
	next    atomic.Uint32
}

func (p *roundRobin) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	return p.pickers[p.next.Add(1)%uint32(len(p.pickers))].Pick(info) //nolint:gosec // there are few replicas
}

// notServing picks the connection of a replica that reports NOT_SERVING.
type notServing struct{ conn balancer.SubConn }

func (p notServing) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	return balancer.PickResult{SubConn: p.conn}, nil
}

// replica distinguishes a failed connection from a server that reports NOT_SERVING: grpc's
// pickfirst, which it wraps, reports the same state for both.
type replica struct {
	balancer.ClientConn

	mu        sync.Mutex
	connected balancer.SubConn // nil if not connected
	checked   bool             // the server has reported its health on this connection
}

func newReplica(cc balancer.ClientConn, opts balancer.BuildOptions) balancer.Balancer {
	return balancer.Get(pickfirst.Name).Build(&replica{ClientConn: cc}, opts)
}

func (r *replica) NewSubConn(addrs []resolver.Address, opts balancer.NewSubConnOptions) (balancer.SubConn, error) {
	var conn balancer.SubConn
	listener := opts.StateListener
	opts.StateListener = func(s balancer.SubConnState) {
		r.recordConnState(conn, s.ConnectivityState)
		listener(s)
	}
	conn, err := r.ClientConn.NewSubConn(addrs, opts) //nolint:staticcheck // only a second address per connection is deprecated
	return conn, err
}

func (r *replica) recordConnState(conn balancer.SubConn, s connectivity.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case s == connectivity.Ready:
		r.connected, r.checked = conn, false
	case r.connected == conn:
		r.connected = nil
	}
}

func (r *replica) UpdateState(s balancer.State) {
	conn := r.unservingConn(s.ConnectivityState)
	if conn == nil {
		r.ClientConn.UpdateState(s)
		return
	}
	r.ClientConn.UpdateState(balancer.State{ConnectivityState: connectivity.Ready, Picker: notServing{conn}})
	// The replica may be draining, and its replacement may have an address already.
	r.ResolveNow(resolver.ResolveNowOptions{})
}

// unservingConn returns the established connection while its server does not report SERVING. Before
// the first report, which comes with the first round trip, it is nil, and calls wait.
func (r *replica) unservingConn(s connectivity.State) balancer.SubConn {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.connected == nil {
		return nil
	}
	if s == connectivity.Ready || s == connectivity.TransientFailure {
		r.checked = true
	}
	if s == connectivity.Ready || !r.checked {
		return nil
	}
	return r.connected
}
