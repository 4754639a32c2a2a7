package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"urr.guru/scripts/backends"
)

// scriptsModule is the module whose tests start built programs and whole platforms. The race detector
// would watch the driver only, and a cached result would hide a change of what it starts.
const scriptsModule = "scripts"

// parallelTests lets more tests run at a time than there are processors: most of them wait for a server.
const parallelTests = "-parallel=4"

// test runs every module's tests. The backends are started when they do not run, and stopped again
// then, unless somebody else has come to use them.
func (c *checker) test(ctx context.Context) (err error) {
	if err := c.needForTests(ctx); err != nil {
		return err
	}
	if err := c.needBrowser(ctx); err != nil {
		return err
	}
	if err := c.command(ctx, c.layout.Root, "go", "run", "./scripts/cmd/web").Run(); err != nil {
		return errors.Join(errReported, err)
	}
	release, err := backends.New(c.layout, true, say).Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release(ctx)) }()
	return c.testModules(ctx)
}

// testModules runs the services and what they share in one go test, and the drivers in another. Both
// run even if the first fails, so that one run shows everything.
func (c *checker) testModules(ctx context.Context) error {
	modules, err := c.modules(ctx)
	if err != nil {
		return err
	}
	var packages []string
	for _, m := range modules {
		if m.name != scriptsModule {
			packages = append(packages, "./"+m.name+"/...")
		}
	}
	return errors.Join(
		// The failpoints are in, and armed by the tests that want them.
		c.goTest(ctx, "services and pkg", append([]string{"-race", "-tags=failpoint", "-p=4", parallelTests}, packages...)...),
		c.goTest(ctx, scriptsModule, "-count=1", "./"+scriptsModule+"/..."),
	)
}

// goTest is one go test from the checkout's root. On a CI server nothing is cached, and the order of
// the tests is shuffled.
func (c *checker) goTest(ctx context.Context, what string, args ...string) error {
	args = append([]string{"test", "-timeout=15m"}, args...)
	if os.Getenv("CI") != "" {
		args = append([]string{"test", "-shuffle=on", "-count=1"}, args[1:]...)
	}
	began := time.Now()
	err := c.command(ctx, c.layout.Root, "go", args...).Run()
	say("tests of %s: %.0f s", what, time.Since(began).Seconds())
	if err != nil {
		return errReported
	}
	return nil
}

// needForTests makes sure of what building the tests and the pages takes.
func (c *checker) needForTests(ctx context.Context) error {
	for program, pkg := range map[string]string{"gcc": "build-essential", "npm": "npm"} { // the race detector, the pages
		if _, err := c.apt.Need(ctx, program, pkg); err != nil {
			return err
		}
	}
	return nil
}

// needBrowser makes sure of a Chromium that can show Korean: of the one without windows, which takes
// less processor time, where the distribution has it.
func (c *checker) needBrowser(ctx context.Context) error {
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

// chaos runs the tests under faults in their full form.
func (c *checker) chaos(ctx context.Context, args []string) error {
	flags := []string{"test", "-count=1", "-timeout=60m", "-v", "./" + scriptsModule + "/chaos"}
	switch {
	case len(args) == 1 && args[0] != "":
		flags = append(flags, "-run=^Test"+args[0]+"$")
	case len(args) > 1:
		return errors.New(usage)
	}
	flags = append(flags, "-full")
	if previous := os.Getenv("PREVIOUS"); previous != "" {
		flags = append(flags, "-previous="+previous)
	}
	if err := c.command(ctx, c.layout.Root, "go", flags...).Run(); err != nil {
		return errReported
	}
	return nil
}
