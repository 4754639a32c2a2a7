package rpc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"urr.guru/pkg/config"
	"urr.guru/pkg/rpc"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
)

// recordedConn records the bytes that pass through a connection.
type recordedConn struct {
	net.Conn

	mu             sync.Mutex
	sent, received bytes.Buffer
}

func (c *recordedConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.sent.Write(p)
	c.mu.Unlock()
	return c.Conn.Write(p)
}

func (c *recordedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	c.received.Write(p[:n])
	c.mu.Unlock()
	return n, err
}

// frameTypes lists the types of the complete HTTP/2 frames (RFC 9113 §4.1) in b.
func frameTypes(b []byte) []byte {
	const header = 9
	var types []byte
	for len(b) >= header {
		size := int(binary.BigEndian.Uint32(append([]byte{0}, b[:3]...)))
		if len(b) < header+size {
			break
		}
		types = append(types, b[3])
		b = b[header+size:]
	}
	return types
}

func TestCallsSendNoPings(t *testing.T) {
	t.Parallel()
	const (
		headersFrame = 1
		pingFrame    = 6
		preface      = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	)
	s, err := rpc.NewServer("queue", rpc.ServerConfig{Accept: map[string]config.Secret{"gateway": gatewayKey, "room": roomKey, "vwr": vwrKey}}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	queuev1.RegisterQueueServiceServer(s, &fakeQueue{})
	l := bufconn.Listen(1 << 16)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	record := new(recordedConn)
	conn, err := rpc.Dial("gateway", "queue", rpc.Peer{Addr: "passthrough:///x", Key: gatewayKey},
		rpc.WithGRPC(grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			var err error
			record.Conn, err = l.DialContext(ctx)
			return record, err
		})))
	require.NoError(t, err)
	const calls = 20
	for range calls {
		_, err := queuev1.NewQueueServiceClient(conn).Leave(t.Context(), &queuev1.LeaveRequest{EventId: "demo"})
		require.NoError(t, err)
	}
	require.NoError(t, conn.Close())
	require.NoError(t, s.Stop(t.Context()))
	require.NoError(t, <-served)

	record.mu.Lock()
	defer record.mu.Unlock()
	sent := frameTypes(bytes.TrimPrefix(record.sent.Bytes(), []byte(preface)))
	require.GreaterOrEqual(t, bytes.Count(sent, []byte{headersFrame}), calls)
	require.NotContains(t, sent, byte(pingFrame))
	require.NotContains(t, frameTypes(record.received.Bytes()), byte(pingFrame))
}

func TestMessagesMayExceedTheWindows(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 6<<20)
	q := serve(t, &fakeQueue{check: func(_ context.Context, r *queuev1.LineRequest) (*queuev1.LineResponse, error) {
		return &queuev1.LineResponse{Results: []*queuev1.LineResult{{Result: &queuev1.LineResult_Place{
			Place: &queuev1.Place{Status: r.GetItems()[0].GetTicket()},
		}}}}, nil
	}})
	res, err := q.Check(t.Context(), &queuev1.LineRequest{Items: []*queuev1.LineItem{{EventId: "demo", Ticket: large}}})
	require.NoError(t, err)
	require.Len(t, res.GetResults()[0].GetPlace().GetStatus(), len(large))
}
