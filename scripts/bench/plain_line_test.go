package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/config"
	"urr.guru/pkg/token"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
)

// oneUser is a line that knows a single user.
type oneUser struct {
	queuev1.UnimplementedQueueServiceServer
}

func (oneUser) Status(_ context.Context, req *queuev1.LineRequest) (*queuev1.LineResponse, error) {
	if req.GetItems()[0].GetTicket() != "alice" {
		return nil, io.ErrUnexpectedEOF
	}
	return &queuev1.LineResponse{Results: []*queuev1.LineResult{{Result: &queuev1.LineResult_Place{
		Place: &queuev1.Place{Status: "queued", Queued: true, Position: 7},
	}}}}, nil
}

func TestPlainEdgeAsksTheLineForVerifiedSessions(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	line := grpc.NewServer()
	queuev1.RegisterQueueServiceServer(line, oneUser{})
	served := make(chan error, 1)
	go func() { served <- line.Serve(l) }()

	const secret = "k1:0123456789abcdef0123456789abcdef" //nolint:gosec // of this test
	in, control := io.Pipe()
	out, printed := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := Serve(t.Context(), plainEdgeArgument, in, printed)
		ended <- err
	}()
	require.NoError(t, json.NewEncoder(control).Encode(plainEdge{Line: l.Addr().String(), Session: secret}))
	addr, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)

	keys, err := token.ParseKeySet(config.Secret(secret))
	require.NoError(t, err)
	session, err := keys.Sign(claims.NewSession("alice", nil, time.Now(), time.Now().Add(time.Hour)))
	require.NoError(t, err)
	ask := func(session string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+strings.TrimSpace(addr), http.NoBody)
		require.NoError(t, err)
		req.AddCookie(&http.Cookie{Name: sessionCookie, Value: session})
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		body, err := readAll(res)
		require.NoError(t, err)
		return res.StatusCode, string(body)
	}
	status, body := ask(session)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, `"status":"queued","queued":true,"position":7`)
	status, _ = ask(session + "x")
	require.Equal(t, http.StatusUnauthorized, status)

	require.NoError(t, control.Close())
	require.NoError(t, <-ended)
	line.Stop()
	require.NoError(t, <-served)
}
