package e2e_test

import (
	"context"
	"crypto/tls"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

// A call of the gateway that somebody has seen is refused when it is sent again with another user,
// from a captured pod of another service, without a certificate, and in plain.
func TestCapturedCallIsRefused(t *testing.T) {
	t.Parallel()
	p := harness.Shared(t)
	var seen metadata.MD
	capture := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		seen, _ = metadata.FromOutgoingContext(ctx)
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	offer := func(ctx context.Context, conn grpc.ClientConnInterface, user string) error {
		caller := &commonv1.Caller{UserId: user, IdempotencyKey: uuid.NewString()}
		_, err := ticketv1.NewTransferServiceClient(conn).OfferTicket(ctx, &ticketv1.OfferTicketRequest{Caller: caller, TicketId: uuid.NewString()})
		return err
	}
	gateway := p.Dial(platform.Gateway, platform.Ticket, 0, rpc.WithGRPC(grpc.WithChainUnaryInterceptor(capture)))
	require.ErrorIs(t, offer(t.Context(), gateway, "buyer"), errs.ErrTicketNotFound)
	require.NotEmpty(t, seen.Get("urr-auth"))

	pair := p.Secrets().Certificates[platform.Stats]
	captured, err := tls.X509KeyPair([]byte(pair.Cert), []byte(pair.Key))
	require.NoError(t, err)
	client := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13} //nolint:gosec // a thief trusts anybody
	pod := client.Clone()
	pod.Certificates = []tls.Certificate{captured}
	for name, c := range map[string]struct {
		thief credentials.TransportCredentials
		code  codes.Code
	}{
		"a captured pod of another service": {credentials.NewTLS(pod), codes.PermissionDenied},
		"no certificate":                    {credentials.NewTLS(client), codes.Unavailable},
		"in plain":                          {insecure.NewCredentials(), codes.Unavailable},
	} {
		conn, err := grpc.NewClient(p.Service(platform.Ticket).Addr(0), grpc.WithTransportCredentials(c.thief))
		require.NoError(t, err)
		err = offer(metadata.NewOutgoingContext(t.Context(), seen), conn, "victim")
		require.Equal(t, c.code, status.Code(err), "%s: %v", name, err)
		require.NoError(t, conn.Close())
	}
}
