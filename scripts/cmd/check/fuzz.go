package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// fuzzTest is a Go fuzz test. `make test` runs it on its saved inputs only, not on generated ones.
type fuzzTest struct {
	name string
	dir  string // the folder of its package, relative to the checkout
}

var fuzzName = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(f `)

// fuzzTests returns the fuzz tests of the services and of pkg under the folder root.
func fuzzTests(root string) (found []fuzzTest, err error) {
	for _, parent := range []string{"pkg", "services"} {
		err := filepath.WalkDir(filepath.Join(root, parent), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Name() == "node_modules" {
				return fs.SkipDir
			}
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			dir, err := filepath.Rel(root, filepath.Dir(path))
			for _, m := range fuzzName.FindAllSubmatch(text, -1) {
				found = append(found, fuzzTest{name: string(m[1]), dir: dir})
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("find the fuzz tests: %w", err)
		}
	}
	return found, nil
}

// runFuzzTests runs all fuzz tests, or the one with the given name, on generated inputs for a given
// time each. It saves an input that fails, so that `make test` repeats it.
func (c *checker) runFuzzTests(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New(usage)
	}
	wanted := strings.TrimPrefix(args[0], "Fuzz")
	each, err := time.ParseDuration(args[1])
	if err != nil || each <= 0 {
		return fmt.Errorf("how long each test runs, T, is %q: it must be a duration as 10s", args[1])
	}
	all, err := fuzzTests(c.layout.Root)
	if err != nil {
		return err
	}
	var names, failed []string
	ran := false
	for _, f := range all {
		names = append(names, strings.TrimPrefix(f.name, "Fuzz"))
		if wanted != "" && "Fuzz"+wanted != f.name {
			continue
		}
		ran = true
		say("%s of %s:", f.name, f.dir)
		// go test would read "10x" as ten inputs, but a time.Duration is always printed as a time.
		err := c.command(ctx, c.layout.Root, "go", "test", "-run=^$", "-fuzz=^"+f.name+"$", "-fuzztime="+each.String(), "./"+f.dir).Run()
		if ctx.Err() != nil {
			return fmt.Errorf("%s was interrupted: %w", f.name, ctx.Err())
		}
		if err != nil {
			failed = append(failed, fmt.Sprintf("%s: the input is in %s/testdata/fuzz/%[1]s", f.name, f.dir))
		}
	}
	switch {
	case !ran:
		return fmt.Errorf("there is no fuzz test %q; there are: %s", wanted, strings.Join(names, ", "))
	case len(failed) > 0:
		return errors.New(strings.Join(failed, "\n"))
	}
	return nil
}
