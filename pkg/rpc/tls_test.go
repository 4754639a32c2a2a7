package rpc_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"

	"urr.guru/pkg/config"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/rpc/authority"
	"urr.guru/pkg/telemetry/metricstest"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
)

// connectionAge is longer than a connection lives.
const connectionAge = 6 * time.Minute

func newAuthority(t *testing.T) authority.KeyPair {
	t.Helper()
	a, err := authority.New(time.Now().Add(24 * time.Hour))
	require.NoError(t, err)
	return a
}

// issue returns the setting of a service whose certificate is valid for an hour.
func issue(t *testing.T, name string, by authority.KeyPair, trusted ...authority.KeyPair) rpc.TLSConfig {
	t.Helper()
	pair, err := by.Issue(name, time.Now().Add(time.Hour))
	require.NoError(t, err)
	return pair.Config(append(trusted, by)...)
}

func identity(t *testing.T, name string, cfg rpc.TLSConfig) *rpc.Identity {
	t.Helper()
	i, err := rpc.NewIdentity(name, cfg)
	require.NoError(t, err)
	return i
}

// serveAs serves f as "queue" with an identity, which may be nil, until the test ends.
func serveAs(t *testing.T, id *rpc.Identity, f *fakeQueue, log *slog.Logger) *bufconn.Listener {
	t.Helper()
	s, err := rpc.NewServer("queue", rpc.ServerConfig{Accept: acceptedKeys(gatewayKey)}, log, rpc.ServeAs(id))
	require.NoError(t, err)
	queuev1.RegisterQueueServiceServer(s, f)
	s.SetServing(true)
	l := bufconn.Listen(1 << 16)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, s.Stop(context.Background()))
		require.NoError(t, <-done)
	})
	return l
}

// callAs returns a function that calls queue as the gateway does, with an identity that may be nil.
func callAs(t *testing.T, id *rpc.Identity, l *bufconn.Listener) func() error {
	t.Helper()
	conn, err := rpc.Dial("gateway", "queue", rpc.Peer{Addr: "passthrough:///x", Key: gatewayKey}, rpc.WithGRPC(dialer(l)), rpc.WithIdentity(id))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return func() error {
		_, err := queuev1.NewQueueServiceClient(conn).Leave(t.Context(), &queuev1.LeaveRequest{EventId: "demo"})
		return err
	}
}

// A signature that was seen on the wire is worth nothing on another service's connection, though it
// is valid for 30 s and does not cover the user in the body. Without certificates it would be.
func TestCapturedCallIsRefused(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	for name, c := range map[string]struct {
		thief   string
		refused bool
	}{
		"another service's connection": {"stats", true},
		"the caller's own":             {"gateway", false},
		"no certificates at all":       {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var queue, gateway *rpc.Identity
			thief := insecure.NewCredentials()
			if c.thief != "" {
				queue, gateway = identity(t, "queue", issue(t, "queue", ca)), identity(t, "gateway", issue(t, "gateway", ca))
				thief = clientOf(t, issue(t, c.thief, ca))
			}
			var seen []metadata.MD
			l := serveAs(t, queue, &fakeQueue{leave: func(ctx context.Context, _ *queuev1.LeaveRequest) (*queuev1.LeaveResponse, error) {
				md, _ := metadata.FromIncomingContext(ctx)
				seen = append(seen, metadata.Pairs("urr-auth", md.Get("urr-auth")[0]))
				return &queuev1.LeaveResponse{}, nil
			}}, slog.New(slog.DiscardHandler))
			require.NoError(t, callAs(t, gateway, l)())

			conn, err := grpc.NewClient("passthrough:///x", dialer(l), grpc.WithTransportCredentials(thief))
			require.NoError(t, err)
			defer conn.Close()
			_, err = queuev1.NewQueueServiceClient(conn).Leave(metadata.NewOutgoingContext(t.Context(), seen[0]), &queuev1.LeaveRequest{EventId: "victim"})
			if c.refused {
				require.ErrorIs(t, errs.FromStatus(err), errs.ErrCallerRefused)
				require.Len(t, seen, 1)
				return
			}
			require.NoError(t, err)
			require.Len(t, seen, 2)
		})
	}
}

// clientOf returns credentials that any gRPC client would make of a service's certificate.
func clientOf(t *testing.T, cfg rpc.TLSConfig) credentials.TransportCredentials {
	t.Helper()
	member := func(name string) []byte { return []byte(cfg.Certificate[name].Reveal()) }
	own, err := tls.X509KeyPair(member(rpc.CertificateMember), member(rpc.KeyMember))
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(member(rpc.AuthoritiesMember)))
	return credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{own}, RootCAs: roots, ServerName: "queue", MinVersion: tls.VersionTLS13})
}

