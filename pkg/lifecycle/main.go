// Package lifecycle provides what every process needs: commands, configuration and logger, servers
// and workers, probes, and an ordered shutdown after which nothing is left running.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"urr.guru/pkg/config"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/telemetry"
)

// Config is the configuration common to all services; embed it.
type Config struct {
	// GRPCAddr is host:port of the gRPC server; not for the gateway, which has none.
	GRPCAddr string `env:"GRPC_ADDR"`
	// OpsAddr is host:port of /healthz, /readyz and /metrics; empty: none.
	OpsAddr string `env:"OPS_ADDR"`
	// Pprof serves profiles at /debug/pprof/ on OpsAddr.
	Pprof bool `env:"PPROF"`
	// LogLevel is the lowest level that is logged.
	LogLevel string `env:"LOG_LEVEL, default=info" oneof:"debug info warn error"`
	// OTLPEndpoint is the collector of traces and metrics, as http://collector:4317; empty: none.
	OTLPEndpoint string `env:"OTEL_EXPORTER_OTLP_ENDPOINT"`
	// Drain is how long the process keeps serving after it reports not ready, so that load
	// balancers can remove it.
	Drain time.Duration `env:"DRAIN, default=5s" min:"0s" max:"10m"`
	// ShutdownTimeout bounds everything after the drain.
	ShutdownTimeout time.Duration `env:"SHUTDOWN_TIMEOUT, default=20s" min:"100ms" max:"10m"`
	// TLS encrypts the calls to and from other services.
	TLS rpc.TLSConfig
}

func (c *Config) lifecycle() *Config { return c }

// embedder is implemented by every configuration that embeds Config.
type embedder interface{ lifecycle() *Config }

// Command is an additional command of a service, with arguments of its own.
type Command[C any] struct {
	// Usage is the command's name and arguments.
	Usage string
	// Unconfigured: the command needs no configuration; Run gets nil.
	Unconfigured bool
	// Run prints its result to out.
	Run func(ctx context.Context, cfg *C, args []string, out io.Writer) error
}

// Exit is an error of a Command that sets the exit code of the process. Without Err nothing is
// printed, since the command's output says what is wrong.
type Exit struct {
	Code int
	Err  error
}

func (e *Exit) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *Exit) Unwrap() error { return e.Err }

func (e Command[C]) name() string {
	name, _, _ := strings.Cut(e.Usage, " ")
	return name
}

// Main is a service's main function: it reads the command (serve, the default; migrate; check,
// which only reads the configuration; version; those of more, which may replace one), loads C from
// the environment, and runs. It returns the exit code: 0 done, 1 failed, 2 wrong usage or
// configuration. C must embed Config. SIGTERM and SIGINT cancel the context; a second signal ends
// the process.
func Main[C any](name string, run, migrate func(context.Context, *C, *slog.Logger) error, more ...Command[C]) int {
	defer ReserveHeap(heapFloor)()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop)
	return runCommand(ctx, name, os.Args[1:], os.Stdout, os.Stderr, run, migrate, more...)
}

func runCommand[C any](ctx context.Context, name string, args []string, stdout, stderr io.Writer, run, migrate func(context.Context, *C, *slog.Logger) error,
	more ...Command[C],
) int {
	cmd, usages := "serve", []string{"serve", "migrate", "check", "version"}
	if len(args) > 0 {
		cmd = args[0]
	}
	do := run
	for _, e := range more {
		if i := slices.Index(usages, e.name()); i >= 0 {
			usages[i] = e.Usage
		} else {
			usages = append(usages, e.Usage)
		}
		if e.name() == cmd {
			return runExtraCommand(ctx, e, args[1:], stdout, stderr)
		}
	}
	switch {
	case len(args) > 1, !slices.Contains([]string{"serve", "migrate", "check", "version"}, cmd):
		fmt.Fprintf(stderr, "usage: %s [%s]\n", name, strings.Join(usages, "|"))
		return 2
	case cmd == "version":
		fmt.Fprintf(stdout, "%s %s %s %s/%s\n", name, telemetry.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return 0
	case cmd == "migrate" && migrate == nil:
		fmt.Fprintf(stdout, "%s has nothing to migrate\n", name)
		return 0
	case cmd == "migrate":
		do = migrate
	}
	cfg, ok := loadConfig[C](ctx, stderr)
	if !ok {
		return 2
	}
	base, ok := any(cfg).(embedder)
	if !ok {
		fmt.Fprintf(stderr, "config: %T does not embed lifecycle.Config\n", cfg)
		return 2
	}
	log, err := telemetry.NewLogger(stdout, name, base.lifecycle().LogLevel)
	if err != nil {
		fmt.Fprintln(stderr, "config: "+err.Error())
		return 2
	}
	if cmd == "check" {
		return 0
	}
	err = do(ctx, cfg, log)
	// A service that is stopped during its start has stopped cleanly; a migration that is stopped
	// has not finished.
	if err != nil && (cmd == "migrate" || ctx.Err() == nil || !errors.Is(err, context.Canceled)) {
		log.Error("failed", "command", cmd, "error", err.Error())
		return 1
	}
	return 0
}

// loadConfig reads the configuration. It prints what is wrong with it and then returns false.
func loadConfig[C any](ctx context.Context, stderr io.Writer) (cfg *C, ok bool) {
	cfg, err := config.Load[C](ctx)
	if err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			fmt.Fprintln(stderr, "config: "+strings.TrimPrefix(line, "config: "))
		}
		return nil, false
	}
	return cfg, true
}

func runExtraCommand[C any](ctx context.Context, e Command[C], args []string, stdout, stderr io.Writer) int {
	var cfg *C
	if !e.Unconfigured {
		var ok bool
		if cfg, ok = loadConfig[C](ctx, stderr); !ok {
			return 2
		}
	}
	err := e.Run(ctx, cfg, args, stdout)
	if err == nil {
		return 0
	}
	exit, ok := errors.AsType[*Exit](err)
	if !ok {
		exit = &Exit{Code: 1, Err: err}
	}
	if exit.Err != nil {
		fmt.Fprintln(stderr, exit.Err)
	}
	return exit.Code
}
