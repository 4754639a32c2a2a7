// Package interrupt is how the checkout's commands end on Ctrl-C: in order, with one line, and with an
// exit code by which make knows.
package interrupt

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Code is the exit code of what Ctrl-C has ended, as a shell gives it.
const Code = 130

// Context ends at SIGINT and SIGTERM. A second one ends the process, whatever it still does.
func Context() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
