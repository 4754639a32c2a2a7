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
	"time"

	"urr.guru/scripts/backends"
)

// stress runs the tests of packages many times, each time in a different order, while one busy loop
// per processor uses half of it. It finds tests that pass only on an idle machine or in one order.
func (c *checker) stress(ctx context.Context, args []string) (err error) {
	if len(args) != 2 {
		return errors.New(usage)
	}
	runs, err := strconv.Atoi(args[1])
	if err != nil || runs < 1 {
		return fmt.Errorf("how often the tests run, N, is %q: it must be a number from 1 up", args[1])
	}
	if err := c.needForTests(ctx); err != nil {
		return err
	}
	release, err := backends.New(c.layout, true, say).Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release(ctx)) }()
	binaries, err := c.testBinaries(ctx, args[0])
	if err != nil {
		return err
	}
	stopLoad := loadProcessors(ctx)
	defer stopLoad()
	failed := 0
	for _, b := range binaries {
		bad, err := c.stressOne(ctx, b, runs)
		if err != nil {
			return err
		}
		failed += bad
	}
	if failed > 0 {
		return fmt.Errorf("%d runs failed: their output is in %s", failed, c.layout.State("stress"))
	}
	return nil
}

// testBinary is the compiled tests of a package.
type testBinary struct {
	name string // the package's folder, relative to the checkout
	dir  string
	path string
}

// testBinaries compiles the tests of the packages that have any, with the flags of `make test`.
func (c *checker) testBinaries(ctx context.Context, pattern string) ([]testBinary, error) {
	list := c.quietCommand(ctx, c.layout.Root, "go", "list", testTags,
		"-f", `{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}`, pattern)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, errReported
	}
	if err := os.RemoveAll(c.layout.State("stress")); err != nil {
		return nil, fmt.Errorf("remove the output of the last stress: %w", err)
	}
	var binaries []testBinary
	for dir := range strings.FieldsSeq(string(out)) {
		name, err := filepath.Rel(c.layout.Root, dir)
		if err != nil {
			return nil, fmt.Errorf("package outside the checkout: %w", err)
		}
		b := testBinary{name: name, dir: dir, path: c.layout.State("stress", strings.ReplaceAll(name, "/", "_")+".test")}
		flags := []string{"test", "-c", "-o", b.path}
		if !strings.HasPrefix(name, scriptsModule+"/") {
			flags = append(flags, "-race", testTags)
		}
		if err := c.command(ctx, c.layout.Root, "go", append(flags, "./"+name)...).Run(); err != nil {
			return nil, errReported
		}
		binaries = append(binaries, b)
	}
	if len(binaries) == 0 {
		return nil, fmt.Errorf("no package of %s has tests", pattern)
	}
	return binaries, nil
}

// stressOne runs one package's tests and counts the failed runs.
func (c *checker) stressOne(ctx context.Context, b testBinary, runs int) (failed int, err error) {
	began := time.Now()
	for i := 1; i <= runs; i++ {
		cmd := c.quietCommand(ctx, b.dir, b.path, "-test.shuffle=on", "-test.timeout=15m")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		runErr := cmd.Run()
		if ctx.Err() != nil {
			return failed, fmt.Errorf("%s was interrupted in run %d: %w", b.name, i, ctx.Err())
		}
		if runErr == nil {
			continue
		}
		failed++
		log := strings.TrimSuffix(b.path, ".test") + "-" + strconv.Itoa(i) + ".log"
		if err := os.WriteFile(log, out.Bytes(), 0o600); err != nil {
			return failed, fmt.Errorf("keep the output of a failed run: %w", err)
		}
		say("%s: run %d failed: %s", b.name, i, log)
	}
	say("%-40s %d of %d runs passed, %.1f s each", b.name, runs-failed, runs, time.Since(began).Seconds()/float64(runs))
	return failed, nil
}

// loadProcessors keeps every processor busy until the returned function is called.
func loadProcessors(ctx context.Context) (stopLoad func()) {
	ctx, cancel := context.WithCancel(ctx)
	for range runtime.NumCPU() {
		go func() {
			for ctx.Err() == nil {
				continue // busy loop
			}
		}()
	}
	return cancel
}
