// Package derived implements `make settings`. It writes the files that are generated from the list
// of services, their Config structs, and the access options of RPCs.
package derived

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"urr.guru/proto/events"
	"urr.guru/scripts/internal/section"
	"urr.guru/scripts/internal/settings"
)

// Write generates these parts of a checkout: the modules in go.work; the lists of settings in
// READMEs; the charts' blocks "rpc" and the schemas of their values; the dependencies and tests of
// the umbrella chart; what each service may do in Kafka. calls has, by service, the services that it calls.
func Write(ctx context.Context, root string, services []string, calls map[string][]string) error {
	if err := useModules(ctx, root, services); err != nil {
		return err
	}
	all, err := describeServices(root, services, calls)
	if err != nil {
		return err
	}
	charts := filepath.Join(root, "deploy", "helm")
	errs := []error{WriteUmbrella(charts, services), writeTests(charts, all), settings.Write(root, all), WriteACLs(charts)}
	for _, s := range all {
		errs = append(errs, s.WriteRPC(charts))
	}
	// The schemas are last, since they are generated from the values and the umbrella's dependencies.
	return errors.Join(append(errs, WriteSchemas(charts, all))...)
}

func describeServices(root string, services []string, calls map[string][]string) ([]settings.Service, error) {
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

// writeTests generates the parts of the umbrella chart's tests that contain each service's name or
// the number of Secrets with keys: one per pair of caller and callee, those in the values, those that
// sign records, and the certificates of the services and of their authority.
func writeTests(charts string, services []settings.Service) error {
	suite := filepath.Join(charts, "urr", "tests", "umbrella_test.yaml")
	var metrics, watched []string
	keys := map[string]bool{"authority": true}
	for _, topic := range events.All() {
		keys["records of "+topic.Producer] = true
	}
	for _, s := range services {
		keys["certificate of "+s.Name] = true
		metrics = append(metrics, s.Name+".networkPolicy.metricsFrom: [{podSelector: {matchLabels: {a: b}}}]")
		if s.Name != leftOut {
			watched = append(watched, s.Name)
		}
		for _, caller := range s.Callers {
			keys[caller+" "+s.Name] = true
		}
		if err := addSecretNames(keys, filepath.Join(charts, s.Name, "values.yaml")); err != nil {
			return err
		}
	}
	count := func(n int) string { return fmt.Sprintf("- hasDocuments: {count: %d}", n) }
	var errs []error
	for name, text := range map[string]string{
		"metrics": strings.Join(metrics, "\n"), "watched": fmt.Sprintf(watches, strings.Join(watched, "|")),
		"keys": count(len(keys)), "keys with a cluster": count(len(keys)), "keys but one": count(len(keys) - 1),
	} {
		errs = append(errs, section.WriteYAML(suite, name, text))
	}
	return errors.Join(errs...)
}

func addSecretNames(names map[string]bool, path string) error {
	var values struct {
		Secrets map[string]struct {
			Name string `yaml:"name"`
		} `yaml:"secrets"`
	}
	if err := readYAML(path, &values); err != nil {
		return err
	}
	for _, secret := range values.Secrets {
		if secret.Name != "" {
			names[secret.Name] = true
		}
	}
	return nil
}
