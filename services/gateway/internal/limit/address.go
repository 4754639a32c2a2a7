package limit

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Proxies are the networks of the proxies whose header X-Forwarded-For is trusted.
type Proxies []netip.Prefix

// ParseProxies reads networks (10.0.0.0/8) and single addresses.
func ParseProxies(list []string) (Proxies, error) {
	var p Proxies
	for _, s := range list {
		s = strings.TrimSpace(s)
		if s == "" {
			continue
		}
		if addr, err := netip.ParseAddr(s); err == nil {
			p = append(p, netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()))
			continue
		}
		net, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("%q is neither a network (as 10.0.0.0/8) nor an address", s)
		}
		p = append(p, net.Masked())
	}
	return p, nil
}

func (p Proxies) trusts(a netip.Addr) bool {
	return slices.ContainsFunc(p, func(net netip.Prefix) bool { return net.Contains(a) })
}

// Client returns the address of the client. It reads X-Forwarded-For from the end, as long as the
// proxy that wrote the entry is trusted. If the peer is no trusted proxy, it returns the peer's
// address, or the zero Addr if that cannot be parsed.
func (p Proxies) Client(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	client := peer.Addr().Unmap().WithZone("")
	if !p.trusts(client) {
		return client
	}
	for _, rest := range slices.Backward(r.Header["X-Forwarded-For"]) {
		for rest != "" {
			var hop string
			if at := strings.LastIndexByte(rest, ','); at >= 0 {
				rest, hop = rest[:at], rest[at+1:]
			} else {
				rest, hop = "", rest
			}
			a, ok := parseHop(strings.TrimSpace(hop))
			if !ok {
				return client
			}
			client = a
			if !p.trusts(client) {
				return client
			}
		}
	}
	return client
}

// parseHop parses an address, with or without port and brackets, since proxies differ.
func parseHop(s string) (netip.Addr, bool) {
	if inner, ok := strings.CutSuffix(s, "]"); ok {
		s = strings.TrimPrefix(inner, "[")
	}
	if a, err := netip.ParseAddr(s); err == nil {
		return a.Unmap().WithZone(""), true
	}
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().Unmap().WithZone(""), true
	}
	return netip.Addr{}, false
}

// prefix is a length of the networks of an address, and how many times as many requests such a network
// may send as the narrowest one.
type prefix struct{ bits, times int }

var (
	ipv4 = []prefix{{32, 1}}
	// The owner of a /48 has 65,536 networks of /64, so wider prefixes are counted too.
	ipv6 = []prefix{{64, 1}, {56, 4}, {48, 16}}
)

// prefixesOf returns the networks of an address for which it is counted, the narrowest first.
func prefixesOf(a netip.Addr) []prefix {
	if a.Is6() {
		return ipv6
	}
	return ipv4
}

// networkOf returns the network whose requests are counted together: an IPv4 address, or the /64 of
// one IPv6 subscriber.
func networkOf(a netip.Addr) netip.Addr {
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}
