package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"urr.guru/scripts/internal/fetch"
	"urr.guru/scripts/internal/programs"
	"urr.guru/scripts/platform"
)

// OldVersion is the version that the programs of Options.Upgrade report in urr_build_info.
const OldVersion = "old"

// oldVersionFlags are the flags of go build that set OldVersion.
var oldVersionFlags = []string{"-buildvcs=false", "-ldflags=-X=urr.guru/pkg/telemetry.release=" + OldVersion}

// Release describes the older programs and settings from which a run upgrades.
type Release struct {
	// Commit is the commit from which the programs are built; empty: this checkout.
	Commit string
	// Services run the older programs; empty: all services but the sandbox, which is in no release.
	Services []string
	// Env has NAME=value pairs for all services while they run the older programs.
	Env []string
}

// startsOld reports whether a service runs the older program of Options.Upgrade first.
func (p *Platform) startsOld(s platform.Service) bool {
	old := p.opts.Upgrade
	return old != nil && s.Name != platform.Sandbox && (len(old.Services) == 0 || slices.Contains(old.Services, s.Name))
}

// buildOld builds the older programs that Options.Upgrade describes.
func (p *Platform) buildOld(ctx context.Context, wanted []platform.Service) (err error) {
	wanted = slices.DeleteFunc(slices.Clone(wanted), func(s platform.Service) bool { return !p.startsOld(s) })
	if p.opts.Upgrade.Commit != "" {
		p.oldPrograms, err = p.testRun.buildCommit(ctx, p.opts.Upgrade.Commit, wanted)
		return err
	}
	current := p.variant()
	old := variant{folder: current.folder + "-" + OldVersion, flags: slices.Concat(current.flags, oldVersionFlags)}
	p.oldPrograms = p.testRun.checkout.Shared("bin", old.folder)
	return p.testRun.build(ctx, old, wanted)
}

// buildCommit builds the services of another commit, once per process, from a copy of its files.
func (w *testRun) buildCommit(ctx context.Context, revision string, services []platform.Service) (bin string, err error) {
	revParse := exec.CommandContext(ctx, "git", "rev-parse", "--verify", "--quiet", revision+"^{commit}")
	revParse.Dir = w.checkout.Root
	out, err := revParse.Output()
	if err != nil {
		return "", fmt.Errorf("%s names no commit of this clone: fetch its whole history, or name another", revision)
	}
	commit := strings.TrimSpace(string(out))
	files, bin := w.checkout.Shared("releases", commit, "files"), w.checkout.Shared("releases", commit, "bin")
	if _, err := os.Stat(files); err != nil {
		if err := w.unpack(ctx, commit, files); err != nil {
			return "", err
		}
	}
	var packages []string
	for _, s := range services {
		if _, err := os.Stat(filepath.Join(files, s.Package)); err == nil { // otherwise the commit does not have this service
			packages = append(packages, s.Package)
		}
	}
	var log strings.Builder
	if err := programs.Build(ctx, files, bin, &log, oldVersionFlags, packages...); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", revision, err, log.String())
	}
	return bin, nil
}

// unpack copies the files of a commit into the folder dir atomically.
func (w *testRun) unpack(ctx context.Context, commit, dir string) error {
	const script = `rm -rf "$2.new"; mkdir -p "$2.new"; git archive "$1" | tar -x -C "$2.new"; mv "$2.new" "$2"`
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script, "bash", commit, dir)
	cmd.Dir = w.checkout.Root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("unpack %s: %w\n%s", commit, err, out)
	}
	return nil
}

// Migrate updates tables, topics and queues for this checkout's programs, as the Helm charts do
// before they replace pods.
func (p *Platform) Migrate() {
	p.tb.Helper()
	for _, s := range platform.Services() {
		svc := p.services[s.Name]
		if svc == nil || !s.Migrates {
			continue
		}
		if err := p.workspace.migrate(p.tb.Context(), s, p.program(s, false), p.replicaEnv(svc, 0)); err != nil {
			p.tb.Fatal("harness: ", err)
		}
	}
}

// Replace stops a replica as a deployment does, and starts it with this checkout's program and
// settings or, if old is true, with those of Options.Upgrade.
func (s *Service) Replace(i int, old bool) {
	s.p.tb.Helper()
	s.Stop(i)
	s.mu.Lock()
	s.replicas[i].old = old
	s.mu.Unlock()
	s.Start(i)
}

// Version returns the version that a replica reports in its metrics.
func (s *Service) Version(ctx context.Context, i int) (string, error) {
	const prefix, suffix = `urr_build_info{version="`, `"}`
	body, err := fetch.Get(ctx, "http://"+s.Ops(i)+"/metrics")
	if err != nil {
		return "", err
	}
	_, rest, found := strings.Cut(string(body), prefix)
	version, _, ended := strings.Cut(rest, suffix)
	if !found || !ended {
		return "", fmt.Errorf("%s does not report its version", s.name(i))
	}
	return version, nil
}

// program returns the path of a service's program: if old is true, that of Options.Upgrade, if any.
func (p *Platform) program(s platform.Service, old bool) string {
	path := filepath.Join(p.oldPrograms, filepath.Base(s.Package))
	if _, err := os.Stat(path); old && err == nil {
		return path
	}
	return p.testRun.program(p.variant(), s)
}
