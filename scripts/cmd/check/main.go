// Command check lints and tests every module of the checkout, and generates and tidies its files.
// All checks must pass before a change is merged.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"urr.guru/pkg/plan"
	"urr.guru/scripts/internal/apt"
	"urr.guru/scripts/internal/interrupt"
	"urr.guru/scripts/internal/tools"
	"urr.guru/scripts/platform"
)

const usage = `usage: check <command>

  lint                  golangci-lint in every module
  verify                regenerate everything and require that nothing changes; build each module alone; print the size
  test                  every test, on the real backends
  quick <name>          the quick tests of a service or of a package of pkg, without the race detector
  stress <packages> <n> n runs of packages, shuffled, while other work takes the processors
  fuzz <test> <time>    fuzz tests on generated inputs, each for a time: all ("") or the one named
  providers             the clients of payment providers, on their fakes and, with keys, on the providers' test APIs
  chaos [part]          faults in their full form: every part, or the one named
  proto                 regenerate Go and OpenAPI from proto/
  sqlc                  regenerate Go from the SQL queries
  settings              regenerate what follows from the services' Config and the RPCs' access: tables, charts, go.work
  figures               regenerate the tables of measured figures in the documents from scripts/bench/reference.json
  plan <n> <seconds>    what n visitors within so many seconds need
  tidy                  go mod tidy in every module`

func main() { interrupt.Main("check", run) }

// checker lints, tests and generates files in one checkout.
type checker struct {
	layout platform.Layout
	apt    apt.Installer
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
	c := &checker{layout: layout, apt: apt.Installer{Log: layout.LogFile("apt"), Say: say}}
	commands := map[string]func(context.Context, []string) error{
		"lint":      noArguments(c.lint),
		"verify":    noArguments(c.verify),
		"test":      noArguments(c.runTests),
		"quick":     c.testQuickly,
		"stress":    c.stressTests,
		"fuzz":      c.runFuzzTests,
		"providers": noArguments(c.checkProviders),
		"chaos":     c.runFaultTests,
		"proto":     noArguments(c.generateProto),
		"sqlc":      noArguments(c.generateSQLC),
		"settings":  noArguments(c.generateSettings),
		"figures":   noArguments(c.generateFigures),
		"plan":      makePlan,
		"tidy":      noArguments(func(ctx context.Context) error { return c.eachModule(ctx, "go", "mod", "tidy") }),
	}
	command := commands[args[0]]
	if command == nil {
		return errors.New(usage)
	}
	return command(ctx, args[1:])
}

func makePlan(_ context.Context, args []string) error {
	if len(args) != 2 || args[0] == "" || args[1] == "" {
		return errors.New("usage: make plan VISITORS=1000000 WITHIN=60 (seconds)")
	}
	return plan.Command([]string{"--visitors", args[0], "--within", args[1]}, os.Stdout)
}

// noArguments returns a command that calls run, and refuses all arguments.
func noArguments(run func(context.Context) error) func(context.Context, []string) error {
	return func(ctx context.Context, args []string) error {
		if len(args) > 0 {
			return errors.New(usage)
		}
		return run(ctx)
	}
}

// module is one Go module of the workspace.
type module struct {
	name string // its folder, relative to the checkout
	dir  string
}

// modules returns the modules of go.work, in their order there.
func (c *checker) modules(ctx context.Context) ([]module, error) {
	out, err := c.quietCommand(ctx, c.layout.Root, "go", "list", "-m", "-f", "{{.Dir}}").Output()
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

// eachModule runs a command in the folder of every module. It continues after a failure, so that
// all failures are shown.
func (c *checker) eachModule(ctx context.Context, name string, args ...string) error {
	modules, err := c.modules(ctx)
	if err != nil {
		return err
	}
	var failed error
	for _, m := range modules {
		if err := c.command(ctx, m.dir, name, args...).Run(); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %s %s: %v\n", m.name, name, strings.Join(args, " "), err)
			failed = interrupt.ErrReported
		}
	}
	return failed
}

// command returns a command that writes to this process's standard output and error.
func (c *checker) command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := c.quietCommand(ctx, dir, name, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd
}

// quietCommand returns a command whose output is not shown. When ctx ends, it gets an interrupt, so
// that a test run can stop its own processes. It is killed only later.
func (c *checker) quietCommand(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	return cmd
}

// buildTools builds the tools whose versions scripts/tools pins, and returns the folder with them.
func (c *checker) buildTools(ctx context.Context, names ...string) (string, error) {
	return tools.Build(ctx, c.layout, tools.General, say, names...)
}

// lint runs golangci-lint with the checkout's configuration in every module.
func (c *checker) lint(ctx context.Context) error {
	dir, err := c.buildTools(ctx, "golangci-lint")
	if err != nil {
		return err
	}
	return c.eachModule(ctx, filepath.Join(dir, "golangci-lint"), "run", "--allow-parallel-runners", "./...")
}
