package charts_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"urr.guru/proto/access"
	"urr.guru/scripts/internal/derived"
	"urr.guru/scripts/platform"
)

func TestLint(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.run(t, nil, "helm", append([]string{"lint", "--strict", b.charts("urr")}, b.umbrellaArgs()...)...)
	for _, s := range services() {
		b.run(t, nil, "helm", append([]string{"lint", "--strict", b.charts(s.Name)}, serviceArgs(s)...)...)
	}
}

func TestUnit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, chart := range append(serviceNames(), "urr") {
		t.Run(chart, func(t *testing.T) {
			t.Parallel()
			b.unit(t, b.charts(chart), access.Calls()[chart])
		})
	}
}

// Rendered objects are valid for the API server, and have no unknown fields: it would drop these
// without an error.
func TestObjectsAreValid(t *testing.T) {
	t.Parallel()
	b := setup(t)
	requireValid(t, b, b.run(t, nil, "helm", append([]string{"template", "urr", b.charts("urr")}, b.umbrellaArgs()...)...))
	for _, s := range services() {
		requireValid(t, b, b.run(t, nil, "helm", append([]string{"template", s.Name, b.charts(s.Name)}, serviceArgs(s)...)...))
	}
	for _, file := range []string{"sandbox.yaml", "backends.yaml"} {
		requireValid(t, b, []byte(read(t, filepath.Join(b.layout.Root, "deploy", "kind", file))))
	}
}

func requireValid(t *testing.T, b fixture, objects []byte) {
	t.Helper()
	schemas := filepath.Join(writeSchemas(t, b), "{{.ResourceKind}}-{{.Group}}-{{.ResourceAPIVersion}}.json")
	out := b.run(t, objects, "kubeconform", "-strict", "-summary", "-schema-location", schemas, "-")
	require.Contains(t, string(out), "Invalid: 0")
	require.Contains(t, string(out), "Skipped: 0")
}

// The check of TestObjectsAreValid detects a misspelt field, and a number where a string is
// required.
func TestInvalidObjectsAreRejected(t *testing.T) {
	t.Parallel()
	b := setup(t)
	schemas := filepath.Join(writeSchemas(t, b), "{{.ResourceKind}}-{{.Group}}-{{.ResourceAPIVersion}}.json")
	good := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: b}\n"
	b.run(t, []byte(good), "kubeconform", "-strict", "-schema-location", schemas, "-")
	for _, bad := range []string{strings.Replace(good, "data", "date", 1), strings.Replace(good, "a: b", "a: 1", 1)} {
		cmd := b.command(t, bad, "kubeconform", "-strict", "-schema-location", schemas, "-")
		require.Error(t, cmd.Run(), bad)
	}
}

// For every message of a template's `fail`, there is a helm-unittest case that expects it.
func TestEveryFailMessageIsTested(t *testing.T) {
	t.Parallel()
	b := setup(t)
	templates, err := filepath.Glob(b.charts("*", "templates", "*"))
	require.NoError(t, err)
	suites, err := filepath.Glob(b.charts("*", "tests", "*.yaml"))
	require.NoError(t, err)
	testdataSuites, err := filepath.Glob(filepath.Join("testdata", "*", "tests", "*.yaml"))
	require.NoError(t, err)
	suites = append(suites, testdataSuites...)
	var expected strings.Builder
	for _, suite := range suites {
		expected.WriteString(read(t, suite))
	}
	sentence := regexp.MustCompile(`fail (\(printf )?"([^"]+)"`)
	found := 0
	for _, file := range templates {
		for _, m := range sentence.FindAllStringSubmatch(read(t, file), -1) {
			found++
			text := regexp.QuoteMeta(m[2])
			if m[1] != "" {
				text = regexp.MustCompile(`%[sv]`).ReplaceAllString(text, `[^"]+`)
			}
			require.Regexp(t, `errorMessage: "`+text+`"`, expected.String(), "%s: nobody tests this", file)
		}
	}
	require.Positive(t, found)
}

// A service's chart consists of values, their schema and one include. The calls in the generated
// part of its values are those that the platform describes.
func TestChartsFollowThePlatform(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const maxValuesLines = 70 // so that a values.yaml stays readable
	for _, s := range services() {
		require.Equal(t, "{{ include \"urr-lib.service\" . }}\n", read(t, b.charts(s.Name, "templates", "service.yaml")))
		text := read(t, b.charts(s.Name, "values.yaml"))
		require.LessOrEqual(t, strings.Count(text, "\n"), maxValuesLines, s.Name)
		require.Equal(t, 1, strings.Count(text, "# rpc: make settings\nrpc:"), "the block rpc of %s is generated", s.Name)
		var values struct {
			RPC struct {
				Callers []string       `yaml:"callers"`
				Calls   map[string]any `yaml:"calls"`
			} `yaml:"rpc"`
			Postgres  *struct{}      `yaml:"postgres"`
			Migration map[string]any `yaml:"migration"`
		}
		require.NoError(t, yaml.Unmarshal([]byte(text), &values))
		require.ElementsMatch(t, platform.Callers(s.Name), values.RPC.Callers, "callers of %s", s.Name)
		require.ElementsMatch(t, s.Calls, slices.Collect(maps.Keys(values.RPC.Calls)), "whom %s calls", s.Name)
		require.Equal(t, s.Database != "", values.Postgres != nil, "database of %s", s.Name)
	}
}

