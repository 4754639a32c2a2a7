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

// server is the main function of a baseline's process. It reads its configuration as JSON from in,
// prints its address, and serves until in ends.
type server func(ctx context.Context, in io.Reader, out io.Writer) error

// Arguments with which the program that uses this package calls Serve.
const (
	bareArgument      = "bare"
	plainEdgeArgument = "plain-edge"
	plainLineArgument = "plain-line"
)

// Serve runs the baseline's process that an argument names, until in ends. It reports false for any
// other argument.
func Serve(ctx context.Context, argument string, in io.Reader, out io.Writer) (known bool, err error) {
	serve := map[string]server{bareArgument: serveBare, plainEdgeArgument: servePlainEdge, plainLineArgument: servePlainLine}[argument]
	if serve == nil {
		return false, nil
	}
	return true, serve(ctx, in, out)
}

// configured reads a server's configuration. What is left of in is to be waited for.
func configured[C any](in io.Reader) (cfg C, rest io.Reader, err error) {
	decoder := json.NewDecoder(in)
	if err := decoder.Decode(&cfg); err != nil {
		return cfg, nil, fmt.Errorf("read the configuration: %w", err)
	}
	return cfg, in, nil
}

// listen listens on a free port and prints its address.
func listen(ctx context.Context, out io.Writer) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	fmt.Fprintln(out, l.Addr())
	return l, nil
}

// serveHTTP serves until in ends, with the time-outs of the gateway.
func serveHTTP(ctx context.Context, in io.Reader, out io.Writer, h http.Handler) error {
	l, err := listen(ctx, out)
	if err != nil {
		return err
	}
	s := &http.Server{
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, Handler: h,
	}
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	_, _ = io.Copy(io.Discard, in)
	err = s.Close()
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// child is a process of a baseline.
type child struct {
	addr  string
	pid   int
	stdin io.Closer
	cmd   *exec.Cmd
}

// startChild runs this program again as the server of an argument.
func startChild(ctx context.Context, argument string, cfg any) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, argument)
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
		return nil, fmt.Errorf("start %s: %w", argument, err)
	}
	c := &child{pid: cmd.Process.Pid, stdin: in, cmd: cmd}
	if err := json.NewEncoder(in).Encode(cfg); err != nil {
		return nil, errors.Join(err, c.close())
	}
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s has not started: %w", argument, err), c.close())
	}
	c.addr = strings.TrimSpace(addr)
	return c, nil
}

func (c *child) close() error {
	return errors.Join(c.stdin.Close(), c.cmd.Wait())
}
