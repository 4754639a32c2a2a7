// Package demo is what the demos share: their course, requests of members, progress on the terminal,
// a report with plots, the last line, and the exit code. Each demo is a folder of its own.
package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"urr.guru/scripts/internal/interrupt"
)

var (
	// ErrInterrupted wraps the end of a run by Ctrl-C.
	ErrInterrupted = errors.New("interrupted")
	// ErrBroken is a violated invariant; its line has been printed.
	ErrBroken = errors.New("an invariant is broken")
)

// end prints the last line of a run without a verdict, which has failed or was interrupted, and
// returns its error.
func end(ctx context.Context, name string, err error) error {
	switch {
	case err == nil:
	case ctx.Err() != nil:
		if !errors.Is(err, ErrInterrupted) { // nothing had to be cleaned up
			err = fmt.Errorf("%w; the platform runs on (make status, make down)", ErrInterrupted)
		}
		fmt.Println(name + " " + err.Error())
	case !errors.Is(err, ErrBroken):
		fmt.Println(name + " FAILED: " + strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return err
}

// ExitCode is 130 after an interrupt, as in a shell, and 1 after any other failure.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrInterrupted):
		return interrupt.Code
	default:
		return 1
	}
}

// Verdict is the judgement of a run.
type Verdict interface {
	OK() bool
	// Line is the last line of the run.
	Line() string
}
