package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"urr.guru/scripts/backends"
	"urr.guru/scripts/internal/interrupt"
)

// stressTests runs the tests of packages many times, each time in another order, while all
// processors are busy. It finds tests that pass only on an idle machine or in a certain order.
func (c *checker) stressTests(ctx context.Context, args []string) (err error) {
	if len(args) != 2 {
		return errors.New(usage)
	}
	runs, err := strconv.Atoi(args[1])
	if err != nil || runs < 1 {
		return fmt.Errorf("how often the tests run, N, is %q: it must be a number from 1 up", args[1])
	}
	if err := c.prepareTests(ctx); err != nil {
		return err
	}
	packages, err := c.testedPackages(ctx, strings.Fields(args[0]))
	if err != nil {
		return err
	}
	if err := os.RemoveAll(c.layout.State("stress")); err != nil {
		return fmt.Errorf("remove the output of the last stress: %w", err)
	}
	release, err := backends.New(c.layout, true, say).Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release(ctx)) }()
	failed, err := c.stressAll(ctx, packages, runs)
	if err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d runs failed: their output is in %s", failed, c.layout.State("stress"))
	}
	return nil
}

// testedPackages returns the folders, relative to the checkout, of the packages that have tests.
func (c *checker) testedPackages(ctx context.Context, patterns []string) (names []string, err error) {
	list := c.quietCommand(ctx, c.layout.Root, "go", append([]string{"list", testTags,
		"-f", `{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}`}, patterns...)...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, interrupt.ErrReported
	}
	for dir := range strings.FieldsSeq(string(out)) {
		name, err := filepath.Rel(c.layout.Root, dir)
		if err != nil {
			return nil, fmt.Errorf("package outside the checkout: %w", err)
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no package of %s has tests", strings.Join(patterns, " "))
	}
	return names, nil
}

// stressAll tests several packages at a time, one more than there are processors. When fewer are
// left, busy loops replace them, so that all processors stay busy.
func (c *checker) stressAll(ctx context.Context, packages []string, runs int) (failed int, err error) {
	waiting := make(chan string, len(packages))
	for _, name := range packages {
		waiting <- name
	}
	close(waiting)
	var failures, ended atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range runtime.NumCPU() + 1 {
		group.Go(func() error {
			for name := range waiting {
				bad, err := c.stressPackage(ctx, name, runs)
				if err != nil {
					return err
				}
				failures.Add(int64(bad))
				ended.Add(1)
			}
			for ctx.Err() == nil && ended.Load() < int64(len(packages)) {
				continue // keeps a processor busy
			}
			return nil
		})
	}
	err = group.Wait()
	return int(failures.Load()), err
}

// stressPackage compiles the tests of a package with the flags of `make test`, runs them `runs`
// times, and returns how many of these runs failed.
func (c *checker) stressPackage(ctx context.Context, name string, runs int) (failed int, err error) {
	path := c.layout.State("stress", strings.ReplaceAll(name, "/", "_"))
	flags := []string{"test", "-c", noDebugInformation, "-o", path + ".test"}
	if !strings.HasPrefix(name, scriptsModule+"/") {
		flags = append(flags, "-race", testTags)
	}
	if err := c.command(ctx, c.layout.Root, "go", append(flags, "./"+name)...).Run(); err != nil {
		return 0, interrupt.ErrReported
	}
	began := time.Now()
	for i := 1; i <= runs; i++ {
		cmd := c.quietCommand(ctx, filepath.Join(c.layout.Root, name), path+".test", "-test.shuffle=on", "-test.timeout=15m")
		cmd.Env = append(os.Environ(), noSleepAtExit)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		runErr := cmd.Run()
		if ctx.Err() != nil {
			return failed, fmt.Errorf("%s was interrupted in run %d: %w", name, i, ctx.Err())
		}
		if runErr == nil {
			continue
		}
		failed++
		log := fmt.Sprintf("%s-%d.log", path, i)
		if err := os.WriteFile(log, out.Bytes(), 0o600); err != nil {
			return failed, fmt.Errorf("keep the output of a failed run: %w", err)
		}
		say("%s: run %d failed: %s", name, i, log)
	}
	say("%-40s %d of %d runs passed, %.1f s each", name, runs-failed, runs, time.Since(began).Seconds()/float64(runs))
	return failed, nil
}
