// Package apt installs missing packages on Debian and Ubuntu. If it cannot, the error says what to
// install by hand.
package apt

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"urr.guru/scripts/process"
)

// Installer installs packages by apt-get, and writes the output of the last run to a log file.
type Installer struct {
	Log string                           // file for apt-get's output
	Say func(format string, args ...any) // called with the package that is being installed

	installing sync.Mutex
}

// Ensure returns the path of a program. If the program is missing, it installs the package pkg.
func (i *Installer) Ensure(ctx context.Context, program, pkg string) (string, error) {
	return i.EnsureFound(ctx, pkg, func() (string, error) {
		path, err := exec.LookPath(program)
		if err != nil {
			return "", fmt.Errorf("there is no %s in PATH", program)
		}
		return path, nil
	})
}

// EnsureFound returns the path that find returns. If find fails, it installs the package pkg and
// calls find again. Concurrent calls install the package only once.
func (i *Installer) EnsureFound(ctx context.Context, pkg string, find func() (string, error)) (string, error) {
	i.installing.Lock()
	defer i.installing.Unlock()
	if path, err := find(); err == nil {
		return path, nil
	}
	if err := i.install(ctx, pkg); err != nil {
		return "", err
	}
	path, err := find()
	if err != nil {
		return "", fmt.Errorf("package %s is installed, but %w", pkg, err)
	}
	return path, nil
}

// Install installs a package. If that fails, it updates the package lists, which may be empty or
// old, and tries once more. It may be called concurrently.
func (i *Installer) Install(ctx context.Context, pkg string) error {
	i.installing.Lock()
	defer i.installing.Unlock()
	return i.install(ctx, pkg)
}

func (i *Installer) install(ctx context.Context, pkg string) error {
	byHand := fmt.Sprintf("install %s by hand and try again", pkg)
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("%s is missing and there is no apt-get: %s", pkg, byHand)
	}
	if os.Geteuid() != 0 {
		if _, err := exec.LookPath("sudo"); err != nil {
			return fmt.Errorf("%s is missing, and installing it needs root or sudo: %s", pkg, byHand)
		}
	}
	i.Say("installing %s by apt", pkg)
	if i.aptGet(ctx, "install", "-y", "-q", "--no-install-recommends", pkg) == nil {
		return nil
	}
	if err := i.aptGet(ctx, "update", "-q"); err != nil {
		return fmt.Errorf("apt-get update failed: %w; %s", err, byHand)
	}
	if err := i.aptGet(ctx, "install", "-y", "-q", "--no-install-recommends", pkg); err != nil {
		return fmt.Errorf("apt-get install %s failed: %w; %s", pkg, err, byHand)
	}
	return nil
}

func (i *Installer) aptGet(ctx context.Context, args ...string) error {
	// RUNLEVEL=1 prevents the package from starting a server: URR starts servers itself, on its own
	// ports.
	command := append([]string{"env", "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1",
		"apt-get", "-o", "Acquire::Retries=3",
		"-o", "DPkg::Lock::Timeout=300"}, args...) // a new machine may be installing updates
	if os.Geteuid() != 0 {
		command = append([]string{"sudo"}, command...)
	}
	return RunLogged(exec.CommandContext(ctx, command[0], command[1:]...), i.Log)
}

// RunLogged runs a command and writes its output to the file log. Its error has the last lines.
func RunLogged(cmd *exec.Cmd, log string) error {
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		return fmt.Errorf("make log folder: %w", err)
	}
	out, err := os.Create(log)
	if err != nil {
		return fmt.Errorf("make log: %w", err)
	}
	defer func() { _ = out.Close() }()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w; %s", err, process.LogEnd(log))
	}
	return nil
}
