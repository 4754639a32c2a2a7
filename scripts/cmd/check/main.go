// Command check is what stands between a change and main: it lints, regenerates, tidies and tests
// every module of the checkout.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"urr.guru/scripts/internal/apt"
	"urr.guru/scripts/platform"
)

const usage = `usage: check <command>

  lint     golangci-lint in every module
  verify   regenerate everything and require that nothing changes; build each module alone
  test     every test, with the race detector, on the real backends
  proto    regenerate Go and OpenAPI from proto/
  sqlc     regenerate Go from the SQL queries
  tidy     go mod tidy in every module`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	if err != nil && !errors.Is(err, errSaid) {
		fmt.Fprintln(os.Stderr, "check:", err)
	}
	if err != nil {
		os.Exit(1)
	}
}

// errSaid is a failure whose reason the tool that failed has printed already.
var errSaid = errors.New("failed")

// checker works on one checkout.
type checker struct {
	layout platform.Layout
	apt    apt.Installer
}

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New(usage)
	}
	layout, err := platform.Find()
	if err != nil {
		return err
	}
	c := &checker{layout: layout, apt: apt.Installer{Log: layout.Log("apt"), Say: say}}
	switch args[0] {
	case "lint":
		return c.lint(ctx)
	case "verify":
		return c.verify(ctx)
	case "test":
		return c.test(ctx)
	case "proto":
		return c.proto(ctx)
	case "sqlc":
		return c.sqlc(ctx)
	case "tidy":
		return c.eachModule(ctx, "go", "mod", "tidy")
	default:
		return errors.New(usage)
	}
}

// module is one Go module of the workspace.
type module struct {
	name string // its folder, seen from the checkout
	dir  string
}

// modules lists what go.work uses, in its order.
func (c *checker) modules(ctx context.Context) ([]module, error) {
	cmd := c.quiet(ctx, c.layout.Root, "go", "list", "-m", "-f", "{{.Dir}}")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the modules of go.work: %w", err)
	}
	var modules []module
	for dir := range strings.Lines(string(out)) {
		dir = strings.TrimSpace(dir)
		name, err := filepath.Rel(c.layout.Root, dir)
		if err != nil {
			return nil, fmt.Errorf("module outside the checkout: %w", err)
		}
		modules = append(modules, module{name: name, dir: dir})
	}
	return modules, nil
}

// eachModule runs a command in every module, and goes on after a failure so that all are seen.
func (c *checker) eachModule(ctx context.Context, name string, args ...string) error {
	modules, err := c.modules(ctx)
	if err != nil {
		return err
	}
	var failed error
	for _, m := range modules {
		if err := c.show(ctx, m.dir, name, args...).Run(); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %s %s: %v\n", m.name, name, strings.Join(args, " "), err)
			failed = errSaid
		}
	}
	return failed
}

// show prepares a command whose output is the user's.
func (c *checker) show(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := c.quiet(ctx, dir, name, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd
}

// quiet prepares a command without output. It is asked to end before it is killed: a test run has
// processes of its own to stop.
func (c *checker) quiet(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	return cmd
}
