package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"golang.org/x/sync/errgroup"
)

// load sends prepared requests over a number of keep-alive connections, one at a time on each.
type load struct {
	conns  []*conn
	status int // of the responses
}

// conn is a connection with the requests that it sends in turn.
type conn struct {
	net.Conn

	in       *bufio.Reader
	requests [][]byte
	next     int
	body     bytes.Buffer
}

// connect opens the connections and deals the requests out to them.
func connect(ctx context.Context, addr string, connections int, requests [][]byte) (*load, error) {
	l := &load{status: http.StatusOK}
	for i := range connections {
		nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("connect: %w", err), l.close())
		}
		c := &conn{Conn: nc, in: bufio.NewReader(nc)}
		for j := i; j < len(requests); j += connections {
			c.requests = append(c.requests, requests[j])
		}
		l.conns = append(l.conns, c)
	}
	return l, nil
}

func (l *load) close() error {
	var all []error
	for _, c := range l.conns {
		all = append(all, c.Close())
	}
	return errors.Join(all...)
}

// send sends n requests; each must be answered with the status.
func (l *load) send(ctx context.Context, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	for i, c := range l.conns {
		group.Go(func() error {
			for range (n + i) / len(l.conns) {
				if err := c.exchange(l.status); err != nil || ctx.Err() != nil {
					return errors.Join(err, ctx.Err())
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func (c *conn) exchange(status int) error {
	request := c.requests[c.next%len(c.requests)]
	c.next++
	if _, err := c.Write(request); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return fmt.Errorf("read the response: %w", err)
	}
	c.body.Reset()
	_, err = io.Copy(&c.body, res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return fmt.Errorf("read the response: %w", err)
	}
	if res.StatusCode != status {
		line, _, _ := bytes.Cut(request, []byte("\r\n"))
		return fmt.Errorf("%s: %s: %s", line, res.Status, c.body.Bytes())
	}
	return nil
}
