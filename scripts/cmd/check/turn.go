package main

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// turn keeps what is written until begin, and passes it on from then on: the output of a command
// that runs beside another one appears behind that one's.
type turn struct {
	out io.Writer

	mu    sync.Mutex
	begun bool
	kept  bytes.Buffer
}

func (t *turn) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.begun {
		return t.kept.Write(p) //nolint:wrapcheck // never fails
	}
	n, err := t.out.Write(p)
	if err != nil {
		return n, fmt.Errorf("pass the output on: %w", err)
	}
	return n, nil
}

func (t *turn) begin() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun = true
	if _, err := t.kept.WriteTo(t.out); err != nil {
		return fmt.Errorf("pass the output on: %w", err)
	}
	return nil
}