func TestConnectionsThatProveNothingAreRefused(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	queue, gateway := issue(t, "queue", ca), issue(t, "gateway", ca)
	for name, c := range map[string]struct {
		server, client *rpc.Identity
		reason         string // in the caller's error
		logged         string // by the server; empty: nothing
	}{
		"a server of another name": {identity(t, "stats", issue(t, "stats", ca)), identity(t, "gateway", gateway), "valid for stats, not queue", ""},
		"a server of another authority": {
			identity(t, "queue", issue(t, "queue", other)), identity(t, "gateway", gateway), "unknown authority", "",
		},
		"a client of another authority": {
			identity(t, "queue", queue), identity(t, "gateway", issue(t, "gateway", other, ca)), "", "certificate signed by unknown authority",
		},
		"a plain client": {identity(t, "queue", queue), nil, "", "does not look like a TLS handshake"},
		"a plain server": {nil, identity(t, "gateway", gateway), "does not look like a TLS handshake", ""},
	} {
		t.Run(name, func(t *testing.T) {
			refused := func() float64 {
				n, _ := metricstest.MetricSum(t, "urr_rpc_server_refusals_total", map[string]string{"method": "handshake", "reason": "CALLER_REFUSED"})
				return n
			}
			before := refused()
			var log logs
			err := callAs(t, c.client, serveAs(t, c.server, &fakeQueue{}, log.logger()))()
			require.ErrorIs(t, err, errs.ErrUnavailable)
			require.ErrorContains(t, errs.From(err).Cause(), c.reason)
			if c.logged == "" {
				require.Empty(t, log.lines(t))
				return
			}
			require.Contains(t, log.lines(t)[0]["error"], c.logged)
			require.Greater(t, refused(), before)
		})
	}
}

// A connection that ends before its handshake, such as that of a load balancer's probe, is no
// attack.
func TestEndedConnectionIsNotRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log logs
		l := serveAs(t, identity(t, "queue", issue(t, "queue", newAuthority(t))), &fakeQueue{}, log.logger())
		for _, sent := range []string{"", "\x16\x03\x01"} {
			conn, err := l.Dial()
			require.NoError(t, err)
			_, err = conn.Write([]byte(sent))
			require.NoError(t, err)
			require.NoError(t, conn.Close())
			synctest.Wait()
		}
		require.Empty(t, log.lines(t))
	})
}

func TestExpiredCertificatesAreRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ca := newAuthority(t)
		ofQueue := issue(t, "queue", ca)
		queue, gateway := identity(t, "queue", ofQueue), identity(t, "gateway", issue(t, "gateway", ca))
		call := callAs(t, gateway, serveAs(t, queue, &fakeQueue{}, slog.New(slog.DiscardHandler)))
		require.NoError(t, call())
		time.Sleep(time.Hour + connectionAge)
		require.ErrorContains(t, errs.From(call()).Cause(), "expired")
		require.NoError(t, queue.Renew(ofQueue), "another secret can change meanwhile")
		require.NoError(t, queue.Renew(issue(t, "queue", ca)))
		time.Sleep(connectionAge)
		require.ErrorIs(t, call(), errs.ErrUnavailable, "that of the caller has expired too")
		require.NoError(t, gateway.Renew(issue(t, "gateway", ca)))
		time.Sleep(connectionAge)
		require.NoError(t, call())
	})
}

