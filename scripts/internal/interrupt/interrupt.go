// Package interrupt lets commands clean up and end after Ctrl-C, with one line of output and an
// exit code that make recognizes.
package interrupt

import (
	"context"
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
