package outbound

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// ErrTooLate means that a body was not sent, because the time until which it may be had passed.
var ErrTooLate = errors.New("too late to send the request")

type limitKey struct{}

// SentUntil returns a context whose request must not be sent after limit; zero: at any time.
func SentUntil(ctx context.Context, limit time.Time) context.Context {
	if limit.IsZero() {
		return ctx
	}
	return context.WithValue(ctx, limitKey{}, limit)
}

// setLimit gives a request of a SentUntil context a body that cannot be read after its time. The HTTP
// transport reads a body just before it sends it. So a process that was suspended for too long sends at
// most the headers, which change nothing.
func setLimit(r *http.Request, now func() time.Time) error {
	limit, ok := r.Context().Value(limitKey{}).(time.Time)
	if !ok || r.Body == nil {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	r.Body, r.ContentLength = io.NopCloser(&fenced{Reader: bytes.NewReader(body), now: now, notAfter: limit}), int64(len(body))
	return nil
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
