// Package fence prevents that the body of a request is sent after a given time.
package fence

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"
)

// ErrTooLate means that a body was not sent, because notAfter had passed.
var ErrTooLate = errors.New("too late to send the request")

// Set gives req a body that cannot be read after notAfter. The HTTP transport reads a body just
// before it sends it. So a process that was suspended for too long sends at most the headers, which
// change nothing.
func Set(req *http.Request, body []byte, notAfter time.Time, now func() time.Time) {
	reader := func() io.ReadCloser {
		return io.NopCloser(&fenced{Reader: bytes.NewReader(body), now: now, notAfter: notAfter})
	}
	req.Body, req.ContentLength = reader(), int64(len(body))
	req.GetBody = func() (io.ReadCloser, error) { return reader(), nil }
}

type fenced struct {
	io.Reader

	now      func() time.Time
	notAfter time.Time
}

func (b *fenced) Read(p []byte) (int, error) {
	if b.now().After(b.notAfter) {
		return 0, ErrTooLate
	}
	return b.Reader.Read(p)
}
