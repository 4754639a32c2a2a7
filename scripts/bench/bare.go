package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

// recorded is a response that the bare handler repeats.
type recorded struct {
	Header http.Header `json:"header"`
	Body   []byte      `json:"body"`
	Status int         `json:"status,omitempty"` // 0: 200
}

// ServeBare is the baseline of the HTTP rows, as a process of its own: a net/http server with the
// time-outs of the gateway's, whose handler only writes the response that it reads from in. It
// prints its address, and serves until in ends.
func ServeBare(ctx context.Context, in io.Reader, out io.Writer) error {
	decoder := json.NewDecoder(in)
	var answer recorded
	if err := decoder.Decode(&answer); err != nil {
		return fmt.Errorf("read the response to repeat: %w", err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			h := w.Header()
			for name, values := range answer.Header {
				h[name] = values
			}
			if answer.Status != 0 {
				w.WriteHeader(answer.Status)
			}
			if len(answer.Body) > 0 {
				_, _ = w.Write(answer.Body)
			}
		}),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	fmt.Fprintln(out, l.Addr())
	_, _ = io.Copy(io.Discard, in)
	err = server.Close()
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// bareServer is a running ServeBare.
type bareServer struct {
	addr  string
	pid   int
	stdin io.Closer
	cmd   *exec.Cmd
}

// startBare runs this program again as a bare server.
func startBare(ctx context.Context, answer recorded) (*bareServer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, BareArgument)
	cmd.Env, cmd.Stderr = append(os.Environ(), "GOMAXPROCS=2"), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the bare server: %w", err)
	}
	b := &bareServer{pid: cmd.Process.Pid, stdin: in, cmd: cmd}
	if err := json.NewEncoder(in).Encode(answer); err != nil {
		return nil, errors.Join(err, b.close())
	}
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the bare server has not started: %w", err), b.close())
	}
	b.addr = strings.TrimSpace(addr)
	return b, nil
}

// BareArgument makes the program that uses this package call ServeBare.
const BareArgument = "bare"

func (b *bareServer) close() error {
	return errors.Join(b.stdin.Close(), b.cmd.Wait())
}
