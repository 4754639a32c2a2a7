package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"urr.guru/scripts/internal/programs"
	"urr.guru/scripts/platform"
)

// buildRelease builds the services of another commit once, from a copy of its files.
func (w *testRun) buildRelease(ctx context.Context, revision string, services []platform.Service) (bin string, err error) {
	commit, err := w.git(ctx, "rev-parse", "--verify", "--quiet", revision+"^{commit}")
	if err != nil {
		return "", fmt.Errorf("%s names no commit of this clone: fetch its whole history, or name another", revision)
	}
	files, bin := w.checkout.Shared("releases", commit, "files"), w.checkout.Shared("releases", commit, "bin")
	if _, err := os.Stat(files); err != nil {
		if err := w.unpack(ctx, commit, files); err != nil {
			return "", err
		}
	}
	var packages []string
	for _, s := range services {
		packages = append(packages, s.Package)
	}
	var out strings.Builder
	if err := programs.Build(ctx, files, bin, &out, []string{"-buildvcs=false"}, packages...); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", revision, err, out.String())
	}
	return bin, nil
}

// unpack writes the files of a commit to dir atomically.
func (w *testRun) unpack(ctx context.Context, commit, dir string) (err error) {
	aside := dir + ".new"
	if err := errors.Join(os.RemoveAll(aside), os.MkdirAll(aside, 0o755)); err != nil {
		return fmt.Errorf("make a folder for %s: %w", commit, err)
	}
	archive := filepath.Join(filepath.Dir(dir), "files.tar")
	if _, err := w.git(ctx, "archive", "--output="+archive, commit); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(archive)) }()
	if out, err := exec.CommandContext(ctx, "tar", "-xf", archive, "-C", aside).CombinedOutput(); err != nil {
		return fmt.Errorf("unpack %s: %w\n%s", commit, err, out)
	}
	return os.Rename(aside, dir)
}

func (w *testRun) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = w.checkout.Root
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Migrate updates tables, topics and queues for this checkout's programs, as the charts do before
// they replace a pod.
func (p *Platform) Migrate() {
	p.tb.Helper()
	for _, s := range platform.Services() {
		svc := p.services[s.Name]
		if svc == nil || !s.Migrates {
			continue
		}
		if err := p.workspace.migrate(p.tb.Context(), s, p.testRun.program(p.variant(), s), p.env(svc, 0)); err != nil {
			p.tb.Fatal("harness: ", err)
		}
	}
}

// Replace stops a replica as a deployment does and restarts it with the program of this checkout
// (previous is false) or of Options.Previous.
func (s *Service) Replace(i int, previous bool) {
	s.p.tb.Helper()
	s.Stop(i)
	s.mu.Lock()
	s.replicas[i].previous = previous
	s.mu.Unlock()
	s.Start(i)
}

// program is a service's program: of this checkout or of the previous release.
func (p *Platform) program(s platform.Service, previous bool) string {
	if previous {
		return filepath.Join(p.previous, filepath.Base(s.Package))
	}
	return p.testRun.program(p.variant(), s)
}
