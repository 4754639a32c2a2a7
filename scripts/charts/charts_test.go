package charts_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"urr.guru/scripts/platform"
)

func TestLint(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.run(t, nil, "helm", append([]string{"lint", "--strict", b.charts("urr")}, b.whole()...)...)
	for _, s := range services() {
		b.run(t, nil, "helm", append([]string{"lint", "--strict", b.charts(s.Name)}, alone(s)...)...)
	}
}

func TestUnit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	charts := []string{"urr"}
	for _, s := range services() {
		charts = append(charts, s.Name)
	}
	for _, chart := range charts {
		t.Run(chart, func(t *testing.T) {
			t.Parallel()
			b.run(t, nil, "helm-unittest", "--strict", "--with-subchart=false", b.charts(chart))
		})
	}
}

// What the API server would refuse, and members that it would silently drop.
func TestObjectsAreValid(t *testing.T) {
	t.Parallel()
	b := setup(t)
	schemas := filepath.Join(writeSchemas(t, b), "{{.ResourceKind}}-{{.Group}}-{{.ResourceAPIVersion}}.json")
	check := func(t *testing.T, objects []byte, want string) {
		t.Helper()
		out := b.run(t, objects, "kubeconform", "-strict", "-summary", "-schema-location", schemas, "-")
		require.Contains(t, string(out), want)
		require.Contains(t, string(out), "Skipped: 0")
	}
	check(t, b.run(t, nil, "helm", append([]string{"template", "urr", b.charts("urr")}, b.whole()...)...), "Invalid: 0")
	for _, s := range services() {
		check(t, b.run(t, nil, "helm", append([]string{"template", s.Name, b.charts(s.Name)}, alone(s)...)...), "Invalid: 0")
	}
	for _, file := range []string{"sandbox.yaml", "backends.yaml"} {
		check(t, []byte(read(t, filepath.Join(b.layout.Root, "deploy", "kind", file))), "Invalid: 0")
	}
}

// The check above must be able to fail: a member that is misspelt, and a number where a text belongs.
func TestInvalidObjectsAreFound(t *testing.T) {
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

// Whoever adds a sentence adds the test that shows it.
func TestEverySentenceOfRefusalIsTested(t *testing.T) {
	t.Parallel()
	b := setup(t)
	templates, err := filepath.Glob(b.charts("*", "templates", "*"))
	require.NoError(t, err)
	suites, err := filepath.Glob(b.charts("*", "tests", "*.yaml"))
	require.NoError(t, err)
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

// Every service's chart is values, their schema and one include; who calls whom is what the platform says.
func TestChartsFollowThePlatform(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const most = 120 // lines of a values.yaml: beyond, nobody reads it
	for _, s := range services() {
		require.Equal(t, "{{ include \"urr-lib.service\" . }}\n", read(t, b.charts(s.Name, "templates", "service.yaml")))
		text := read(t, b.charts(s.Name, "values.yaml"))
		require.LessOrEqual(t, strings.Count(text, "\n"), most, s.Name)
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

// A changed variable makes new pods, and nothing else does.
func TestChangedVariablesMakeNewPods(t *testing.T) {
	t.Parallel()
	b := setup(t)
	sum := func(args ...string) string {
		args = append([]string{"template", "urr", b.charts("urr")}, append(b.whole(), args...)...)
		found := regexp.MustCompile(`checksum/config: \w+`).FindAllString(string(b.run(t, nil, "helm", args...)), -1)
		require.Len(t, found, len(services()))
		return strings.Join(found, "\n")
	}
	before := sum()
	require.Equal(t, before, sum("--set", "gateway.replicas=5"))
	require.NotEqual(t, before, sum("--set", "gateway.config.SESSION_LIFE=1h"))
}

// Whoever sets one wrong value reads about that one and not about all others.
func TestOneWrongValueIsOneComplaint(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, s := range services() {
		args := append([]string{"template", s.Name, b.charts(s.Name)}, append(alone(s), "--set", "replicas=0")...)
		cmd := b.command(t, "", "helm", args...)
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		require.Equal(t, []string{"- at '/replicas': minimum: got 0, want 1"}, regexp.MustCompile(`(?m)^ *- at .*$`).FindAllString(string(out), -1))
	}
}

// The schemas have their common part from one file: a schema cannot refer to another file in a packed chart.
func TestSchemasShareTheirDefinitions(t *testing.T) {
	t.Parallel()
	b := setup(t)
	schemas, err := filepath.Glob(b.charts("*", "values.schema.json"))
	require.NoError(t, err)
	require.Len(t, schemas, len(services())+1)
	common := strings.TrimSpace(read(t, b.charts("urr-lib", "defs.json")))
	common = strings.ReplaceAll(common, "\n", "\n  ")
	for _, file := range schemas {
		text := read(t, file)
		own, _, found := strings.Cut(text, "\n  \"$defs\": ")
		require.True(t, found, "%s has no $defs", file)
		want := own + "\n  \"$defs\": " + common + "\n}\n"
		require.True(t, json.Valid([]byte(want)), file)
		if *update && want != text {
			require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
			continue
		}
		require.True(t, bytes.Equal([]byte(want), []byte(text)), "%s differs from urr-lib/defs.json: go test ./scripts/charts -update", file)
		requireClosed(t, file, text)
	}
}

// requireClosed holds the lists of names, by which a schema is closed, to the members that it describes.
func requireClosed(t *testing.T, file, text string) {
	t.Helper()
	var schema struct {
		Closed        *bool          `json:"additionalProperties"`
		Properties    map[string]any `json:"properties"`
		PropertyNames struct {
			AnyOf []struct{ Enum []string }
		} `json:"propertyNames"`
		Defs struct {
			Shared  struct{ Enum []string }
			Service struct {
				Properties map[string]any `json:"properties"`
			}
		} `json:"$defs"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &schema))
	require.ElementsMatch(t, slices.Collect(maps.Keys(schema.Defs.Service.Properties)), schema.Defs.Shared.Enum, file)
	if schema.Closed != nil { // the umbrella's: it has no part of the services' own
		require.False(t, *schema.Closed, file)
		return
	}
	require.Len(t, schema.PropertyNames.AnyOf, 2, file)
	require.ElementsMatch(t, slices.Collect(maps.Keys(schema.Properties)), schema.PropertyNames.AnyOf[1].Enum, file)
}
