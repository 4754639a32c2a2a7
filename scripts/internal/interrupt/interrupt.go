// Package interrupt lets commands clean up after Ctrl-C. They then end with one line of output, and
// with an exit code that make recognizes.
package interrupt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Code is the exit code of a command after an interrupt, as shells define it.
const Code = 130

// Context returns a context that SIGINT or SIGTERM ends. A second signal ends the process.
func Context() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// ErrReported is the error of a failure that was already printed.
var ErrReported = errors.New("failed")

// Main runs a command, prints its error and ends the process. The exit code is Code after an
// interrupt, 1 after another error, and 0 otherwise.
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
