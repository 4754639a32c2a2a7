// Package derived writes everything that follows from the list of services, their Config structs and
// the RPCs' access options: `make settings`.
package derived

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"urr.guru/scripts/internal/schemas"
	"urr.guru/scripts/internal/section"
	"urr.guru/scripts/internal/settings"
	"urr.guru/scripts/internal/umbrella"
)

// Write brings a checkout up to date: the modules of go.work; of the charts the blocks "rpc", the
// schemas of the values, the umbrella's dependencies and the parts of its tests that name all
// services; the READMEs' tables of settings. calls are the services that each service calls.
func Write(ctx context.Context, root string, services []string, calls map[string][]string) error {
	if err := useModules(ctx, root, services); err != nil {
		return err
	}
	all, err := describe(root, services, calls)
	if err != nil {
		return err
	}
	charts := filepath.Join(root, "deploy", "helm")
	errs := []error{umbrella.Write(charts, services), writeTests(charts, services)}
	for _, s := range all {
		errs = append(errs, s.WriteRPC(charts), settings.Write(filepath.Join(root, "services", s.Name, "README.md"), s.Settings))
	}
	// The schemas follow from the values, and the umbrella's from its dependencies.
	return errors.Join(append(errs, schemas.Write(charts, all))...)
}

func describe(root string, services []string, calls map[string][]string) ([]settings.Service, error) {
	var all []settings.Service
	var errs []error
	for _, name := range services {
		s, err := settings.Describe(root, name, calls)
		all, errs = append(all, s), append(errs, err)
	}
	return all, errors.Join(errs...)
}

// useModules adds the modules of new services to go.work.
func useModules(ctx context.Context, root string, services []string) error {
	work, err := os.ReadFile(filepath.Join(root, "go.work"))
	if err != nil {
		return fmt.Errorf("read the modules: %w", err)
	}
	for _, name := range services {
		module := "./services/" + name
		if strings.Contains(string(work), "\t"+module+"\n") {
			continue
		}
		cmd := exec.CommandContext(ctx, "go", "work", "use", module)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "GOWORK="+filepath.Join(root, "go.work"))
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("add %s to go.work: %w: %s", module, err, out)
		}
	}
	return nil
}

const (
	leftOut = "stats" // the service that one of the umbrella's tests does not install
	watches = `- matchRegex: {path: "spec.groups[0].rules[?(@.alert == 'UrrServiceDown')].expr", ` +
		`pattern: '^sum.*absent\(up\{namespace="shop",app_kubernetes_io_name="(%s)"\}\)$'}`
)

// writeTests writes the parts of the umbrella's tests that name every service.
func writeTests(charts string, services []string) error {
	suite := filepath.Join(charts, "urr", "tests", "umbrella_test.yaml")
	var off, metrics, watched []string
	for _, name := range services {
		off = append(off, name+".networkPolicy.enabled: false")
		metrics = append(metrics, name+".networkPolicy.metricsFrom: [{podSelector: {matchLabels: {a: b}}}]")
		if name != leftOut {
			watched = append(watched, name)
		}
	}
	return errors.Join(
		section.WriteYAML(suite, "policies", strings.Join(off, "\n")),
		section.WriteYAML(suite, "metrics", strings.Join(metrics, "\n")),
		section.WriteYAML(suite, "watched", fmt.Sprintf(watches, strings.Join(watched, "|"))),
	)
}
