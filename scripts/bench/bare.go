package bench

import (
	"bufio"
	"bytes"
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

// recordedResponse is a response of the gateway that the bare server repeats.
type recordedResponse struct {
	Header http.Header `json:"header"`
	Body   []byte      `json:"body"`
	Status int         `json:"status"`
}

// sendOnce sends one request. It returns the response and its size in bytes, with the headers.
func sendOnce(ctx context.Context, addr string, request []byte) (r recordedResponse, size int, err error) {
	nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return r, 0, fmt.Errorf("connect: %w", err)
	}
	defer func() { err = errors.Join(err, nc.Close()) }()
	if _, err := nc.Write(request); err != nil {
		return r, 0, fmt.Errorf("send: %w", err)
	}
	var raw bytes.Buffer
	res, err := http.ReadResponse(bufio.NewReader(io.TeeReader(nc, &raw)), nil)
	if err != nil {
		return r, 0, fmt.Errorf("read the response: %w", err)
	}
	body, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return r, 0, fmt.Errorf("read the response: %w", err)
	}
	for _, name := range []string{"Date", "Content-Length"} { // net/http sets these two
		res.Header.Del(name)
	}
	return recordedResponse{Header: res.Header, Body: body, Status: res.StatusCode}, raw.Len(), nil
}

// bareArgument is the command-line argument that makes cmd/bench run as the bare server.
const bareArgument = "bare"

// RunBareServer runs the bare server if the argument is bareArgument; otherwise isBare is false.
// The gateway is compared with the bare server: a net/http server that has the gateway's time-outs
// and answers every request with the response that it reads as JSON from in. It prints its address
// to out, and serves until in ends.
func RunBareServer(ctx context.Context, argument string, in io.Reader, out io.Writer) (isBare bool, err error) {
	if argument != bareArgument {
		return false, nil
	}
	var answer recordedResponse
	if err := json.NewDecoder(in).Decode(&answer); err != nil {
		return true, fmt.Errorf("read the configuration: %w", err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return true, fmt.Errorf("listen: %w", err)
	}
	fmt.Fprintln(out, l.Addr())
	s := &http.Server{
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		Handler: http.HandlerFunc(answer.write),
	}
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	_, _ = io.Copy(io.Discard, in)
	err = s.Close()
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return true, err
}

func (r *recordedResponse) write(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	for name, values := range r.Header {
		h[name] = values
	}
	w.WriteHeader(r.Status)
	if len(r.Body) > 0 {
		_, _ = w.Write(r.Body)
	}
}

// bareServer is a running bare server, a child process.
type bareServer struct {
	addr  string
	pid   int
	stdin io.Closer
	cmd   *exec.Cmd
}

// startBare runs this program again as a child process, a bare server that answers with a response.
func startBare(ctx context.Context, answer recordedResponse) (*bareServer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, bareArgument)
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

func (b *bareServer) close() error { return errors.Join(b.stdin.Close(), b.cmd.Wait()) }
