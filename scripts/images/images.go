// Package images builds the container images with ko: one per service and one for the simulated
// visitors. Each contains a static program on a base with CA certificates and a non-root user. The
// build needs neither Docker nor a registry.
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

// Registry is the default registry of the images, the same as in the charts' values.
const Registry = "urr.local"

// crowd is the program that `helm test` runs.
const crowd = "./scripts/cmd/crowd"

// Builder builds the images of a checkout.
type Builder struct {
	Layout platform.Layout
	Say    func(format string, args ...any)
}

// Archive is the file that Build writes: all images in the format of docker save, which containerd,
// kind and Docker can load.
func (b Builder) Archive() string { return b.Layout.Shared("images", "urr.tar") }

// Build creates each image as <Registry>/<name>:<tag>, writes the services' bills of materials
// (SPDX) to .urr/images/sbom, and returns the path of the archive. The programs report the tag as
// their version.
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
	// ko finds a base that is named by its digest here before it contacts a registry.
	cache := b.Layout.Shared("images", "cache")
	digest, err := writeBase(filepath.Join(cache, "img"))
	if err != nil {
		return "", err
	}
	args := []string{
		"build", "--push=false", "--tarball=" + b.Archive(), "--base-import-paths", "--tags=" + tag,
		"--platform=linux/" + runtime.GOARCH, "--ldflags=-s,-w,-X=urr.guru/pkg/telemetry.release=" + tag, "--image-user=" + nonRoot,
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

// command prepares a command in the checkout that writes to the user's output.
func (b Builder) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.Layout.Root, os.Stdout, os.Stderr
	return cmd
}
