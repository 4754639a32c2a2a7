package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"urr.guru/scripts/backends"
	"urr.guru/scripts/internal/interrupt"
	"urr.guru/scripts/internal/tools"
)

// scriptsModule is the module whose tests start compiled programs and whole platforms. They run
// without the race detector, which would not see these programs, and without cached results, which
// would hide changes in them.
const scriptsModule = "scripts"

// parallelTests lets more tests run at a time than there are processors, as most wait for a server.
const parallelTests = "-parallel=4"

// parallelPackages lets two packages of services and pkg be tested at a time, beside those of scripts.
// With more, tests delay each other past their time limits on slow machines.
const parallelPackages = "-p=2"

// parallelScripts lets one package of scripts be tested at a time, since several of them each start
// whole platforms and browsers.
const parallelScripts = "-p=1"

// noDebugInformation makes linking a test program cheaper by about a quarter (measured with
// queue/internal/rpc); for packages with short tests, linking takes most of the time. The stack
// traces of panics and data races do not need debug information.
const noDebugInformation = "-ldflags=-s -w"

// testTags compile failpoints, which tests activate, into the programs. They also leave out gRPC's
// traces: these import html/template, for which the linker would keep every exported method.
const testTags = "-tags=failpoint,grpcnotrace"

// noSleepAtExit makes a process with the race detector end at once. By default it first sleeps for
// a second, in which it looks for races of goroutines that still run.
const noSleepAtExit = "GORACE=atexit_sleep_ms=0"

// rareCollection makes the go command, the linker and the tests collect garbage less often, which
// takes more memory. Linking a test program then takes a seventh less processor time.
const rareCollection = "GOGC=400"

// runTests runs the tests of every module. It starts the backends if needed. Afterwards it stops
// them, unless another command uses them.
func (c *checker) runTests(ctx context.Context) (err error) {
	if err := c.prepareTests(ctx); err != nil {
		return err
	}
	release, err := backends.New(c.layout, true, say).Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release(ctx)) }()
	return c.testModules(ctx)
}

// raceFirst and scriptsFirst are the packages whose tests take longest. They are the first
// arguments of go test, which starts packages in that order, so that other packages run beside
// them. At the end they would run alone.
var (
	raceFirst = []string{
		"./services/queue/internal/redis", "./services/gateway/internal/app", "./services/ingest/internal/rpc",
		"./services/queue/internal/rpc", "./services/worker/internal/app", "./services/worker/internal/draw",
		"./services/queue/internal/line", "./services/payment/internal/rpc", "./services/ticket/internal/app", "./pkg/fairdraw",
		"./services/reward/internal/postgres",
	}
	scriptsFirst = []string{"./scripts/e2e", "./scripts/e2e/pages", "./scripts/chaos"}
)

// testModules runs one go test for the services and pkg and, at the same time, another for scripts:
// the former needs the processors, while many tests of the latter wait. If one fails, the other
// still runs to its end, so that all failures are shown.
func (c *checker) testModules(ctx context.Context) error {
	modules, err := c.modules(ctx)
	if err != nil {
		return err
	}
	race := append([]string{"-race", testTags, parallelPackages, parallelTests}, raceFirst...)
	for _, m := range modules {
		if m.name != scriptsModule {
			race = append(race, "./"+m.name+"/...")
		}
	}
	scripts := append(append([]string{"-count=1", parallelScripts}, scriptsFirst...), "./"+scriptsModule+"/...")
	second := &heldOutput{out: os.Stdout}
	ended := make(chan error, 1)
	go func() { ended <- c.goTest(ctx, second, scriptsModule, nil, scripts...) }()
	first := c.goTest(ctx, os.Stdout, "services and pkg", []string{noSleepAtExit, rareCollection}, race...)
	return errors.Join(first, second.release(), <-ended)
}

