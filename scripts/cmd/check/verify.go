package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"urr.guru/proto/access"
	"urr.guru/scripts/bench"
	"urr.guru/scripts/bench/figures"
	"urr.guru/scripts/internal/derived"
	"urr.guru/scripts/internal/interrupt"
	"urr.guru/scripts/internal/releases"
	"urr.guru/scripts/internal/size"
	"urr.guru/scripts/platform"
)

// verify checks that generated files are current, that each module builds without the workspace,
// that the interfaces are compatible with the newest release, and that the size of the code is
// within its limits.
func (c *checker) verify(ctx context.Context) error {
	steps := []struct {
		name string
		run  func(context.Context) error
	}{
		{"generated code", c.verifyGenerated},
		{"go.mod", c.verifyTidy},
		{"modules alone", c.verifyAlone},
		{"interfaces", c.verifyBreaking},
		{"size", c.verifySize},
	}
	var failed []string
	for _, step := range steps {
		say("verify: %s", step.name)
		if err := step.run(ctx); err != nil {
			if !errors.Is(err, interrupt.ErrReported) {
				fmt.Fprintf(os.Stderr, "%s: %v\n", step.name, err)
			}
			failed = append(failed, step.name)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("not verified: %s", strings.Join(failed, ", "))
	}
	return nil
}

// generateProto regenerates the Go code and the API description in proto/gen from the .proto files.
func (c *checker) generateProto(ctx context.Context) error {
	dir, err := c.buildTools(ctx, "buf", "protoc-gen-go", "protoc-gen-go-grpc", "protoc-gen-grpc-gateway", "protoc-gen-openapiv2")
	if err != nil {
		return err
	}
	return c.command(ctx, filepath.Join(c.layout.Root, "proto"), "./generate.sh", dir).Run()
}

// generateSQLC regenerates the db package beside every sqlc.yaml.
func (c *checker) generateSQLC(ctx context.Context) error {
	dir, err := c.buildTools(ctx, "sqlc")
	if err != nil {
		return err
	}
	configs, err := filepath.Glob(filepath.Join(c.layout.Root, "services", "*", "internal", "postgres", "sqlc.yaml"))
	if err != nil {
		return fmt.Errorf("find sqlc.yaml: %w", err)
	}
	for _, config := range configs {
		if err := c.command(ctx, filepath.Dir(config), filepath.Join(dir, "sqlc"), "generate").Run(); err != nil {
			return fmt.Errorf("sqlc generate in %s: %w", filepath.Dir(config), err)
		}
	}
	return nil
}

// verifyGenerated checks that generating all files again changes nothing. It compares the working
// tree before and after, so that uncommitted changes can be verified too.
func (c *checker) verifyGenerated(ctx context.Context) error {
	before, err := c.treeID(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(c.generateProto(ctx), c.generateSQLC(ctx), c.generateSettings(ctx), c.generateFigures(ctx)); err != nil {
		return err
	}
	after, err := c.treeID(ctx)
	if err != nil {
		return err
	}
	if before != after {
		_ = c.command(ctx, c.layout.Root, "git", "--no-pager", "diff", "--stat", before, after).Run()
		return errors.New("generating changes files: run make proto settings figures, commit the result")
	}
	return nil
}

// treeID returns the id that git would give to a tree object with the content of the working tree.
func (c *checker) treeID(ctx context.Context) (string, error) {
	dir, err := os.MkdirTemp("", "urr-tree-")
	if err != nil {
		return "", fmt.Errorf("make a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cmd := c.quietCommand(ctx, c.layout.Root, "bash", "-ec", "git read-tree HEAD; git add -A; git write-tree")
	cmd.Env = append(os.Environ(), "GIT_INDEX_FILE="+filepath.Join(dir, "index")) // another index, so that the user's index does not change
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("look at the tree: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

func (c *checker) verifyTidy(ctx context.Context) error {
	return c.eachModule(ctx, "go", "mod", "tidy", "-diff")
}

// verifyAlone builds each module without the workspace, to find requirements that are missing from
// a go.mod: inside the workspace, they would not be noticed.
func (c *checker) verifyAlone(ctx context.Context) error {
	modules, err := c.modules(ctx)
	if err != nil {
		return err
	}
	var failed error
	for _, m := range modules {
		for _, verb := range []string{"build", "vet"} {
			cmd := c.command(ctx, m.dir, "go", verb, "./...")
			cmd.Env = append(os.Environ(), "GOWORK=off")
			if err := cmd.Run(); err != nil {
				fmt.Fprintf(os.Stderr, "%s: GOWORK=off go %s ./...: %v\n", m.name, verb, err)
				failed = interrupt.ErrReported
			}
		}
	}
	return failed
}

// verifyBreaking checks that the .proto files are compatible with those of the newest release.
func (c *checker) verifyBreaking(ctx context.Context) error {
	base, err := releases.Of(ctx, c.layout.Root)
	if err != nil {
		return err
	}
	if base == "" {
		say("nothing is released (no tag such as v0.1.0): interfaces may change freely")
		return nil
	}
	dir, err := c.buildTools(ctx, "buf")
	if err != nil {
		return err
	}
	old, err := os.MkdirTemp("", "urr-proto-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(old) }()
	// Third-party files are not in git, so both versions import those of the working tree.
	script := `git archive "$1" proto | tar -x -C "$2" && cp -r proto/third_party "$2/proto/"`
	if _, err := os.Stat(filepath.Join(c.layout.Root, "proto", "third_party")); errors.Is(err, fs.ErrNotExist) {
		return errors.New("proto/third_party is missing: run make proto")
	}
	if err := c.command(ctx, c.layout.Root, "bash", "-c", script, "bash", string(base), old).Run(); err != nil {
		return fmt.Errorf("read the interfaces of %s: %w", base, err)
	}
	against := filepath.Join(old, "proto")
	if err := c.command(ctx, filepath.Join(c.layout.Root, "proto"), filepath.Join(dir, "buf"), "breaking", "--against", against).Run(); err != nil {
		return fmt.Errorf("the interfaces break clients of %s: %w", base, err)
	}
	return nil
}

// verifySize prints the size of hand-written files, and fails if it exceeds a limit.
func (c *checker) verifySize(ctx context.Context) error {
	figures, err := size.Figures(ctx, c.layout.Root, len(bench.Rows()))
	if err != nil {
		return err
	}
	for _, f := range figures {
		say("%s", f)
		if !f.WithinLimit() {
			err = errors.Join(err, errors.New("the limit is broken: "+f.Name))
		}
	}
	return err
}

// generateSettings regenerates the files that are derived from the services' Config structs, the
// RPCs' access options and the list of services.
func (c *checker) generateSettings(ctx context.Context) error {
	services := slices.DeleteFunc(platform.Names(), func(name string) bool { return name == platform.Sandbox })
	return derived.Write(ctx, c.layout.Root, services, access.Calls())
}

// generateFigures writes the tables of measured figures in documents, from the reference report.
func (c *checker) generateFigures(context.Context) error { return figures.Write(c.layout.Root) }
