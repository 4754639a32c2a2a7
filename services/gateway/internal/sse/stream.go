// Package sse writes server-sent events (WHATWG HTML, "Server-sent events").
package sse

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"net/http"
	"time"

	"urr.guru/services/gateway/internal/coding"
)

// writeTimeout is the time limit of a write. A stream whose client does not read ends after it.
const writeTimeout = 10 * time.Second

// HeartbeatEvery is the interval of heartbeats on a stream without events. It is below the idle
// time-outs of proxies.
const HeartbeatEvery = 5 * time.Second

var (
	// retry tells browsers when to connect again, in milliseconds.
	retry     = NewFrame([]byte("retry: 2000\n\n"))
	heartbeat = NewFrame([]byte(":\n\n"))
)

// Stream is a response to which events are written until the client leaves.
type Stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	// A compressed stream ends with the checksum and the length of its uncompressed data (RFC 1952).
	gzipped  bool
	checksum uint32
	length   uint32
}

// Open begins a stream. It replaces the time-outs of the HTTP server, which are for whole
// responses. Each write has its own deadline. Reading has none, since a deadline that has passed
// would look as if the client had left.
func Open(w http.ResponseWriter) (*Stream, error) { return open(w, false) }

// OpenCompressed begins a stream as Open does, with compressed events if the client accepts gzip.
func OpenCompressed(w http.ResponseWriter, request http.Header) (*Stream, error) {
	w.Header().Set("Vary", "Accept-Encoding")
	return open(w, coding.Accepts(request.Get("Accept-Encoding"), "gzip"))
}

func open(w http.ResponseWriter, gzipped bool) (*Stream, error) {
	s := &Stream{w: w, control: http.NewResponseController(w), gzipped: gzipped}
	if err := s.control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // otherwise nginx would buffer events
	if gzipped {
		h.Set("Content-Encoding", "gzip")
	}
	w.WriteHeader(http.StatusOK)
	if gzipped {
		if _, err := w.Write(gzipHeader); err != nil {
			return nil, err
		}
	}
	// The first write confirms to the client that it is connected.
	return s, s.Write(retry)
}

// Heartbeat shows the client that the stream is alive.
func (s *Stream) Heartbeat() error { return s.Write(heartbeat) }

// Write sends a frame.
func (s *Stream) Write(f *Frame) error {
	b := f.plain
	if s.gzipped {
		b = f.compressed()
		s.checksum = crc32.Update(s.checksum, crc32.IEEETable, f.plain)
		s.length += uint32(len(f.plain)) //nolint:gosec // the format's length is modulo 2^32
	}
	return s.send(b)
}

// End writes the last bytes of a compressed stream. Without them some clients report an error.
func (s *Stream) End() {
	if !s.gzipped {
		return
	}
	b := append([]byte(nil), lastBlock...)
	b = binary.LittleEndian.AppendUint32(b, s.checksum)
	_ = s.send(binary.LittleEndian.AppendUint32(b, s.length)) // the client may have left
}

func (s *Stream) send(b []byte) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := s.w.Write(b); err != nil {
		return err
	}
	return s.control.Flush()
}
