package handlers

import (
	"errors"
	"net/http"
	"slices"
	"time"
)

// writeTimeout bounds each write to a stream, which then ends if its client does not read.
const writeTimeout = 10 * time.Second

// stream writes server-sent events. (WHATWG HTML, "Server-sent events")
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// openStream begins a response without an end. It replaces the listener's time-outs, which are those of
// whole responses: each write has a deadline, and reading has none, since a passed one would look like a
// client that has left.
func openStream(w http.ResponseWriter) (*stream, error) {
	s := &stream{w: w, control: http.NewResponseController(w)}
	if err := s.control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // nginx would keep events back
	w.WriteHeader(http.StatusOK)
	// The first write shows the client that it is connected.
	return s, s.write([]byte("retry: 2000\n\n"))
}

func (s *stream) writeData(data []byte) error {
	return s.write(slices.Concat([]byte("data: "), data, []byte("\n\n")))
}

func (s *stream) writeEvent(name string, data []byte) error {
	return s.write(slices.Concat([]byte("event: "+name+"\ndata: "), data, []byte("\n\n")))
}

func (s *stream) writeHeartbeat() error { return s.write([]byte(":\n\n")) }

func (s *stream) write(b []byte) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := s.w.Write(b); err != nil {
		return err
	}
	return s.control.Flush()
}
