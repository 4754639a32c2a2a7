package rpc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"

	"urr.guru/pkg/config"
	"urr.guru/pkg/errs"
)

// The members of TLSConfig.Certificate, named as those of a Kubernetes Secret with a certificate.
const (
	CertificateMember = "tls.crt" // the service's certificate, then intermediate ones
	KeyMember         = "tls.key"
	AuthoritiesMember = "ca.crt" // one or more: while they are replaced, old and new
)

// TLSConfig says how calls between services are encrypted: by TLS 1.3 with a certificate per
// service, or by a service mesh.
type TLSConfig struct {
	// Certificate is the service's own certificate, for its name as DNS name (ticket), and the
	// authorities of all services: ca.crt:PEM,tls.crt:PEM,tls.key:PEM. Its file is a folder with these
	// files.
	Certificate map[string]config.Secret `env:"RPC_TLS"`
	// Plain must be set to call without TLS: mesh, where a service mesh encrypts and authenticates the
	// connections, or development.
	Plain string `env:"RPC_PLAIN" oneof:"development mesh"`
}

// Validate demands either a certificate or a reason to have none.
func (c TLSConfig) Validate() error {
	switch {
	case len(c.Certificate) == 0 && c.Plain == "":
		return config.Missing("RPC_TLS", "calls need a certificate, or RPC_PLAIN where a mesh encrypts them")
	case len(c.Certificate) > 0 && c.Plain != "":
		return config.Invalid("RPC_PLAIN", c.Plain, "must not be set together with RPC_TLS")
	}
	return nil
}

// Identity is the certificate by which a service proves its name to callers and callees, and what
// it trusts. Each new connection uses the latest ones. A nil Identity, or one without a certificate,
// makes plain connections.
type Identity struct {
	name    string
	current atomic.Pointer[certificates]
}

type certificates struct {
	members     map[string]config.Secret // from which the others were read
	own         tls.Certificate
	authorities *x509.CertPool
}

// NewIdentity returns the identity of the service name. It fails when a member is missing or not
// PEM, and when the certificate is not valid now, for this name and for both ends of a connection,
// by the authorities: others would refuse it too.
func NewIdentity(name string, cfg TLSConfig) (*Identity, error) {
	i := &Identity{name: name}
	return i, i.Renew(cfg)
}

// Renew uses other certificates for all further connections; the same ones are left alone, even if
// they have expired. It fails like NewIdentity, and then changes nothing. Connections that exist
// remain, at most for their age (maxConnectionAge).
func (i *Identity) Renew(cfg TLSConfig) error {
	used := i.current.Load()
	if len(cfg.Certificate) == 0 || used != nil && maps.Equal(cfg.Certificate, used.members) {
		return nil
	}
	next, expires, err := parseCertificates(i.name, cfg.Certificate)
	if err != nil {
		return fmt.Errorf("RPC_TLS: %w", err)
	}
	i.current.Store(next)
	certificateExpires.WithLabelValues().Set(float64(expires.Unix()))
	return nil
}

func parseCertificates(name string, members map[string]config.Secret) (c *certificates, expires time.Time, err error) {
	pem := func(member string) []byte { return []byte(members[member].Reveal()) }
	c = &certificates{members: members, authorities: x509.NewCertPool()}
	if c.own, err = tls.X509KeyPair(pem(CertificateMember), pem(KeyMember)); err != nil {
		return nil, expires, err
	}
	if !c.authorities.AppendCertsFromPEM(pem(AuthoritiesMember)) {
		return nil, expires, fmt.Errorf("%s has no certificate", AuthoritiesMember)
	}
	intermediates := x509.NewCertPool()
	for _, der := range c.own.Certificate[1:] {
		intermediate, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, expires, err
		}
		intermediates.AddCert(intermediate)
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		chains, err := c.own.Leaf.Verify(x509.VerifyOptions{
			DNSName: name, Roots: c.authorities, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{usage},
		})
		if err != nil {
			return nil, expires, err
		}
		expires = expiry(chains)
	}
	return c, expires, nil
}

// expiry returns when the longest valid chain ends: with its first certificate that expires.
func expiry(chains [][]*x509.Certificate) (last time.Time) {
	for _, chain := range chains {
		first := slices.MinFunc(chain, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
		if first.NotAfter.After(last) {
			last = first.NotAfter
		}
	}
	return last
}

func (i *Identity) hasCertificate() bool { return i != nil && i.current.Load() != nil }

// transport returns the credentials of connections to callee or, if that is empty, of a server.
// refused is called with the connections that the server refuses.
func (i *Identity) transport(callee string, refused func(net.Conn, error)) credentials.TransportCredentials {
	if !i.hasCertificate() {
		return insecure.NewCredentials()
	}
	return &transport{identity: i, callee: callee, refused: refused}
}

// transport makes TLS connections with the latest certificates. No session is resumed: each new
// connection is verified by the latest authorities, and connections are few, since they live for
// minutes.
type transport struct {
	identity *Identity
	callee   string
	refused  func(net.Conn, error)
}

var _ credentials.TransportCredentials = (*transport)(nil)

func (t *transport) tlsConfig() *tls.Config {
	c := t.identity.current.Load()
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{c.own},
		RootCAs: c.authorities, ServerName: t.callee, // whatever address was dialled
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: c.authorities, SessionTicketsDisabled: true,
		DynamicRecordSizingDisabled: true, // small first records help browsers, not calls
	}
}

func (t *transport) ClientHandshake(ctx context.Context, _ string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(t.tlsConfig()).ClientHandshake(ctx, t.callee, conn)
}

func (t *transport) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, info, err := credentials.NewTLS(t.tlsConfig()).ServerHandshake(conn)
	if err != nil {
		t.refused(conn, err)
		return nil, nil, err
	}
	state, ok := info.(credentials.TLSInfo)
	if !ok { // never: the credentials are those of TLS
		return nil, nil, fmt.Errorf("rpc: a connection with %T", info)
	}
	return secured, &certifiedCaller{state.CommonAuthInfo, state.State.PeerCertificates[0].DNSNames}, nil
}

func (t *transport) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

func (t *transport) Clone() credentials.TransportCredentials { return t }

func (t *transport) OverrideServerName(string) error {
	return errors.New("rpc: a callee's name is that of its certificate")
}

// certifiedCaller has the names in the verified certificate of a connection's client.
type certifiedCaller struct {
	credentials.CommonAuthInfo

	names []string
}

func (*certifiedCaller) AuthType() string { return "tls" }

// requireCertifiedAs refuses a call on a connection that does not belong to the caller which the
// signature names: whoever has seen a signed call cannot make another one from it.
func requireCertifiedAs(ctx context.Context, caller string) error {
	var names []string
	if p, ok := peer.FromContext(ctx); ok {
		if c, ok := p.AuthInfo.(*certifiedCaller); ok {
			names = c.names
		}
	}
	if slices.Contains(names, caller) {
		return nil
	}
	return fmt.Errorf("signed by %q on a connection of %q", caller, names)
}

// refuseConnection counts and logs a connection that did not prove to be a service's. One that only
// ended, or whose client refused this server, is not counted.
func (s *Server) refuseConnection(conn net.Conn, err error) {
	if _, ended := errors.AsType[net.Error](err); ended || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return
	}
	_ = s.finishCall(s.stopping, "handshake", conn.RemoteAddr().String(), time.Now(), errs.ErrCallerRefused.Wrap(err))
}
