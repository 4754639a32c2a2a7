package app_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/processtest"
	"urr.guru/services/gateway/internal/app"
)

// BenchmarkBesideBare measures the CPU time of polls that are answered from memory, from socket to
// socket, relative to a net/http handler that only writes the same response. A round is
// pollsPerRound requests to each, alternating. It reports the medians over the rounds and the
// median ratio, which should be at least 0.85. The clients run in a process of their own, so that
// their CPU time is not counted.
//
//	go test ./internal/app -run '^$' -bench BesideBare -benchtime 101x
func BenchmarkBesideBare(b *testing.B) {
	w := newFixture(b, highLimits)
	c, id := w.visitor()
	c = c.with("X-Vwr-Ticket", w.ticketFor(busy, id, round, 500)).
		with("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36").
		with("Accept", "application/json").with("Accept-Encoding", "gzip, deflate, br").with("Accept-Language", "ko-KR,ko;q=0.9,en;q=0.8")
	for name, poll := range map[string]string{"serving": "serving/busy", "check": "check/busy/" + requestID} {
		b.Run(name, func(b *testing.B) {
			target := "/vwr-api/vwr/" + poll
			rec := w.do(http.MethodGet, target, "", c)
			require.Equal(b, http.StatusOK, rec.Code, "%s", rec.Body)
			handlers := []http.Handler{bare(rec), w.gateway.Handler}
			crowds := make([]*crowd, len(handlers))
			for i, h := range handlers {
				crowds[i] = newCrowd(b, h, target, c, rec.Body.Bytes())
			}
			var plain, gateway, ratio []float64
			for i := 0; b.Loop(); i++ {
				var cost [2]float64
				for k := range cost {
					k = (k + i) % len(cost)
					cost[k] = crowds[k].round(b)
				}
				plain, gateway, ratio = append(plain, cost[0]), append(gateway, cost[1]), append(ratio, cost[0]/cost[1])
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(plain), "bare-cpu-ns/req")
			b.ReportMetric(median(gateway), "cpu-ns/req")
			b.ReportMetric(median(ratio), "of-bare")
		})
	}
}

const (
	pollsPerRound = 1600
	connections   = 16
)

// highLimits counts every poll, as in production, and refuses none.
func highLimits(c *app.Config, _ *app.Services) {
	c.Limits.PollNetworkRate, c.Limits.PollNetworkBurst = 1e6, 1e6
	c.Limits.PollVisitorRate, c.Limits.PollVisitorBurst = 1e6, 1e6
}

// bare always writes the recorded response.
func bare(rec *httptest.ResponseRecorder) http.HandlerFunc {
	body := rec.Body.Bytes()
	return func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		for name, v := range rec.Header() {
			h[name] = v
		}
		_, _ = w.Write(body)
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// crowd is a process that polls one handler.
type crowd struct {
	commands io.Writer
	answers  *bufio.Reader
}

// stablePart is a body up to the advised poll interval, which differs per poll.
func stablePart(body []byte) []byte {
	same, _, _ := bytes.Cut(body, []byte(`"nextPoll"`))
	return same
}

// newCrowd serves h as the gateway does, and starts a crowd that repeats one request and expects
// one body.
func newCrowd(b *testing.B, h http.Handler, target string, c credentials, body []byte) *crowd {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	srv, served := app.Server(h), make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	b.Cleanup(func() {
		require.NoError(b, srv.Close())
		require.ErrorIs(b, <-served, http.ErrServerClosed)
	})

	request := "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n"
	for name, v := range c {
		request += name + ": " + v + "\r\n"
	}
	cmd := processtest.Command(b, nil, l.Addr().String())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(b, err)
	out, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		require.NoError(b, in.Close())
		require.NoError(b, cmd.Wait())
	})
	cr := &crowd{commands: in, answers: bufio.NewReader(out)}
	_, err = fmt.Fprintf(in, "%q %q\n", request+"\r\n", stablePart(body))
	require.NoError(b, err)
	cr.round(b) // warms up
	return cr
}

// round runs one round of polls, and returns the CPU time of this process per request in ns.
func (c *crowd) round(b *testing.B) float64 {
	b.Helper()
	before := cpu(b)
	_, err := fmt.Fprintln(c.commands, pollsPerRound)
	require.NoError(b, err)
	answer, err := c.answers.ReadString('\n')
	require.NoError(b, err)
	require.Equal(b, "ok\n", answer)
	return float64(cpu(b)-before) / pollsPerRound
}

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestMain(m *testing.M) {
	processtest.Main(m, func() int {
		if err := poll(os.Args[1], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "crowd:", err)
			return 1
		}
		return 0
	})
}

// poll is the program of the crowd, given the address of the gateway. Its input is the request and
// the start of the expected body, then one line per round with the number of requests.
func poll(addr string, in io.Reader, out io.Writer) error {
	var request, body string
	if _, err := fmt.Fscanf(in, "%q %q\n", &request, &body); err != nil {
		return err
	}
	conns := make([]net.Conn, connections)
	for i := range conns {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		conns[i] = c
	}
	for {
		var n int
		if _, err := fmt.Fscanln(in, &n); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		var work sync.WaitGroup
		failed := make(chan error, connections)
		for _, c := range conns {
			work.Go(func() { failed <- pollConn(c, []byte(request), body, n/connections) })
		}
		work.Wait()
		answer := "ok"
		for range conns {
			if err := <-failed; err != nil {
				answer = strings.ReplaceAll(err.Error(), "\n", " ")
			}
		}
		fmt.Fprintln(out, answer)
	}
}

func pollConn(c net.Conn, request []byte, want string, n int) error {
	in, body := bufio.NewReader(c), new(bytes.Buffer)
	for range n {
		if _, err := c.Write(request); err != nil {
			return err
		}
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			return err
		}
		body.Reset()
		if _, err := body.ReadFrom(res.Body); err != nil {
			return err
		}
		if res.StatusCode != http.StatusOK || !strings.HasPrefix(body.String(), want) {
			return fmt.Errorf("%s: %s", res.Status, body)
		}
	}
	return nil
}
