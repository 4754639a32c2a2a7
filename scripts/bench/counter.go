package bench

import (
	"context"
	"errors"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// counter passes calls on to an AWS endpoint and counts them by operation.
type counter struct {
	server *http.Server
	addr   string

	mu    sync.Mutex
	calls map[string]int
}

func newCounter(ctx context.Context, endpoint string) (*counter, error) {
	target, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &counter{addr: "http://" + listener.Addr().String(), calls: map[string]int{}}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ErrorLog = log.New(io.Discard, "", 0) // callers that give up see their own error
	proxy.Transport = &http.Transport{MaxIdleConnsPerHost: 128}
	c.server = &http.Server{ReadHeaderTimeout: 0, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:gosec // serves this process's children
		_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		c.mu.Lock()
		c.calls[operation]++
		c.mu.Unlock()
		proxy.ServeHTTP(w, r)
	})}
	go func() { _ = c.server.Serve(listener) }() // until close
	return c, nil
}

func (c *counter) close() error {
	if err := c.server.Close(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// read returns the calls so far, by operation.
func (c *counter) read() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.calls)
}

// since sums the calls since an earlier reading, of some operations or of all.
func (c *counter) since(before map[string]int, operations ...string) (sum int) {
	for o, n := range c.read() {
		if len(operations) == 0 || slices.Contains(operations, o) {
			sum += n - before[o]
		}
	}
	return sum
}
