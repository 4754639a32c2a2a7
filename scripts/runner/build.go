package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"urr.guru/scripts/internal/apt"
	"urr.guru/scripts/internal/programs"
	"urr.guru/scripts/platform"
	"urr.guru/scripts/process"
)

// supervisorProgram is the program in .urr/bin that runs the supervisor, a copy of the command dev.
const supervisorProgram = "dev"

// Build bundles the web pages, and builds every service, the sandbox and this program into
// .urr/bin.
func (r *Runner) Build(ctx context.Context) error {
	if err := r.buildPages(ctx); err != nil {
		return err
	}
	packages := []string{"./scripts/cmd/" + supervisorProgram}
	for _, s := range r.services {
		packages = append(packages, s.Package)
	}
	r.say("building %d programs", len(packages))
	// Without the commit id in the programs, a program changes only if its code changes.
	return programs.Build(ctx, r.layout.Root, r.layout.Shared("bin"), os.Stdout, []string{"-buildvcs=false"}, packages...)
}

func (r *Runner) buildPages(ctx context.Context) error {
	const builder = "scripts/cmd/web"
	if _, err := os.Stat(filepath.Join(r.layout.Root, builder)); err != nil {
		return nil //nolint:nilerr // without pages, the gateway serves an explanation
	}
	installer := apt.Installer{Log: r.layout.LogFile("apt"), Say: r.say}
	if _, err := installer.Ensure(ctx, "npm", "npm"); err != nil {
		return fmt.Errorf("the pages need npm: %w", err)
	}
	r.say("bundling the pages")
	cmd := exec.CommandContext(ctx, "go", "run", "./"+builder)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.layout.Root, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("bundle the pages: %w", err)
	}
	return nil
}

// command runs a service's program with the command name, such as migrate; it returns the output.
func (r *Runner) command(ctx context.Context, s platform.Service, name string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, r.layout.ProgramFile(s.Name), name)
	// The sandbox, by which services may reach DynamoDB, does not run yet.
	cmd.Dir, cmd.Env = r.layout.Root, append(r.env(s), "DYNAMODB_ENDPOINT="+r.layout.DynamoDBEndpoint())
	return cmd.CombinedOutput()
}

// env returns all environment variables of a service. Those that the user has set for the service
// (LOG_LEVEL=debug make up) replace those of the platform.
func (r *Runner) env(s platform.Service) []string {
	return r.ReplicaSpec(s, s.Name, r.layout.Listen(s)).Env
}

// ReplicaSpec describes the process of a replica of a service that listens at the given addresses.
// The supervisor does not know additional replicas, so the caller must stop them.
func (r *Runner) ReplicaSpec(s platform.Service, name string, at platform.ListenAddrs) process.Spec {
	base := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
	return process.Spec{
		Name: name, Path: r.layout.ProgramFile(s.Name), Env: append(base, r.serviceEnv(s, at)...), Dir: r.layout.Root, Log: r.layout.LogFile(name),
	}
}

// serviceEnv returns the environment variables of a service, except PATH and HOME.
func (r *Runner) serviceEnv(s platform.Service, at platform.ListenAddrs) []string {
	env := r.layout.Wiring(r.secrets).Env(s, at)
	ownPrefix := strings.ToUpper(s.Name) + "_"
	prefixes := []string{
		ownPrefix, "LOG_LEVEL=", "OTEL_", "PPROF=", "HOLD_SECONDS=", "SANDBOX_PAGE_TIME=", "DRAIN=", "SHUTDOWN_TIMEOUT=", "GOMAXPROCS=", "GOMEMLIMIT=",
	}
	for _, kv := range os.Environ() {
		if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(kv, prefix) }) {
			env = append(env, kv) // if a variable is there twice, the last value is used
		}
	}
	return env
}

// fingerprint returns a hash of a service's program and settings.
func (r *Runner) fingerprint(s platform.Service) (string, error) {
	f, err := os.Open(r.layout.ProgramFile(s.Name))
	if err != nil {
		return "", fmt.Errorf("read program: %w", err)
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read program: %w", err)
	}
	for _, kv := range r.env(s) {
		_, _ = io.WriteString(h, kv+"\x00")
	}
	return hex.EncodeToString(h.Sum(nil)[:12]), nil
}

// Env prints the environment that `make up` gives a service, as shell commands. With it, you can
// run the service in a debugger, or one of its commands (migrate). The output contains the secrets
// of this checkout, which are valid only here.
func (r *Runner) Env(w io.Writer, name string) error {
	s, err := platform.Lookup(name)
	if err != nil {
		return fmt.Errorf("name a service: make env S=queue: %w", err)
	}
	var failed []error
	for _, kv := range r.serviceEnv(s, r.layout.Listen(s)) {
		name, value, _ := strings.Cut(kv, "=")
		_, err := fmt.Fprintf(w, "export %s=%s\n", name, quoteForShell(value))
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

func quoteForShell(value string) string {
	return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}
