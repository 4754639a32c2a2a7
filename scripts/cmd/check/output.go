package main

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
)

// failureCollector is an io.Writer for the output of go test. It forwards the output and keeps the
// first lines of each failure. The caller prints them again at the end, since thousands of lines of
// other packages and of services' logs may follow a failure.
type failureCollector struct {
	out         io.Writer
	partial     []byte
	linesToKeep int // how many more lines of the current failure are kept
	kept        strings.Builder
}

// linesPerFailure is the most lines kept of a failure; they show what a test expected and where.
const linesPerFailure = 25

var (
	failureBegins = regexp.MustCompile(`^\s*--- FAIL: |^panic: |^fatal error: |^WARNING: DATA RACE|^FAIL\t|^# |\[build failed\]`)
	failureEnds   = regexp.MustCompile(`^(ok  |\?   |FAIL$|\s*--- )|: the end of `) // after "the end of", the harness prints a log
)

func (f *failureCollector) Write(p []byte) (int, error) {
	f.partial = append(f.partial, p...)
	for {
		line, rest, complete := bytes.Cut(f.partial, []byte("\n"))
		if !complete {
			break
		}
		f.keepLine(string(line))
		f.partial = rest
	}
	n, err := f.out.Write(p)
	if err != nil {
		return n, fmt.Errorf("pass the output of the tests on: %w", err)
	}
	return n, nil
}

func (f *failureCollector) keepLine(line string) {
	switch {
	case failureBegins.MatchString(line):
		f.linesToKeep = linesPerFailure
	case failureEnds.MatchString(line):
		f.linesToKeep = 0
	}
	if f.linesToKeep > 0 {
		f.linesToKeep--
		f.kept.WriteString(line + "\n")
	}
}

func (f *failureCollector) String() string { return f.kept.String() }

// heldOutput buffers the output of one of two concurrent commands until the other has finished.
type heldOutput struct {
	out io.Writer

	mu       sync.Mutex
	released bool
	buffer   bytes.Buffer
}

func (h *heldOutput) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.released {
		return h.buffer.Write(p) //nolint:wrapcheck // never fails
	}
	n, err := h.out.Write(p)
	if err != nil {
		return n, fmt.Errorf("pass the output on: %w", err)
	}
	return n, nil
}

// release writes the buffer. All later output is written directly.
func (h *heldOutput) release() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.released = true
	if _, err := h.buffer.WriteTo(h.out); err != nil {
		return fmt.Errorf("pass the output on: %w", err)
	}
	return nil
}
