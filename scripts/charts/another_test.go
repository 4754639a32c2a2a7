package charts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What deploy/helm/README.md says about another service, done to a copy with one that is made up: its own files, and a line in each of
// three of the umbrella's, and a link. Nothing in the library knows its name.
func TestAnotherService(t *testing.T) {
	t.Parallel()
	const name = "promo"
	b := setup(t)
	dir := filepath.Join(t.TempDir(), "helm")
	require.NoError(t, os.CopyFS(dir, os.DirFS(b.charts())))
	at := func(elem ...string) string { return filepath.Join(append([]string{dir}, elem...)...) }
	// change copies a file with each pair's first text replaced by the second.
	change := func(from, to string, pairs ...string) {
		text := read(t, from)
		for i := 0; i < len(pairs); i += 2 {
			require.Contains(t, text, pairs[i], from)
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
		require.NoError(t, os.WriteFile(to, []byte(strings.NewReplacer(pairs...).Replace(text)), 0o644))
	}

	for _, file := range []string{"Chart.yaml", "values.yaml", "values.schema.json"} {
		change(at("stats", file), at(name, file), "stats", name)
	}
	change(at("stats", "templates", "service.yaml"), at(name, "templates", "service.yaml"))
	require.NoError(t, os.Mkdir(at(name, "charts"), 0o755))
	require.NoError(t, os.Symlink("../../urr-lib", at(name, "charts", "urr-lib")))

	change(at("urr", "Chart.yaml"), at("urr", "Chart.yaml"),
		"  - {name: gateway", "  - {name: promo, version: 0.1.0, condition: promo.enabled}\n  - {name: gateway")
	change(at("urr", "values.yaml"), at("urr", "values.yaml"), "\ngateway:\n", "\npromo:\n  enabled: true\ngateway:\n")
	change(at("urr", "values.schema.json"), at("urr", "values.schema.json"),
		`    "gateway": {"type"`, `    "promo": {"type": "object", "description": "values of the chart promo"},`+"\n"+`    "gateway": {"type"`)
	require.NoError(t, os.Symlink("../../promo", at("urr", "charts", name)))

	b.run(t, nil, "helm", "lint", "--strict", at(name), "--set", "kafka.brokers={kafka:9092}")
	b.run(t, nil, "helm", append([]string{"lint", "--strict", at("urr")}, b.whole()...)...)
	out := string(b.run(t, nil, "helm", append([]string{"template", "urr", at("urr")}, b.whole()...)...))
	for _, object := range []string{"urr-promo", "urr-promo-headless", "urr-promo-migrate", "urr-database-promo", "urr-rpc-gateway-promo"} {
		require.Contains(t, out, "\n  name: "+object+"\n")
	}
	require.Contains(t, out, `image: "urr.local/promo:dev"`)
}