// When a variable changes, its ConfigMap gets a new name. The pods refer to that name, so they
// restart. A change of other values restarts no pods.
func TestChangedVariablesRestartPods(t *testing.T) {
	t.Parallel()
	b := setup(t)
	// configurations returns the names of the ConfigMaps that pods and migrations read.
	configurations := func(args ...string) []string {
		args = append([]string{"template", "urr", b.charts("urr")}, append(b.umbrellaArgs(), args...)...)
		out := string(b.run(t, nil, "helm", args...))
		var names []string
		for _, m := range regexp.MustCompile(`configMapRef:\n +name: (\S+)`).FindAllStringSubmatch(out, -1) {
			require.Contains(t, out, "kind: ConfigMap\nmetadata:\n  name: "+m[1]+"\n")
			names = append(names, m[1])
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	before := configurations()
	require.Len(t, before, len(services())+1, "one of each service, and that of the gateway's room")
	require.Contains(t, before[1], "urr-gateway-room-")
	require.Equal(t, before, configurations("--set", "gateway.replicas=5"))
	require.Equal(t, slices.Delete(slices.Clone(before), 1, 2), configurations("--set", "gateway.room.enabled=false"))
	after := configurations("--set", "gateway.config.SESSION_LIFE=1h")
	require.NotEqual(t, before[0], after[0])
	require.Contains(t, after[0], "urr-gateway-")
	require.Equal(t, before[2:], after[2:], "those of the other services")
}

// By default, Helm waits 5 minutes for each hook. A migration that takes longer must have failed
// before, or it would go on although Helm has reported the upgrade as failed.
func TestMigrationsEndBeforeHelmsTimeout(t *testing.T) {
	t.Parallel()
	const timeout = 300 // seconds
	b := setup(t)
	out := string(b.run(t, nil, "helm", append([]string{"template", "urr", b.charts("urr")}, b.umbrellaArgs()...)...))
	jobs := 0
	for document := range strings.SplitSeq(out, "\n---\n") {
		if !strings.Contains(document, "\nkind: Job\n") {
			continue
		}
		jobs++
		deadlines := regexp.MustCompile(`activeDeadlineSeconds: (\d+)`).FindAllStringSubmatch(document, -1)
		require.Len(t, deadlines, 1)
		seconds, err := strconv.Atoi(deadlines[0][1])
		require.NoError(t, err)
		require.Less(t, seconds, timeout)
	}
	require.Equal(t, strings.Count(out, "kind: Job\n"), jobs)
}

func TestInvalidValueIsReportedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, s := range services() {
		args := append([]string{"template", s.Name, b.charts(s.Name)}, append(serviceArgs(s), "--set", "replicas=0")...)
		cmd := b.command(t, "", "helm", args...)
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		require.Equal(t, []string{"- at '/replicas': minimum: got 0, want 1"}, regexp.MustCompile(`(?m)^ *- at .*$`).FindAllString(string(out), -1))
	}
}

// The umbrella's dependencies and links are those that `make settings` would now generate.
func TestUmbrellaIsCurrent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	dir := copyCharts(t, b)
	require.NoError(t, derived.WriteUmbrella(dir, serviceNames()))
	require.Equal(t, read(t, filepath.Join(dir, "urr", "Chart.yaml")), read(t, b.charts("urr", "Chart.yaml")), "make settings")
	for _, chart := range append(serviceNames(), "urr") {
		require.Equal(t, names(t, filepath.Join(dir, chart, "charts")), names(t, b.charts(chart, "charts")), "links of %s: make settings", chart)
	}
}

// names returns the names of the entries of a folder.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// The committed schemas, which Helm reads, are those that would now be generated.
func TestSchemasAreCurrent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	files, err := derived.Schemas(b.charts(), describeAll(t, b))
	require.NoError(t, err)
	require.Len(t, files, len(services())+1)
	for file, want := range files {
		require.Equal(t, string(want), read(t, file), "%s is not what is generated now: make settings", file)
	}
}

// A packaged chart contains its library, and its schema refers to no other file.
func TestPackedChartsAreValidated(t *testing.T) {
	t.Parallel()
	b := setup(t)
	dir := t.TempDir()
	b.run(t, nil, "helm", "package", b.charts("stats"), "--destination", dir)
	packed, err := filepath.Glob(filepath.Join(dir, "stats-*.tgz"))
	require.NoError(t, err)
	require.Len(t, packed, 1)
	args := append([]string{"template", "stats", packed[0]}, serviceArgs(platform.Service{Calls: access.Calls()[platform.Stats]})...)
	b.run(t, nil, "helm", args...)
	cmd := b.command(t, "", "helm", append(args, "--set", "kafka.saslx=no")...)
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "at '/kafka': additional properties 'saslx' not allowed")
}
