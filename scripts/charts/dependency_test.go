package charts_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDependencyOfAnotherChart installs the umbrella and one service's chart as dependencies of
// another project's chart. They then get that chart's global values and conditions too.
func TestDependencyOfAnotherChart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	shop := filepath.Join(t.TempDir(), "shop")
	require.NoError(t, os.MkdirAll(filepath.Join(shop, "charts"), 0o755))
	dependencies := ""
	for _, chart := range []string{"urr", "stats"} {
		require.NoError(t, os.Symlink(b.charts(chart), filepath.Join(shop, "charts", chart)))
		dependencies += "  - {name: " + chart + ", version: 0.x.x-0, condition: " + chart + ".enabled}\n"
	}
	for file, text := range map[string]string{
		"Chart.yaml":  "apiVersion: v2\nname: shop\nversion: 1.0.0\ndependencies:\n" + dependencies,
		"values.yaml": "global: {imageRegistry: registry.example, storageClass: fast, kafka: {brokers: [kafka:9092], plain: development}}\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(shop, file), []byte(text), 0o600))
	}
	out := string(b.run(t, nil, "helm", "template", "shop", shop, "--set", "urr.enabled=false,stats.enabled=true"))
	require.Contains(t, out, "name: shop-stats\n")
	require.NotContains(t, out, "name: shop-gateway")

	args := []string{"template", "shop", shop, "--set", "stats.enabled=false,urr.enabled=true", "--set", "global.redis.addresses={redis:6379}"}
	args = append(args, "--set", "urr.secrets.databaseURL=postgres://urr@postgres/%s", "--set", "urr.secrets.generate=always")
	require.Contains(t, string(b.run(t, nil, "helm", args...)), "name: shop-gateway\n")
	cmd := b.command(t, "", "helm", append(args, "--set", "global.kafka.broker=x")...)
	refused, err := cmd.CombinedOutput()
	require.Error(t, err, "a member of an object of URR that is misspelt")
	require.Contains(t, string(refused), "additional properties 'broker' not allowed")
}
