package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/net/dns/dnsmessage"

	"urr.guru/scripts/platform"
)

// Link is the network connection of a service (all its replicas) with a backend or callee: redis,
// postgres, dynamodb, sqs, the sandbox, stripe, toss, or a service with one replica. Kafka has no
// link, because its clients use the address that the broker advertises; tests pause or kill it
// (Platform.Backend).
type Link struct {
	p     *Platform
	proxy *toxiproxy.Proxy
	mu    sync.Mutex
}

// proxies returns the server of toxiproxy, which runs the links' proxies, without its metrics.
var proxies = sync.OnceValue(func() *toxiproxy.ApiServer {
	return toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
})

// Link returns the connection of a service to a backend or callee; it needs Options.Links.
func (p *Platform) Link(service, peer string) *Link {
	p.tb.Helper()
	l := p.links[service+">"+peer]
	if l == nil {
		p.tb.Fatalf("harness: there is no link %s > %s (Options.Links, one replica of the peer)", service, peer)
	}
	return l
}

// wiring returns the addresses that a service uses: direct ones, or those of its links' proxies.
func (p *Platform) wiring(s platform.Service) platform.Wiring {
	w := p.Wiring()
	direct := w.Target
	w.Target = func(name string) string {
		callee := p.services[name]
		switch {
		case callee == nil:
			return direct(name) // nothing listens at this address, as if the callee were down
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
	if p.opts.fakes() {
		w.StripeURL, w.TossURL = p.linkedURL(s, platform.Stripe, w.StripeURL), p.linkedURL(s, platform.Toss, w.TossURL)
	}
	w.MailAddr = "" // a test that needs e-mails starts its own SMTP server
	if !p.opts.ProviderPage {
		w.SandboxPage = ""
	}
	database := w.DatabaseURL
	w.DatabaseURL = func(s platform.Service) string { return p.linkedURL(s, "postgres", database(s)) }
	return w
}

// linkedAddress returns the address at which a service reaches a peer: that of the link's proxy if
// there are links, otherwise upstream.
func (p *Platform) linkedAddress(s platform.Service, peer, upstream string) string {
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

// linkedURL returns the URL at which a service reaches a peer: with the host and port of the link's
// proxy if there are links.
func (p *Platform) linkedURL(s platform.Service, peer, upstream string) string {
	u, err := url.Parse(upstream)
	if err != nil {
		panic(err) // addresses of the platform are valid
	}
	u.Host = p.linkedAddress(s, peer, u.Host)
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
	l.addToxic(`{"type": "timeout", "attributes": {"timeout": 0}}`)
}

// Delay delays every response by d ± 20 %, until Heal.
func (l *Link) Delay(d time.Duration) {
	l.p.tb.Helper()
	l.addToxic(fmt.Sprintf(`{"type": "latency", "attributes": {"latency": %d, "jitter": %d}}`, d.Milliseconds(), d.Milliseconds()/5))
}

// Heal ends all faults of the link.
func (l *Link) Heal() {
	l.p.tb.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.proxy.Toxics.ResetToxics(context.Background())
	if err := l.proxy.Start(); err != nil && !errors.Is(err, toxiproxy.ErrProxyAlreadyStarted) {
		l.p.tb.Fatalf("harness: heal %s: %v", l.proxy.Name, err)
	}
}

func (l *Link) addToxic(spec string) {
	l.p.tb.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(spec)); err != nil {
		l.p.tb.Fatalf("harness: %s: %v", l.proxy.Name, err)
	}
}

// domain is the DNS domain for services with several replicas.
const domain = ".urr.test."

// nameServer is a DNS server that has a name for each service with several replicas, like a
// headless Kubernetes Service: the name has one address per replica, all with the same port.
type nameServer struct {
	conn net.PacketConn
	done chan struct{}

	mu    sync.Mutex
	addrs map[string][]net.IP
}

func startNameServer() (*nameServer, error) {
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0") //nolint:noctx // closed by close at the end of the run
	if err != nil {
		return nil, fmt.Errorf("listen for name lookups: %w", err)
	}
	n := &nameServer{conn: conn, done: make(chan struct{}), addrs: map[string][]net.IP{}}
	go n.serve()
	return n, nil
}

func (n *nameServer) close() {
	_ = n.conn.Close()
	<-n.done
}

func (n *nameServer) setAddresses(service string, ips []net.IP) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addrs[service+domain] = ips
}

// target returns the gRPC target for all replicas of a service; gRPC asks this DNS server for them.
func (n *nameServer) target(service string, port int) string {
	return "dns://" + n.conn.LocalAddr().String() + "/" + service + domain + ":" + strconv.Itoa(port)
}

func (n *nameServer) serve() {
	defer close(n.done)
	buf := make([]byte, 1500)
	for {
		size, from, err := n.conn.ReadFrom(buf)
		if err != nil {
			return // closed
		}
		if answer, err := n.answer(buf[:size]); err == nil {
			_, _ = n.conn.WriteTo(answer, from) // the client retries a lost response
		}
	}
}

// answer answers a DNS query: A records for the name of a service, nothing for its other record
// types, and an error for unknown names.
func (n *nameServer) answer(query []byte) ([]byte, error) {
	var p dnsmessage.Parser
	header, err := p.Start(query)
	if err != nil {
		return nil, err
	}
	q, err := p.Question()
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	ips, known := n.addrs[strings.ToLower(q.Name.String())]
	n.mu.Unlock()
	header.Response, header.Authoritative, header.RCode = true, true, dnsmessage.RCodeSuccess
	if !known {
		header.RCode = dnsmessage.RCodeNameError
	}
	b := dnsmessage.NewBuilder(nil, header)
	if err := errors.Join(b.StartQuestions(), b.Question(q), b.StartAnswers()); err != nil {
		return nil, err
	}
	if q.Type == dnsmessage.TypeA {
		for _, ip := range ips {
			record := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 1}
			if err := b.AResource(record, dnsmessage.AResource{A: [4]byte(ip.To4())}); err != nil {
				return nil, err
			}
		}
	}
	return b.Finish()
}
