// Package programs builds the checkout's programs. Several processes may use it at the same time.
package programs

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Build builds one program per package into the folder dir, with the name of the package's folder.
// It builds into a temporary folder and renames the programs, since one that runs cannot be
// overwritten. That folder first gets hard links to the existing programs, so that the compiler
// skips current ones: linking takes most of the time. args are flags of go build (-tags=failpoint).
// The compiler's output goes to out.
func Build(ctx context.Context, root, dir string, out io.Writer, args []string, packages ...string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	tmp, err := os.MkdirTemp(dir, ".new-")
	if err != nil {
		return fmt.Errorf("make a folder to build in: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := sweep(dir); err != nil {
		return err
	}
	for _, pkg := range packages {
		name := filepath.Base(pkg)
		_ = os.Link(filepath.Join(dir, name), filepath.Join(tmp, name)) // without the link, the program is built again
	}
	args = append([]string{"build", "-o", tmp + "/"}, args...)
	cmd := exec.CommandContext(ctx, "go", append(args, packages...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, out, out
	// When ctx ends, the compiler is interrupted, not killed, so that it removes its temporary files.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build: %w", err)
	}
	for _, pkg := range packages {
		name := filepath.Base(pkg)
		if err := os.Rename(filepath.Join(tmp, name), filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("put %s in place: %w", name, err)
		}
	}
	return nil
}

// sweep removes the temporary folders of killed builds from dir.
func sweep(dir string) error {
	const maxBuildTime = time.Hour // the longest time of a build that still runs
	leftovers, err := filepath.Glob(filepath.Join(dir, ".new-*"))
	if err != nil {
		return fmt.Errorf("look for leftovers: %w", err)
	}
	for _, path := range leftovers {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > maxBuildTime {
			if err := os.RemoveAll(path); err != nil {
				return fmt.Errorf("remove a leftover: %w", err)
			}
		}
	}
	return nil
}
