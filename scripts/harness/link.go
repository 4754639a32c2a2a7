package harness

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"urr.guru/scripts/platform"
)

// Link is the network between one service (all its replicas) and a backend or callee: redis,
// postgres, dynamodb, sqs, the sandbox, or a service of one replica. Kafka's clients use the broker's
// advertised address, so that Kafka is paused or killed instead (Platform.Backend).
type Link struct {
	p     *Platform
	proxy *toxiproxy.Proxy
	mu    sync.Mutex
}

// proxies is the library's registry; its metrics are not collected.
var proxies = sync.OnceValue(func() *toxiproxy.ApiServer {
	return toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
})

// Link returns the link of a service to a peer; it needs Options.Links.
func (p *Platform) Link(service, peer string) *Link {
	p.tb.Helper()
	l := p.links[service+">"+peer]
	if l == nil {
		p.tb.Fatalf("harness: there is no link %s > %s (Options.Links, one replica of the peer)", service, peer)
	}
	return l
}

// via returns the address at which a service reaches a peer.
func (p *Platform) via(s platform.Service, peer, upstream string) string {
	if !p.opts.Links {
		return upstream
	}
	name := s.Name + ">" + peer
	if l := p.links[name]; l != nil {
		return l.proxy.Listen
	}
	proxy := toxiproxy.NewProxy(proxies(), name, "127.0.0.1:0", upstream)
	if err := proxy.Start(); err != nil {
		p.tb.Fatalf("harness: link %s: %v", name, err)
	}
	p.links[name] = &Link{p: p, proxy: proxy}
	return proxy.Listen
}

// viaURL is via for the host of a URL.
func (p *Platform) viaURL(s platform.Service, peer, upstream string) string {
	u, err := url.Parse(upstream)
	if err != nil {
		panic(err) // addresses of the platform are valid
	}
	u.Host = p.via(s, peer, u.Host)
	return u.String()
}

// Cut drops every connection and refuses new ones.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.proxy.Stop()
}

// Blackhole keeps connections open but passes no data, like a lost route.
func (l *Link) Blackhole() {
	l.p.tb.Helper()
	l.toxic(`{"type": "timeout", "attributes": {"timeout": 0}}`)
}

// Delay delays every response by d ± 20 %.
func (l *Link) Delay(d time.Duration) {
	l.p.tb.Helper()
	l.toxic(fmt.Sprintf(`{"type": "latency", "attributes": {"latency": %d, "jitter": %d}}`, d.Milliseconds(), d.Milliseconds()/5))
}

// Heal removes all faults of the link.
func (l *Link) Heal() {
	l.p.tb.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.proxy.Toxics.ResetToxics(context.Background())
	if err := l.proxy.Start(); err != nil && !errors.Is(err, toxiproxy.ErrProxyAlreadyStarted) {
		l.p.tb.Fatalf("harness: heal %s: %v", l.proxy.Name, err)
	}
}

func (l *Link) toxic(spec string) {
	l.p.tb.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(spec)); err != nil {
		l.p.tb.Fatalf("harness: %s: %v", l.proxy.Name, err)
	}
}
