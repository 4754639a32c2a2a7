// Package images builds the container images by ko: one per service and one for the simulated visitors. Each is a static program on a
// base that holds certificates and a user who is not root, and nothing else. Neither Docker nor a registry is asked.
package images

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"urr.guru/scripts/internal/apt"
	"urr.guru/scripts/internal/tools"
	"urr.guru/scripts/platform"
)

// Registry is the name that the images get until somebody pushes them elsewhere; the charts' values say the same.
const Registry = "urr.local"

// crowd is the program that `helm test` runs.
const crowd = "./scripts/cmd/crowd"

// Builder builds the images of a checkout.
type Builder struct {
	Layout platform.Layout
	Say    func(format string, args ...any)
}

// Archive is the file that Build leaves: all images, in the form of docker save, which containerd, kind and Docker read.
func (b Builder) Archive() string { return b.Layout.Shared("images", "urr.tar") }

// Build makes every image as <Registry>/<name>:<tag>, the service's bill of materials (SPDX) in .urr/images/sbom, and returns the
// archive.
func (b Builder) Build(ctx context.Context, tag string) (string, error) {
	if _, err := os.Stat(certificates); err != nil {
		installer := apt.Installer{Log: b.Layout.Log("apt"), Say: b.Say}
		if err := installer.Install(ctx, "ca-certificates"); err != nil {
			return "", err
		}
	}
	bin, err := tools.Build(ctx, b.Layout, tools.Images, b.Say, "ko")
	if err != nil {
		return "", err
	}
	b.Say("bundling the pages")
	if err := b.command(ctx, "go", "run", "./scripts/cmd/web").Run(); err != nil {
		return "", fmt.Errorf("bundle the pages: %w", err)
	}
	// ko takes a base that is named by its digest from here before it asks any registry.
	cache := b.Layout.Shared("images", "cache")
	digest, err := writeBase(filepath.Join(cache, "img"))
	if err != nil {
		return "", err
	}
	args := []string{
		"build", "--push=false", "--tarball=" + b.Archive(), "--base-import-paths", "--tags=" + tag,
		"--platform=linux/" + runtime.GOARCH, "--ldflags=-s,-w", "--image-user=" + nonRoot,
		"--sbom=spdx", "--sbom-dir=" + b.Layout.Shared("images", "sbom"),
	}
	packages := []string{crowd}
	for _, s := range platform.Services() {
		packages = append(packages, s.Package)
	}
	b.Say("building %d images", len(packages))
	cmd := b.command(ctx, filepath.Join(bin, "ko"), append(args, packages...)...)
	cmd.Env = append(os.Environ(),
		"KO_DOCKER_REPO="+Registry, "KO_DEFAULTBASEIMAGE="+Registry+"/base@"+digest, "KOCACHE="+cache, "CGO_ENABLED=0")
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("ko: %w", err)
	}
	return b.Archive(), nil
}

// command runs in the checkout; its output is the user's.
func (b Builder) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.Layout.Root, os.Stdout, os.Stderr
	return cmd
}