// goTest runs one go test in the checkout's root, with env added to the environment. On a CI server
// it ignores cached results and shuffles the tests.
func (c *checker) goTest(ctx context.Context, out io.Writer, title string, env []string, args ...string) error {
	args = append([]string{"test", "-vet=off", "-timeout=45m", noDebugInformation}, args...) // `make lint` runs vet
	if os.Getenv("CI") != "" {
		args = append([]string{"test", "-shuffle=on", "-count=1"}, args[1:]...)
	}
	began := time.Now()
	cmd := c.command(ctx, c.layout.Root, "go", args...)
	failed := failureCollector{out: out}
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout = &failed
	cmd.Stderr = cmd.Stdout          // with the same writer for both, exec does not call it concurrently
	cmd.WaitDelay = 10 * time.Second // a process that a test did not stop may keep the output open
	err := cmd.Run()
	if _, err := fmt.Fprintf(out, "tests of %s: %.0f s\n", title, time.Since(began).Seconds()); err != nil {
		return fmt.Errorf("say how long the tests took: %w", err)
	}
	if err != nil {
		return fmt.Errorf("tests of %s: %w\n%s", title, err, failed.String())
	}
	return nil
}

// prepareTests provides what tests need: a compiler, npm, Helm, stripe-mock and a browser.
func (c *checker) prepareTests(ctx context.Context) error {
	if _, err := c.apt.Ensure(ctx, "gcc", "build-essential"); err != nil { // for the race detector
		return err
	}
	if err := c.prepareBrowser(ctx); err != nil {
		return err
	}
	return errors.Join(c.buildPages(ctx), c.prepareHelm(ctx), c.prepareStripeMock(ctx))
}

func (c *checker) buildPages(ctx context.Context) error {
	if _, err := c.apt.Ensure(ctx, "npm", "npm"); err != nil {
		return err
	}
	if c.command(ctx, c.layout.Root, "go", "run", "./scripts/cmd/web").Run() != nil {
		return interrupt.ErrReported
	}
	return nil
}

// prepareHelm builds the pinned version of Helm, and sets the variable by which tests find it.
// Otherwise each test program would ask the go command, which takes two seconds.
func (c *checker) prepareHelm(ctx context.Context) error {
	dir, err := tools.Build(ctx, c.layout, tools.Kubernetes, say, "helm")
	if err != nil {
		return err
	}
	if err := os.Setenv("URR_TEST_HELM", filepath.Join(dir, "helm")); err != nil {
		return fmt.Errorf("name the path of Helm: %w", err)
	}
	return nil
}

// prepareBrowser installs Chromium and a Korean font. It prefers the headless shell, which needs
// less processor time, if the distribution has it.
func (c *checker) prepareBrowser(ctx context.Context) error {
	if _, err := exec.LookPath("chromium-headless-shell"); err == nil {
		return nil
	}
	if c.apt.Install(ctx, "chromium-headless-shell") != nil {
		if _, err := exec.LookPath("chromium"); err == nil {
			return nil
		}
		if err := c.apt.Install(ctx, "chromium"); err != nil {
			return fmt.Errorf("the pages are tested in Chromium: %w", err)
		}
	}
	if err := c.apt.Install(ctx, "fonts-noto-cjk"); err != nil {
		return fmt.Errorf("the pages are tested in Korean: %w", err)
	}
	return nil
}

// faultFolders are the folders with fault tests. In those of services, only tests that try many
// seeds or simulate a crowd are fault tests (see walkName); they need the checkout's backends.
var faultFolders = []string{scriptsModule + "/chaos", "services/payment/internal/rpc", "services/queue/internal/line"}

// runFaultTests runs the fault tests in their long form; `make test` does not.
func (c *checker) runFaultTests(ctx context.Context, args []string) (err error) {
	if len(args) > 1 {
		return errors.New(usage)
	}
	parts, err := chaosParts(c.layout.Root)
	if err != nil {
		return err
	}
	if len(args) == 1 && args[0] != "" {
		name, all := strings.TrimPrefix(args[0], "Test"), parts
		parts = slices.DeleteFunc(slices.Clone(all), func(p faultPart) bool { return p.name != name })
		if len(parts) == 0 {
			return fmt.Errorf("there is no part %q; parts: %v", name, all)
		}
	}
	for i, folder := range faultFolders {
		var names []string
		for _, p := range parts {
			if p.folder == folder {
				names = append(names, p.name)
			}
		}
		if len(names) > 0 {
			err = errors.Join(err, c.runFaultFolder(ctx, folder, names, i > 0))
		}
	}
	return err
}