// An authority is replaced while a caller calls every ten seconds: the new one is trusted beside the
// old one, then it issues, then the old one goes. No call fails, whichever side goes first, and
// certificates of the old authority are worth nothing in the end.
func TestAuthorityRotatesUnderCalls(t *testing.T) {
	t.Parallel()
	for name, serverFirst := range map[string]bool{"server first": true, "client first": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				former, next := newAuthority(t), newAuthority(t)
				configs := func(service string) []rpc.TLSConfig {
					return []rpc.TLSConfig{issue(t, service, former, next), issue(t, service, next, former), issue(t, service, next)}
				}
				queue, gateway := identity(t, "queue", issue(t, "queue", former)), identity(t, "gateway", issue(t, "gateway", former))
				stolen := identity(t, "gateway", issue(t, "gateway", former, next))
				l := serveAs(t, queue, &fakeQueue{}, slog.New(slog.DiscardHandler))
				call := callAs(t, gateway, l)
				ctx, stop := context.WithCancel(t.Context())
				var caller sync.WaitGroup
				var failed error
				caller.Go(func() {
					for ; ctx.Err() == nil; time.Sleep(10 * time.Second) {
						failed = errors.Join(failed, call())
					}
				})
				ofQueue, ofGateway := configs("queue"), configs("gateway")
				for i := range ofQueue {
					steps := []func() error{func() error { return queue.Renew(ofQueue[i]) }, func() error { return gateway.Renew(ofGateway[i]) }}
					if !serverFirst {
						steps[0], steps[1] = steps[1], steps[0]
					}
					for _, step := range steps {
						require.NoError(t, step())
						time.Sleep(connectionAge)
					}
				}
				stop()
				caller.Wait()
				require.NoError(t, failed)
				require.ErrorIs(t, callAs(t, stolen, l)(), errs.ErrUnavailable)
			})
		})
	}
}

func TestUnusableCertificatesAreRefused(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	expired, err := ca.Issue("queue", time.Now().Add(-time.Minute))
	require.NoError(t, err)
	without := func(member, content string) rpc.TLSConfig {
		cfg := issue(t, "queue", ca)
		cfg.Certificate[member] = config.Secret(content)
		return cfg
	}
	for name, c := range map[string]struct {
		cfg rpc.TLSConfig
		why string
	}{
		"another service's":         {issue(t, "stats", ca), "valid for stats, not queue"},
		"of an unknown authority":   {without(rpc.AuthoritiesMember, newAuthority(t).Cert), "unknown authority"},
		"expired":                   {expired.Config(ca), "expired"},
		"without authorities":       {without(rpc.AuthoritiesMember, ""), "ca.crt has no certificate"},
		"another certificate's key": {without(rpc.KeyMember, ca.Key), "private key does not match"},
		"no certificate":            {without(rpc.CertificateMember, "x"), "failed to find any PEM data"},
		"of an authority":           {ca.Config(ca), "not valid for any names"},
	} {
		_, err := rpc.NewIdentity("queue", c.cfg)
		require.ErrorContains(t, err, "RPC_TLS: ", name)
		require.ErrorContains(t, err, c.why, name)

		i := identity(t, "queue", issue(t, "queue", ca))
		require.Error(t, i.Renew(c.cfg), name)
		call := callAs(t, identity(t, "gateway", issue(t, "gateway", ca)), serveAs(t, i, &fakeQueue{}, slog.New(slog.DiscardHandler)))
		require.NoError(t, call(), "%s: the former one stays in use", name)
	}
}

func TestPlainCallsNeedAReason(t *testing.T) {
	t.Parallel()
	certificate := map[string]string{"RPC_TLS": "ca.crt:a,tls.crt:b,tls.key:c"}
	for name, c := range map[string]struct {
		env  map[string]string
		want string
	}{
		"a certificate": {certificate, ""},
		"a mesh":        {map[string]string{"RPC_PLAIN": "mesh"}, ""},
		"development":   {map[string]string{"RPC_PLAIN": "development"}, ""},
		"nothing":       {map[string]string{}, "RPC_TLS is not set"},
		"another word":  {map[string]string{"RPC_PLAIN": "true"}, `RPC_PLAIN="true"`},
		"both":          {map[string]string{"RPC_PLAIN": "mesh", "RPC_TLS": certificate["RPC_TLS"]}, `RPC_PLAIN="mesh": must not be set together`},
	} {
		_, err := config.LoadFrom[rpc.TLSConfig](t.Context(), c.env)
		if c.want == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, c.want, name)
	}
}

// The metric is the time at which the first certificate of the longest chain expires.
func TestCertificateReportsItsExpiry(t *testing.T) {
	end := time.Now().Add(time.Hour)
	ca, err := authority.New(end.Add(-time.Minute))
	require.NoError(t, err)
	later := newAuthority(t)
	for name, c := range map[string]struct {
		by   authority.KeyPair
		want time.Time
	}{"of its authority": {ca, end.Add(-time.Minute)}, "its own": {later, end}} {
		pair, err := c.by.Issue("queue", end)
		require.NoError(t, err)
		identity(t, "queue", pair.Config(ca, later))
		got, ok := metricstest.MetricSum(t, "urr_rpc_certificate_expires_timestamp_seconds", nil)
		require.True(t, ok)
		require.InDelta(t, float64(c.want.Unix()), got, 0, name)
	}
}
