package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"

	"urr.guru/scripts/backends"
)

// test runs every module's tests. The backends are started when they do not run, and stopped again
// then, unless somebody else has come to use them.
func (c *checker) test(ctx context.Context) (err error) {
	for program, pkg := range map[string]string{"gcc": "build-essential", "npm": "npm"} { // the race detector, the pages
		if _, err := c.apt.Need(ctx, program, pkg); err != nil {
			return err
		}
	}
	if err := c.needBrowser(ctx); err != nil {
		return err
	}
	if err := c.show(ctx, c.layout.Root, "go", "run", "./scripts/cmd/web").Run(); err != nil {
		return errors.Join(errSaid, err)
	}
	giveBack, err := backends.New(c.layout, true, say).Lend(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, giveBack(ctx)) }()
	return c.testModules(ctx)
}

func (c *checker) testModules(ctx context.Context) error {
	modules, err := c.modules(ctx)
	if err != nil {
		return err
	}
	var failed error
	for _, m := range modules {
		// The failpoints are in, and armed by the tests that want them.
		args := []string{"test", "-race", "-shuffle=on", "-tags=failpoint", "-timeout=20m"}
		if m.name == "scripts" {
			// Whole platforms with backends of their own: one at a time, and the short form.
			args = append(args, "-p=1", "-short")
		}
		if err := c.show(ctx, m.dir, "go", append(args, "./...")...).Run(); err != nil {
			failed = errSaid
		}
	}
	return failed
}

// needBrowser makes sure of a Chromium that can show Korean.
func (c *checker) needBrowser(ctx context.Context) error {
	if _, err := exec.LookPath("chromium"); err == nil {
		return nil
	}
	for _, pkg := range []string{"chromium", "fonts-noto-cjk"} {
		if err := c.apt.Install(ctx, pkg); err != nil {
			return fmt.Errorf("the pages are tested in Chromium: %w", err)
		}
	}
	return nil
}
