package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// domainRule is the linter's rule for domain packages: the files that it covers, and the packages
// that they may not import directly.
type domainRule struct {
	Files []string `yaml:"files"`
	Deny  []struct {
		Pkg string `yaml:"pkg"`
	} `yaml:"deny"`
}

func readDomainRule(t *testing.T, root string) domainRule {
	t.Helper()
	var config struct {
		Linters struct {
			Settings struct {
				Depguard struct {
					Rules map[string]domainRule `yaml:"rules"`
				} `yaml:"depguard"`
			} `yaml:"settings"`
		} `yaml:"linters"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(text(t, root, ".golangci.yml")), &config))
	rule := config.Linters.Settings.Depguard.Rules["domain"]
	require.NotEmpty(t, rule.Files)
	return rule
}

// covers reports whether the rule applies to a file.
func (r domainRule) covers(file string) bool {
	covered := false
	for _, glob := range r.Files {
		glob, excluded := strings.CutPrefix(glob, "!")
		if glob == "$test" {
			continue // go list has no tests in GoFiles
		}
		if globPattern(strings.TrimPrefix(glob, "${config-path}/")).MatchString(file) {
			if excluded {
				return false
			}
			covered = true
		}
	}
	return covered
}

// globPattern returns a regular expression for a glob, in which ** is any path and * any name.
func globPattern(glob string) *regexp.Regexp {
	pattern := regexp.QuoteMeta(glob)
	pattern = strings.ReplaceAll(pattern, `/\*\*/`, `/(.*/)?`)
	pattern = strings.ReplaceAll(pattern, `\*\*`, `.*`)
	return regexp.MustCompile("^" + strings.ReplaceAll(pattern, `\*`, `[^/]*`) + "$")
}

// clients returns the denied client libraries. Packages of pkg are left out: the test follows them.
func (r domainRule) clients() []string {
	var clients []string
	for _, deny := range r.Deny {
		if !strings.HasPrefix(deny.Pkg, "urr.guru/pkg/") {
			clients = append(clients, deny.Pkg)
		}
	}
	return clients
}

// listedPackage has the fields of a package that go list prints.
type listedPackage struct {
	Dir, ImportPath  string
	GoFiles, Imports []string
}

// listPackages lists the packages of the services and of pkg by their import paths.
func listPackages(t *testing.T, root string) map[string]listedPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=Dir,ImportPath,GoFiles,Imports", "urr.guru/services/...", "urr.guru/pkg/...")
	cmd.Dir = root
	out, err := cmd.Output()
	require.NoError(t, err)
	listed := map[string]listedPackage{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listedPackage
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return listed
		}
		require.NoError(t, err)
		listed[p.ImportPath] = p
	}
}

// errorStatus has what pkg/errs may import although it is denied, since that package only converts
// an error to a gRPC status and back, and connects to nothing.
var errorStatus = map[string][]string{
	"urr.guru/pkg/errs": {
		"google.golang.org/genproto/googleapis/rpc/errdetails", "google.golang.org/grpc/codes", "google.golang.org/grpc/status",
		"google.golang.org/protobuf/protoadapt", "google.golang.org/protobuf/types/known/durationpb", "urr.guru/proto/gen/urr/common/v1",
	},
}

// clientOf returns the shortest chain of imports from a package to a client library, through
// packages of this repository only. It returns nil if there is none.
func clientOf(listed map[string]listedPackage, start string, clients []string) []string {
	seen := map[string]bool{start: true}
	for chains := [][]string{{start}}; len(chains) > 0; chains = chains[1:] {
		chain := chains[0]
		importer := chain[len(chain)-1]
		for _, path := range listed[importer].Imports {
			if seen[path] || slices.Contains(errorStatus[importer], path) {
				continue
			}
			seen[path] = true
			next := append(chain[:len(chain):len(chain)], path)
			for _, client := range clients {
				if path == client || strings.HasPrefix(path, client+"/") {
					return next
				}
			}
			if _, ours := listed[path]; ours {
				chains = append(chains, next)
			}
		}
	}
	return nil
}

// No domain imports a client library by a package of pkg. The linter sees direct imports only.
func TestDomainsImportNoClients(t *testing.T) {
	t.Parallel()
	root, _ := tracked(t)
	rule := readDomainRule(t, root)
	clients := rule.clients()
	require.Subset(t, clients, []string{"github.com/aws", "github.com/jackc", "github.com/redis", "github.com/twmb", "google.golang.org"})
	listed := listPackages(t, root)
	domains := 0
	var found []string
	for _, p := range listed {
		for _, name := range p.GoFiles {
			file, err := filepath.Rel(root, filepath.Join(p.Dir, name))
			require.NoError(t, err)
			if !rule.covers(filepath.ToSlash(file)) {
				continue
			}
			domains++
			if chain := clientOf(listed, p.ImportPath, clients); chain != nil {
				found = append(found, strings.Join(chain, " imports\n  "))
			}
			break
		}
	}
	require.Greater(t, domains, 20, "packages of domains")
	slices.Sort(found)
	require.Empty(t, strings.Join(found, "\n"), "a domain knows no store, broker or transport")
}

func TestClientOf(t *testing.T) {
	t.Parallel()
	imports := func(paths ...string) listedPackage { return listedPackage{Imports: paths} }
	listed := map[string]listedPackage{
		"a/pure": imports("fmt", "other.org/awsome"), "a/direct": imports("other.org/aws/s3"),
		"a/far": imports("a/pure", "a/near", "a/middle"), "a/middle": imports("a/near"), "a/near": imports("a/far", "a/direct"),
		"a/foreign": imports("other.org/uses-aws"), "urr.guru/pkg/errs": imports("google.golang.org/grpc/status", "google.golang.org/grpc"),
	}
	clients := []string{"other.org/aws"}
	require.Nil(t, clientOf(listed, "a/pure", clients))
	require.Nil(t, clientOf(listed, "a/foreign", clients), "what a library uses is its own affair")
	require.Nil(t, clientOf(listed, "urr.guru/pkg/errs", []string{"google.golang.org/grpc/status"}))
	require.NotNil(t, clientOf(listed, "urr.guru/pkg/errs", []string{"google.golang.org"}), "only for the status")
	require.Equal(t, []string{"a/direct", "other.org/aws/s3"}, clientOf(listed, "a/direct", clients))
	require.Equal(t, []string{"a/far", "a/near", "a/direct", "other.org/aws/s3"}, clientOf(listed, "a/far", clients))
}

func TestFilesOfDomains(t *testing.T) {
	t.Parallel()
	root, _ := tracked(t)
	rule := readDomainRule(t, root)
	for file, domain := range map[string]bool{
		"services/ticket/internal/event/event.go":          true,
		"services/worker/internal/settle/deep/settle.go":   true,
		"services/ticket/internal/postgres/holds/seats.go": false,
		"services/ticket/internal/app/app.go":              false,
		"services/gateway/internal/edge/edge.go":           false,
		"services/queue/internal/ticket/ticket.go":         false,
		"services/payment/sandbox/sandbox.go":              false,
		"pkg/errs/errs.go":                                 false,
		"services/payment/internal/a.go":                   true,
	} {
		require.Equal(t, domain, rule.covers(file), file)
	}
}
