package redis_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/redis"
)

// unansweringServer accepts the command INCR and does not answer it, like a server that dies or
// hangs right after executing it.
type unansweringServer struct {
	listener net.Listener
	hangUp   bool
	took     atomic.Int32
	conns    sync.WaitGroup
}

func serveUnanswering(t *testing.T, hangUp bool) *unansweringServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	d := &unansweringServer{listener: l, hangUp: hangUp}
	d.conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			d.conns.Go(func() { d.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		d.conns.Wait()
	})
	return d
}

func (d *unansweringServer) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		cmd, err := command(in)
		if err != nil {
			return
		}
		answer := "-ERR unknown command\r\n"
		switch {
		case cmd == "incr":
			if d.took.Add(1); d.hangUp {
				return
			}
			continue
		case strings.HasPrefix(cmd, "cluster"):
			host, port, _ := net.SplitHostPort(d.listener.Addr().String())
			answer = fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$%d\r\n%s\r\n:%s\r\n$4\r\nnode\r\n", len(host), host, port)
		}
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
}

// command reads one command, an array of strings, and returns its name.
func command(in *bufio.Reader) (string, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return "", err
	}
	n, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "*")))
	if err != nil {
		return "", err
	}
	name := ""
	for i := range n {
		if _, err := in.ReadString('\n'); err != nil {
			return "", err
		}
		arg, err := in.ReadString('\n')
		if err != nil {
			return "", err
		}
		if i == 0 {
			name = strings.ToLower(strings.TrimSpace(arg))
		}
	}
	return name, nil
}

// A command that may have been executed is never sent again: a counting script would count twice.
func TestSentCommandIsNotRepeated(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ hangUp, cluster, pipeline bool }{
		"no answer":              {},
		"hung up":                {hangUp: true},
		"no answer in a cluster": {cluster: true},
		"hung up in a cluster":   {hangUp: true, cluster: true},
		"pipeline":               {hangUp: true, pipeline: true},
		"pipeline in a cluster":  {hangUp: true, cluster: true, pipeline: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// On a stalled machine the command may not be sent in time; it is then retried with
			// another server.
			for range 10 {
				d := serveUnanswering(t, tc.hangUp)
				client, err := redis.Open(t.Context(), redis.Config{Addrs: []string{d.listener.Addr().String()}, Cluster: tc.cluster, PoolSize: 2})
				require.NoError(t, err)
				defer func() { _ = client.Close() }()
				if tc.pipeline {
					pipe := client.Pipeline()
					pipe.Incr(t.Context(), "x")
					_, err = pipe.Exec(t.Context())
				} else {
					err = client.Incr(t.Context(), "x").Err()
				}
				require.ErrorIs(t, redis.Err(err), errs.ErrUnavailable)
				took := d.took.Load()
				require.LessOrEqual(t, took, int32(1))
				if took == 1 {
					return
				}
			}
			require.Fail(t, "the command is never sent")
		})
	}
}