func (c *checker) runFaultFolder(ctx context.Context, folder string, names []string, walks bool) (err error) {
	flags := []string{"test", "-count=1", "-timeout=120m", "-v", "./" + folder, "-run=^Test(" + strings.Join(names, "|") + ")$", "-full"}
	if walks {
		release, failure := backends.New(c.layout, true, say).Acquire(ctx)
		if failure != nil {
			return failure
		}
		defer func() { err = errors.Join(err, release(ctx)) }()
	} else {
		if err := c.buildPages(ctx); err != nil { // the tests' buyers pay on pages of the gateway
			return err
		}
		if previous := os.Getenv("PREVIOUS"); previous != "" {
			flags = append(flags, "-previous="+previous)
		}
	}
	if c.command(ctx, c.layout.Root, "go", flags...).Run() != nil {
		return interrupt.ErrReported
	}
	return nil
}

// faultPart is a fault test: one part of `make chaos`.
type faultPart struct{ name, folder string }

func (p faultPart) String() string { return p.name }

var (
	testName = regexp.MustCompile(`(?m)^func Test(\w+)\(t `)
	walkName = regexp.MustCompile(`(?m)^func Test(\w+(?:Walks|Crowd))\(t `)
)

// chaosParts returns the fault tests of the checkout at root.
func chaosParts(root string) (parts []faultPart, err error) {
	for i, folder := range faultFolders {
		files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
		if err != nil {
			return nil, err
		}
		pattern := testName
		if i > 0 {
			pattern = walkName
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				return nil, err
			}
			for _, m := range pattern.FindAllSubmatch(text, -1) {
				if name := string(m[1]); name != "Main" {
					parts = append(parts, faultPart{name, folder})
				}
			}
		}
	}
	return parts, nil
}

// testQuickly runs the tests of one service, or of one package of pkg, that start no process and
// need no Kafka. It starts the backends if needed, and they continue to run.
func (c *checker) testQuickly(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New(usage)
	}
	dir, err := c.quickFolder(args[0])
	if err != nil {
		return err
	}
	set := backends.New(c.layout, true, say)
	if missing := set.NotRunning(); len(missing) > 0 {
		say("starting %s; they stay up (make backends-down stops them)", strings.Join(missing, ", "))
		if err := set.StartAndKeep(ctx); err != nil {
			return err
		}
	}
	// After an edit, compiling and linking take most of the time. So it leaves out vet, which `make
	// lint` runs, and debug information, which these test programs do not need.
	cmd := c.command(ctx, c.layout.Root, "go", "test", "-short", "-vet=off", testTags, noDebugInformation, "-timeout=2m",
		parallelTests, "./"+dir+"/...")
	cmd.Env = append(os.Environ(), rareCollection)
	if err := cmd.Run(); err != nil {
		return interrupt.ErrReported
	}
	return nil
}

// quickFolder returns the folder of a service or of a package of pkg, given its name or path.
func (c *checker) quickFolder(name string) (string, error) {
	var folders []string
	for _, parent := range []string{"services", "pkg"} {
		for _, dir := range []string{filepath.Join(parent, name), name} {
			if isFolder(filepath.Join(c.layout.Root, dir)) && strings.HasPrefix(dir, parent) {
				return dir, nil
			}
		}
		children, err := os.ReadDir(filepath.Join(c.layout.Root, parent))
		if err != nil {
			return "", fmt.Errorf("list %s: %w", parent, err)
		}
		for _, child := range children {
			if child.IsDir() {
				folders = append(folders, child.Name())
			}
		}
	}
	return "", fmt.Errorf("there is no service and no package of pkg named %q: S= takes one of %s", name, strings.Join(folders, ", "))
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
