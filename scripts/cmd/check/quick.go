package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"urr.guru/scripts/backends"
)

// quick runs the tests of one service, or of one package of pkg, that start no process and need no
// Kafka. It starts the backends if needed and leaves them running.
func (c *checker) quick(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New(usage)
	}
	dir, err := c.quickFolder(args[0])
	if err != nil {
		return err
	}
	set := backends.New(c.layout, true, say)
	if missing := set.Missing(); len(missing) > 0 {
		say("starting %s; they stay up (make backends-down stops them)", strings.Join(missing, ", "))
		if err := set.StartAndKeep(ctx); err != nil {
			return err
		}
	}
	// After an edit most of the time is spent compiling and linking. `make lint` runs vet, and
	// these test binaries need no debug information.
	cmd := c.command(ctx, c.layout.Root, "go", "test", "-short", "-vet=off", testTags, noDebugInformation, "-timeout=2m",
		parallelTests, "./"+dir+"/...")
	cmd.Env = append(os.Environ(), rareCollection)
	if err := cmd.Run(); err != nil {
		return errReported
	}
	return nil
}

// quickFolder finds a service or a package of pkg by its name, or by the path of its folder.
func (c *checker) quickFolder(name string) (string, error) {
	var known []string
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
				known = append(known, child.Name())
			}
		}
	}
	return "", fmt.Errorf("there is no service and no package of pkg named %q: S= takes one of %s", name, strings.Join(known, ", "))
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
