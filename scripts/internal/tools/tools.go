// Package tools builds the checkout's development tools in pinned versions, so that all developers
// use the same versions and need not install any.
package tools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"time"

	"urr.guru/scripts/platform"
)

// Paths, relative to the checkout, of modules whose `tool` directives pin the versions of tools.
// Tools for Kubernetes, images and payment providers are in modules of their own, since they need
// other versions of shared dependencies.
const (
	General    = "scripts/tools"
	Kubernetes = "scripts/tools/helm"
	Images     = "scripts/tools/ko"
	Providers  = "scripts/tools/stripe"
)

// Build builds those programs of a tools module that are not yet in .urr/bin/tools-<version>, and
// returns that folder. The version is a hash of the module, so that tools of other branches are
// kept in other folders. The compiler's output is shown to the user.
func Build(ctx context.Context, layout platform.Layout, pins string, say func(format string, args ...any), names ...string) (string, error) {
	pins = filepath.Join(layout.Root, pins)
	dir, err := toolsFolder(layout, pins)
	if err != nil {
		return "", err
	}
	packages, err := listTools(ctx, pins)
	if err != nil {
		return "", err
	}
	var missing []string
	for _, name := range names {
		i := slices.IndexFunc(packages, func(p string) bool { return path.Base(p) == name })
		if i < 0 {
			return "", fmt.Errorf("%s does not pin %s", pins, name)
		}
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			missing = append(missing, packages[i])
		}
	}
	if len(missing) == 0 {
		return dir, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make %s: %w", dir, err)
	}
	// The tools are built one by one to show the progress, since compiling all of them takes minutes.
	for i, pkg := range missing {
		say("building %s, %d of %d tools that are missing (the first time takes minutes)", path.Base(pkg), i+1, len(missing))
		began := time.Now()
		cmd := exec.CommandContext(ctx, "go", "build", "-o", dir+"/", pkg)
		cmd.Dir, cmd.Stdout, cmd.Stderr = pins, os.Stdout, os.Stderr
		cmd.Env = append(os.Environ(), "GOWORK=off")
		if err := cmd.Run(); err != nil {
			return "", fmt.Errorf("build %s: %w", path.Base(pkg), err)
		}
		say("built %s in %.0f s", path.Base(pkg), time.Since(began).Seconds())
	}
	return dir, nil
}

func toolsFolder(layout platform.Layout, pins string) (string, error) {
	h := sha256.New()
	for _, file := range []string{"go.mod", "go.sum"} {
		raw, err := os.ReadFile(filepath.Join(pins, file))
		if err != nil {
			return "", fmt.Errorf("read the pinned tools: %w", err)
		}
		h.Write(raw)
	}
	return layout.Shared("bin", "tools-"+hex.EncodeToString(h.Sum(nil)[:4])), nil
}

// listTools returns the packages in the `tool` directives of a module.
func listTools(ctx context.Context, pins string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "edit", "-json")
	cmd.Dir = pins
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("read the pinned tools: %w", err)
	}
	var mod struct {
		Tool []struct{ Path string }
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		return nil, fmt.Errorf("read the pinned tools: %w", err)
	}
	var packages []string
	for _, t := range mod.Tool {
		packages = append(packages, t.Path)
	}
	return packages, nil
}
