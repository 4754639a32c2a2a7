// Package programs builds the checkout's programs, as often as somebody likes and by several at once.
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

// Build puts one program per package, named after its folder, into dir. They are built aside and renamed, since a program that runs cannot
// be written to; those that are there already are linked to where the compiler looks, which leaves alone what is up to date: linking is
// most of the work. Arguments are go build's (-tags=failpoint); what the compiler says goes to out.
func Build(ctx context.Context, root, dir string, out io.Writer, args []string, packages ...string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	aside, err := os.MkdirTemp(dir, ".new-")
	if err != nil {
		return fmt.Errorf("make a folder to build in: %w", err)
	}
	defer func() { _ = os.RemoveAll(aside) }()
	if err := sweep(dir); err != nil {
		return err
	}
	for _, pkg := range packages {
		name := filepath.Base(pkg)
		_ = os.Link(filepath.Join(dir, name), filepath.Join(aside, name)) // where it cannot be, it is built anew
	}
	args = append([]string{"build", "-o", aside + "/"}, args...)
	cmd := exec.CommandContext(ctx, "go", append(args, packages...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, out, out
	// Asked, not killed: the compiler takes its temporary files away.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build: %w", err)
	}
	for _, pkg := range packages {
		name := filepath.Base(pkg)
		if err := os.Rename(filepath.Join(aside, name), filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("put %s in place: %w", name, err)
		}
	}
	return nil
}

// sweep removes what builds that were killed have left.
func sweep(dir string) error {
	const longest = time.Hour // of a build that still runs
	left, err := filepath.Glob(filepath.Join(dir, ".new-*"))
	if err != nil {
		return fmt.Errorf("look for leftovers: %w", err)
	}
	for _, path := range left {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > longest {
			if err := os.RemoveAll(path); err != nil {
				return fmt.Errorf("remove a leftover: %w", err)
			}
		}
	}
	return nil
}
