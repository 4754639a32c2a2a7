// Command dev starts and stops URR and its backends on a development machine, and shows their logs.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"urr.guru/scripts/backends"
	"urr.guru/scripts/internal/interrupt"
	"urr.guru/scripts/platform"
	"urr.guru/scripts/runner"
)

const usage = `usage: dev <command>

  up              build and start everything, seed a demo sale
  down            stop everything that this checkout started
  reset           stop everything and remove its data
  status          table of services and backends
  logs <name>     follow the log of a service or backend
  env <service>   print the environment that up gives a service, for a shell
  seed <url>      create the demo sale of a gateway with DEV_LOGIN, unless it exists
  build           build the services into .urr/bin
  backends        start the backends, the Redis Cluster that tests use included
  backends-down   stop the backends
  supervise       (started by up) keep the services and the backends running`

func main() {
	interrupt.Main("dev", func(ctx context.Context, args []string) error {
		err := run(ctx, args)
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return errors.New("interrupted (make status tells what runs)")
		}
		return err
	})
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
	case "reset":
		return r.Reset(ctx)
	case "status":
		return r.Status(ctx, os.Stdout)
	case "logs":
		if len(args) != 2 {
			return fmt.Errorf("name a service or backend: make logs S=queue (%v)", platform.Names())
		}
		return r.Logs(ctx, args[1])
	case "env":
		if len(args) != 2 {
			return fmt.Errorf("name a service: make env S=queue (%v)", platform.Names())
		}
		return r.Env(os.Stdout, args[1])
	case "seed":
		if len(args) != 2 {
			return errors.New("name the gateway: dev seed http://127.0.0.1:8080")
		}
		return runner.Seed(ctx, args[1], say)
	case "build":
		return r.Build(ctx)
	case "backends":
		return backends.New(layout, true, say).StartAndKeep(ctx)
	case "backends-down":
		return r.StopBackends(ctx)
	case "supervise":
		return r.Supervise(ctx, slog.New(slog.NewJSONHandler(os.Stdout, nil)))
	default:
		return errors.New(usage)
	}
}
