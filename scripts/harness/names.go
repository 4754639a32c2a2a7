package harness

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

// domain is the domain of the services' names.
const domain = ".urr.test."

// names is a DNS server for services with several replicas, like a headless Kubernetes Service: one
// name, an address per replica, one port.
type names struct {
	conn net.PacketConn
	done chan struct{}

	mu    sync.Mutex
	addrs map[string][]net.IP
}

func serveNames() (*names, error) {
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0") //nolint:noctx // closed by close at the end of the run
	if err != nil {
		return nil, fmt.Errorf("listen for name lookups: %w", err)
	}
	n := &names{conn: conn, done: make(chan struct{}), addrs: map[string][]net.IP{}}
	go n.serve()
	return n, nil
}

func (n *names) close() {
	_ = n.conn.Close()
	<-n.done
}

func (n *names) set(service string, ips []net.IP) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addrs[service+domain] = ips
}

// target is the gRPC target of all replicas: its resolver queries this server.
func (n *names) target(service string, port int) string {
	return "dns://" + n.conn.LocalAddr().String() + "/" + service + domain + ":" + strconv.Itoa(port)
}

func (n *names) serve() {
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

// answer returns the A records of a known name. Other record types of it are empty; other names do
// not exist.
func (n *names) answer(query []byte) ([]byte, error) {
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
	if err := b.StartQuestions(); err != nil {
		return nil, err
	}
	if err := b.Question(q); err != nil {
		return nil, err
	}
	if err := b.StartAnswers(); err != nil {
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
