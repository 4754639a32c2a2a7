// Command dev runs URR on a development machine: backends, services, their state and their logs.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"urr.guru/scripts/backends"
	"urr.guru/scripts/internal/runner"
	"urr.guru/scripts/platform"
)

const usage = `usage: dev <command>

  up              build and start everything, seed a demo sale
  down            stop everything that this checkout started
  status          table of services and backends
  logs <name>     follow the log of a service or backend
  build           build the services into .urr/bin
  backends        start the backends, the Redis Cluster that tests use included
  backends-down   stop the backends
  supervise       (started by up) keep the services running`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	switch {
	case err != nil && ctx.Err() != nil:
		fmt.Fprintf(os.Stderr, "dev: interrupted: %v; what runs already runs on (make status, make down)\n", err)
	case err != nil:
		fmt.Fprintln(os.Stderr, "dev:", err)
	default:
		return
	}
	os.Exit(1)
}

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	layout, err := platform.Find()
	if err != nil {
		return err
	}
	r, err := runner.New(ctx, layout, say)
	if err != nil {
		return err
	}
	switch args[0] {
	case "up":
		return r.Up(ctx)
	case "down":
		return r.Down(ctx)
	case "status":
		return r.Status(ctx, os.Stdout)
	case "logs":
		if len(args) != 2 {
			return fmt.Errorf("name a service or backend: make logs S=queue (%v)", platform.Names())
		}
		return r.Logs(ctx, args[1])
	case "build":
		return r.Build(ctx)
	case "backends":
		return backends.New(layout, true, say).Keep(ctx)
	case "backends-down":
		return backends.New(layout, true, say).Stop(ctx)
	case "supervise":
		return r.Supervise(ctx, slog.New(slog.NewJSONHandler(os.Stdout, nil)))
	default:
		return errors.New(usage)
	}
}
