// Package charts tests the Helm charts: they pass lint and their own unit tests, their objects are
// valid for the Kubernetes that scripts/cluster builds, and they match the description of the
// platform.
package charts_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/internal/tools"
	"urr.guru/scripts/platform"
)

// fixture is what all tests use: the checkout, and the folder with the pinned programs.
type fixture struct {
	layout platform.Layout
	bin    string
}

var loadFixture = sync.OnceValues(func() (fixture, error) {
	layout, err := platform.Find()
	if err != nil {
		return fixture{}, err
	}
	say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	bin, err := tools.Build(context.Background(), layout, tools.Kubernetes, say, "helm", "helm-unittest", "kubeconform")
	return fixture{layout: layout, bin: bin}, err
})

func setup(t *testing.T) fixture {
	t.Helper()
	b, err := loadFixture()
	require.NoError(t, err)
	return b
}

// charts returns a path in the folder deploy/helm.
func (b fixture) charts(elem ...string) string {
	return filepath.Join(append([]string{b.layout.Root, "deploy", "helm"}, elem...)...)
}

// run runs a pinned program and returns its output. If the program fails, the test fails.
func (b fixture) run(t *testing.T, stdin []byte, name string, args ...string) []byte {
	t.Helper()
	cmd := b.command(t, string(stdin), name, args...)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	// The charts link to each other, and Helm logs a line about each link.
	notes := regexp.MustCompile(`(?m)^.*found symbolic link.*\n`).ReplaceAllString(stderr.String(), "")
	require.NoError(t, err, "%s %s\n%s%s", name, strings.Join(args, " "), &out, notes)
	return out.Bytes()
}

// command returns a call of one of the pinned programs.
func (b fixture) command(t *testing.T, stdin, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(b.bin, name), args...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GOGC=400") // helm-unittest spends a third of its processor time on collecting garbage
	return cmd
}

// unit runs the unit tests of a chart that is installed alone; callees are the services that it
// calls, whose addresses it needs.
func (b fixture) unit(t *testing.T, chart string, callees []string) {
	t.Helper()
	values := filepath.Join(t.TempDir(), "values.yaml")
	text := "{}\n"
	if len(callees) > 0 {
		text = "rpc:\n  calls:\n"
	}
	for _, callee := range callees {
		text += fmt.Sprintf("    %s: {address: \"%s:9000\"}\n", callee, callee)
	}
	require.NoError(t, os.WriteFile(values, []byte(text), 0o600))
	b.run(t, nil, "helm-unittest", "--strict", "--with-subchart=false", "--values", values, chart)
}

// services returns the services that have a chart: all that the platform describes except the
// sandbox, which is not part of a release.
func services() []platform.Service {
	var out []platform.Service
	for _, s := range platform.Services() {
		if s.Name != platform.Sandbox {
			out = append(out, s)
		}
	}
	return out
}

// serviceNames returns the names of the services, which are also those of their charts.
func serviceNames() []string {
	var names []string
	for _, s := range services() {
		names = append(names, s.Name)
	}
	return names
}

// umbrellaArgs returns the arguments that the umbrella chart requires.
func (b fixture) umbrellaArgs() []string {
	return []string{
		"--values", b.charts("urr", "values-development.yaml"), "--set", "global.kafka.brokers={kafka:9092}",
		"--set", "global.redis.addresses={redis:6379}", "--set", "secrets.databaseURL=postgres://urr@postgres/%s",
		"--set", "secrets.generate=always",
		"--set", "global.networkPolicy.enabled=true", "--set", "global.networkPolicy.backends={10.1.0.0/16}",
		"--set", "global.authorities=rds", "--set", "global.telemetry.otlpEndpoint=http://collector:4317",
		"--set", "gateway.ingress.enabled=true", "--set", "gateway.ingress.hosts={tickets.example}",
		"--set", "gateway.config.TRUSTED_PROXIES={10.0.0.0/8}", "--set", "gateway.room.enabled=true",
	}
}

// serviceArgs returns the arguments that a service's chart requires.
func serviceArgs(s platform.Service) []string {
	args := []string{"--set", "autoscaling.enabled=true", "--set", "global.networkPolicy.enabled=true", "--set", "priorityClassName=sale"}
	for _, callee := range s.Calls {
		args = append(args, "--set", fmt.Sprintf("rpc.calls.%s.address=%s:9000", callee, callee))
	}
	return append(args, "--set", "global.kafka.brokers={kafka:9092},global.kafka.plain=development", "--set", "global.redis.addresses={redis:6379}")
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(raw)
}
