// Package web builds the gateway's pages.
package web

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"urr.guru/scripts/platform"
)

// Build installs the packages if needed, checks the types, bundles the pages of the checkout, and
// writes the result, compressed, to the folder that the gateway embeds.
func Build(ctx context.Context, layout platform.Layout) error {
	start := time.Now()
	web := filepath.Join(layout.Root, "services/gateway/web")
	dist := filepath.Join(layout.Root, "services/gateway/internal/web/dist")
	if err := install(ctx, web); err != nil {
		return err
	}
	if err := npm(ctx, web, "run", "--silent", "check"); err != nil {
		return fmt.Errorf("check the types: %w", err)
	}
	b, err := bundle(web)
	if err != nil {
		return err
	}
	if err := b.write(dist, layout.Shared("web", "maps")); err != nil {
		return err
	}
	fmt.Printf("pages: %d files, %d KiB (%d KiB by brotli) in %v\n",
		len(b.files), b.size()>>10, b.packed>>10, time.Since(start).Round(10*time.Millisecond))
	return nil
}

// install runs `npm ci` unless node_modules is at least as new as the lock file.
func install(ctx context.Context, web string) error {
	lock, err := os.Stat(filepath.Join(web, "package-lock.json"))
	if err != nil {
		return fmt.Errorf("read the lock file: %w", err)
	}
	// npm writes this file last, so an interrupted install is repeated.
	done, err := os.Stat(filepath.Join(web, "node_modules/.package-lock.json"))
	switch {
	case err == nil && !done.ModTime().Before(lock.ModTime()):
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read the installed packages: %w", err)
	}
	fmt.Println("pages: installing packages")
	if err := npm(ctx, web, "ci", "--no-progress"); err != nil {
		return fmt.Errorf("install packages: %w", err)
	}
	return nil
}

func npm(ctx context.Context, dir string, args ...string) error {
	if _, err := exec.LookPath("npm"); err != nil {
		return errors.New("npm is missing: apt-get install nodejs npm")
	}
	cmd := exec.CommandContext(ctx, "npm", args...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}
