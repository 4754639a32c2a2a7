// Package interrupt lets commands clean up and end after Ctrl-C, with one line of output and an
// exit code that make recognizes.
package interrupt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Code is the exit code after an interrupt, as shells return it.
const Code = 130

// Context ends at SIGINT and SIGTERM. A second signal ends the process immediately.
func Context() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// ErrReported is a failure that something else has already printed.
var ErrReported = errors.New("failed")

// Main runs a command, prints its error and ends the process: with Code after an interrupt, else
// with 1 after an error.
func Main(name string, run func(ctx context.Context, args []string) error) {
	ctx, stop := Context()
	err := run(ctx, os.Args[1:])
	interrupted := ctx.Err() != nil
	stop()
	switch {
	case err == nil:
		os.Exit(0)
	case interrupted:
		if errors.Is(err, context.Canceled) {
			err = errors.New("interrupted")
		}
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(Code)
	case !errors.Is(err, ErrReported):
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	}
	os.Exit(1)
}
