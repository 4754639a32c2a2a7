package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"urr.guru/pkg/loop"
)

const (
	paceEvery = 2 * time.Millisecond // between two checks whether requests are due
	drainFor  = 30 * time.Second     // limit of the wait for the last responses
)

// generator sends prepared HTTP requests over keep-alive connections: a given number, or each when
// the one before is answered, or at a fixed rate. It parses as little of a response as possible,
// because the servers that it measures use the same processors.
type generator struct {
	addr  string
	conns []*rawConn
	idle  chan *rawConn
	// next returns the next request. It may be called concurrently.
	next func() []byte
}

// rawConn is a TCP connection with at most one request in progress.
type rawConn struct {
	net.Conn

	in  *bufio.Reader
	due time.Time // when the request in progress was to be sent
}

// timedResponse has the status of a response, when its request was to be sent, and when it arrived.
type timedResponse struct {
	status      int
	due, answer time.Time
}

// roundRobin returns a function that returns the requests in order, and then begins again.
func roundRobin(requests [][]byte) func() []byte {
	var n atomic.Int64
	return func() []byte { return requests[int(n.Add(1)-1)%len(requests)] }
}

// open opens connections to the server. Requests must follow soon, because the server closes
// connections without requests.
func (g *generator) open(ctx context.Context, connections int) error {
	g.idle = make(chan *rawConn, connections)
	for range connections {
		nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", g.addr)
		if err != nil {
			return errors.Join(fmt.Errorf("connect: %w", err), g.close())
		}
		g.conns = append(g.conns, &rawConn{Conn: nc, in: bufio.NewReaderSize(nc, 2048)})
	}
	return nil
}

func (g *generator) close() error {
	var all []error
	for _, c := range g.conns {
		all = append(all, c.Close())
	}
	g.conns = nil
	return errors.Join(all...)
}

func (c *rawConn) exchange(request []byte) (s timedResponse, err error) {
	s.due = time.Now()
	if _, err := c.Write(request); err != nil {
		return s, fmt.Errorf("send: %w", err)
	}
	if s.status, err = readStatus(c.in); err != nil {
		return s, fmt.Errorf("read the response: %w", err)
	}
	s.answer = time.Now()
	return s, nil
}

var (
	contentLength = []byte("Content-Length: ")
	errResponse   = errors.New("not an HTTP/1.1 response with a Content-Length")
)

// readStatus reads a whole HTTP response and returns its status. Except for 304, the response must
// have a Content-Length.
func readStatus(in *bufio.Reader) (status int, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) || len(line) < 12 {
		return 0, errResponse
	}
	status = parseNumber(line[9:12])
	length := -1
	for {
		if line, err = in.ReadSlice('\n'); err != nil {
			return 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		if bytes.HasPrefix(line, contentLength) {
			length = parseNumber(line[len(contentLength):])
		}
	}
	switch {
	case status == http.StatusNotModified:
		return status, nil
	case length < 0:
		return 0, errResponse
	}
	_, err = io.CopyN(io.Discard, in, int64(length))
	return status, err
}

func parseNumber(digits []byte) (n int) {
	for _, d := range digits {
		n = 10*n + int(d-'0')
	}
	return n
}

