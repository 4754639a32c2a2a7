package app_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/bits"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

const hallSeats = 400

// halls is a fake of the seats in the ticket service, for all events.
type halls struct {
	mu     sync.Mutex
	bitmap map[string][]byte
	err    error
}

func (h *halls) get(event string) (*ticketv1.Availability, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return nil, h.err
	}
	m := &ticketv1.Availability{
		EventId: event, Seats: hallSeats, Bitmap: append([]byte(nil), h.bitmapOf(event)...), Sections: []*ticketv1.Section{{Section: "A", Capacity: hallSeats}},
	}
	for _, b := range m.GetBitmap() {
		m.Sections[0].Free += int64(bits.OnesCount8(b))
	}
	sum := fnv.New64a()
	_, _ = sum.Write(m.GetBitmap())
	m.Etag = strconv.FormatUint(sum.Sum64(), 36)
	return m, nil
}

// bitmapOf returns the bitmap of an event. The caller holds h.mu.
func (h *halls) bitmapOf(event string) []byte {
	if h.bitmap[event] == nil {
		h.bitmap[event] = make([]byte, hallSeats/8)
	}
	return h.bitmap[event]
}

// toggle makes each of the seats taken if it is free, and free if it is taken.
func (h *halls) toggle(event string, seats ...int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, i := range seats {
		h.bitmapOf(event)[i/8] ^= 0x80 >> (i % 8)
	}
}

func newHalls(w *fixture) *halls {
	h := &halls{bitmap: map[string][]byte{}}
	w.ticket.seats = h.get
	return h
}

// seatMap is a client's copy of an event's seats, which it keeps up to date by the stream.
type seatMap struct {
	EventID string `json:"eventId"`
	Bitmap  string `json:"bitmap"`
	bits    []byte
	// version is the id of the last SSE event.
	version  string
	Sections []struct {
		Section  string `json:"section"`
		Free     int64  `json:"free"`
		Capacity int64  `json:"capacity"`
	} `json:"sections"`
	// resets and changes count the SSE events of each kind.
	resets, changes int
}

// apply applies an SSE event of the stream.
func (m *seatMap) apply(name, id, data string) error {
	switch name {
	case "reset":
		m.resets++
		m.Sections = nil
		if err := json.Unmarshal([]byte(data), m); err != nil {
			return err
		}
		var err error
		m.bits, err = base64.StdEncoding.DecodeString(m.Bitmap)
		m.version = id
		return err
	case "end":
		return nil
	}
	m.changes++
	var c struct {
		Taken, Freed []int
		Sections     []struct {
			Section string
			Free    int64
		}
	}
	if err := json.Unmarshal([]byte(data), &c); err != nil {
		return err
	}
	for _, i := range c.Taken {
		if m.bits[i/8]&(0x80>>(i%8)) == 0 {
			return fmt.Errorf("seat %d was taken before", i)
		}
		m.bits[i/8] &^= 0x80 >> (i % 8)
	}
	for _, i := range c.Freed {
		if m.bits[i/8]&(0x80>>(i%8)) != 0 {
			return fmt.Errorf("seat %d was free before", i)
		}
		m.bits[i/8] |= 0x80 >> (i % 8)
	}
	for _, s := range c.Sections {
		for i := range m.Sections {
			if m.Sections[i].Section == s.Section {
				m.Sections[i].Free = s.Free
			}
		}
	}
	m.version = id
	return nil
}

// read applies the SSE events of a stream until the stream ends or enough returns true.
func (m *seatMap) read(stream io.Reader, enough func() bool) error {
	var name, id, data string
	for lines := bufio.NewScanner(stream); lines.Scan(); {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch field {
		case "event":
			name = value
		case "id":
			id = value
		case "data":
			data = value
		case "": // a blank line ends an event; an event without its end is ignored
			if data != "" {
				if err := m.apply(name, id, data); err != nil {
					return err
				}
			}
			name, id, data = "", "", ""
			if enough() {
				return nil
			}
		}
	}
	return nil
}

// cutter is a proxy that cuts each connection after a random number of bytes, until calm is set.
type cutter struct {
	calm atomic.Bool
	cuts atomic.Int64
	addr string
}

func newCutter(t *testing.T, target string, random *rand.Rand) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &cutter{addr: "http://" + l.Addr().String()}
	var running sync.WaitGroup
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		running.Wait()
	})
	running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", strings.TrimPrefix(target, "http://"))
			if err != nil {
				_ = client.Close()
				continue
			}
			limit := int64(500 + random.IntN(2000)) // the headers take some 600 of these
			running.Go(func() { _, _ = io.Copy(server, client); _ = server.Close() })
			running.Go(func() {
				if c.calm.Load() {
					_, _ = io.Copy(client, server)
				} else {
					_, _ = io.CopyN(client, server, limit)
					c.cuts.Add(1)
				}
				_, _ = client.Close(), server.Close()
			})
		}
	})
	return c
}

// connect reads one stream to its end. A lost connection is no error, but an unexpected message is.
func (m *seatMap) connect(ctx context.Context, url string, who credentials, plain bool, enough func() bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	for name, value := range who.with("Last-Event-ID", m.version) {
		req.Header.Set(name, value)
	}
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: plain}}).Do(req)
	if err != nil {
		return context.Cause(ctx) // else it was cut
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		if answer.StatusCode == http.StatusTooManyRequests { // the gateway has not noticed the cut yet
			return nil
		}
		return fmt.Errorf("status %d", answer.StatusCode)
	}
	if err := m.read(answer.Body, enough); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errors.New("the map did not become that of the event")
	}
	return nil
}