// send sends n requests, one at a time per connection. It returns an error if a response has
// another status than the given one.
func (g *generator) send(ctx context.Context, n, status int) error {
	group, ctx := errgroup.WithContext(ctx)
	for i, c := range g.conns {
		group.Go(func() error {
			for range (n + i) / len(g.conns) {
				request := g.next()
				s, err := c.exchange(request)
				if err == nil && s.status != status {
					line, _, _ := bytes.Cut(request, []byte("\r\n"))
					err = fmt.Errorf("%s: status %d", line, s.status)
				}
				if err = cmp.Or(err, ctx.Err()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// saturate sends requests until a time, on each connection the next when the last is answered.
func (g *generator) saturate(ctx context.Context, until time.Time) ([]timedResponse, error) {
	return g.collect(func(c *rawConn, add func(timedResponse)) error {
		for ctx.Err() == nil && time.Now().Before(until) {
			s, err := c.exchange(g.next())
			if err != nil {
				return err
			}
			add(s)
		}
		return ctx.Err()
	}, func() error { return nil })
}

// sendAtRate sends requests at a fixed rate until a time, and waits for all responses. If all
// connections are busy when a request is due, it does not send this request.
func (g *generator) sendAtRate(ctx context.Context, perSecond float64, until time.Time) ([]timedResponse, error) {
	for _, c := range g.conns {
		g.idle <- c
	}
	var ended atomic.Bool
	return g.collect(func(c *rawConn, add func(timedResponse)) error {
		for {
			status, err := readStatus(c.in)
			switch {
			case ended.Load():
				return nil
			case err != nil:
				return fmt.Errorf("read the response: %w", err)
			}
			add(timedResponse{status: status, due: c.due, answer: time.Now()})
			g.idle <- c
		}
	}, func() error {
		// Closing the connections ends the goroutines that read responses.
		defer func() {
			ended.Store(true)
			_ = g.close()
		}()
		if err := g.sendWhenDue(ctx, perSecond, until); err != nil {
			return err
		}
		return g.awaitIdle(ctx)
	})
}

// sendWhenDue sends requests at a fixed rate on idle connections. The latency of a request is
// measured from the time when it was due, even if it was sent later.
func (g *generator) sendWhenDue(ctx context.Context, perSecond float64, until time.Time) error {
	began, sent := time.Now(), 0
	for now := began; now.Before(until) && loop.Sleep(ctx, paceEvery); now = time.Now() {
		for due := int(now.Sub(began).Seconds() * perSecond); sent < due; sent++ {
			select {
			case c := <-g.idle:
				c.due = began.Add(time.Duration(float64(sent) / perSecond * float64(time.Second)))
				if _, err := c.Write(g.next()); err != nil {
					return fmt.Errorf("send: %w", err)
				}
			default:
			}
		}
	}
	return ctx.Err()
}

// awaitIdle waits until no connection has a request in progress.
func (g *generator) awaitIdle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drainFor)
	defer cancel()
	for range g.conns {
		select {
		case <-g.idle:
		case <-ctx.Done():
			return errors.New("requests are not answered")
		}
	}
	return nil
}

// collect runs work for every connection, and do, all at the same time. It returns the responses
// that work has added, and any error of do or of work.
func (g *generator) collect(work func(*rawConn, func(timedResponse)) error, do func() error) ([]timedResponse, error) {
	var wg sync.WaitGroup
	samples, failed := make([][]timedResponse, len(g.conns)), make(chan error, len(g.conns))
	for i, c := range g.conns {
		wg.Go(func() {
			if err := work(c, func(s timedResponse) { samples[i] = append(samples[i], s) }); err != nil {
				failed <- err
			}
		})
	}
	err := do()
	wg.Wait()
	select {
	case failure := <-failed:
		err = cmp.Or(err, failure)
	default:
	}
	return slices.Concat(samples...), err
}

// loadFigures summarizes the responses in a period.
type loadFigures struct {
	offered, granted float64 // per second: requests that were due, and those that succeeded
	p99              time.Duration
	// other is the number of responses that neither succeeded nor were refused because of overload.
	other int
}

func summarizeLoad(samples []timedResponse, from, until time.Time) loadFigures {
	var f loadFigures
	var offered, granted float64
	var waits []time.Duration
	for _, s := range samples {
		if !s.due.Before(from) && s.due.Before(until) {
			offered++
		}
		switch s.status {
		case http.StatusCreated:
			if !s.answer.Before(from) && s.answer.Before(until) {
				granted++
				waits = append(waits, s.answer.Sub(s.due))
			}
		case http.StatusTooManyRequests:
		default:
			f.other++
		}
	}
	took := until.Sub(from).Seconds()
	f.offered, f.granted = offered/took, granted/took
	if slices.Sort(waits); len(waits) > 0 {
		f.p99 = waits[len(waits)*99/100]
	}
	return f
}
