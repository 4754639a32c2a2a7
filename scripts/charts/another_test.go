package charts_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/proto/access"
	"urr.guru/scripts/internal/derived"
	"urr.guru/scripts/internal/settings"
	"urr.guru/scripts/platform"
)

const (
	// maxFiles is the most files outside its own folders that a new service may change by hand.
	maxFiles = 4
	// maxLines is the most lines of a new service's chart that may be written by hand.
	maxLines = 60
)

// TestAnotherService adds a service, which the gateway calls, to a copy of the checkout by the
// steps in services/README.md. By hand, it changes only the files in that guide's list; everything
// else is generated. The charts must then pass their tests.
func TestAnotherService(t *testing.T) {
	t.Parallel()
	const name = "promo"
	b := setup(t)
	root := copyCheckout(t, b)
	inRoot := func(elem ...string) string { return filepath.Join(append([]string{root}, elem...)...) }
	// change copies a file and, for each pair of texts, replaces the first text by the second.
	change := func(source, target string, pairs ...string) {
		text := read(t, source)
		for i := 0; i < len(pairs); i += 2 {
			require.Contains(t, text, pairs[i], source)
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(target), 0o755))
		require.NoError(t, os.WriteFile(target, []byte(strings.NewReplacer(pairs...).Replace(text)), 0o644))
	}

	// The service's own folders. The gateway would be the caller in the access options of its RPCs.
	charts := func(elem ...string) string { return inRoot(append([]string{"deploy", "helm"}, elem...)...) }
	for _, file := range []string{"Chart.yaml", "values.yaml"} {
		change(charts("stats", file), charts(name, file), "stats", name)
	}
	for _, file := range []string{".helmignore", "templates/service.yaml"} {
		change(charts("stats", file), charts(name, file))
	}
	require.LessOrEqual(t, linesByHand(t, charts(name)), maxLines)
	change(inRoot("services", "stats", "go.mod"), inRoot("services", name, "go.mod"), "stats", name)
	for _, file := range []string{"README.md", "internal/app/config.go"} {
		change(inRoot("services", "stats", file), inRoot("services", name, file))
	}
	calls := access.Calls()
	calls[name] = calls[platform.Stats]
	calls[platform.Gateway] = slices.Sorted(slices.Values(append(calls[platform.Gateway], name)))

	// The files in the guide's list. Documents are not tested; Write gets the list of services.
	requireListed(t, b, "services/gateway/internal/app/services.go", "scripts/platform/services.go", "services/README.md", "README.md")
	gateway := inRoot("services", "gateway", "internal", "app", "services.go")
	change(gateway, gateway, "type Peers struct {\n", "type Peers struct {\n\tPromo rpc.OptionalPeer `env:\", prefix=PROMO_\"`\n")

	require.NoError(t, derived.Write(t.Context(), root, append(serviceNames(), name), calls))
	require.Contains(t, read(t, inRoot("go.work")), "\t./services/promo\n")
	require.Contains(t, read(t, inRoot("services", "gateway", "README.md")), "`PROMO_ADDR`, `PROMO_RPC_KEY`")
	b.run(t, nil, "helm", "lint", "--strict", charts(name), "--set", "kafka.brokers={kafka:9092},kafka.plain=development")
	b.run(t, nil, "helm", append([]string{"lint", "--strict", charts("urr")}, b.umbrellaArgs()...)...)
	b.unit(t, charts("gateway"), calls[platform.Gateway])
	b.unit(t, charts("urr"), nil)
	out := string(b.run(t, nil, "helm", append([]string{"template", "urr", charts("urr")}, b.umbrellaArgs()...)...))
	for _, object := range []string{"urr-promo", "urr-promo-headless", "urr-promo-migrate", "urr-database-promo", "urr-rpc-gateway-promo"} {
		require.Contains(t, out, "\n  name: "+object+"\n")
	}
	require.Contains(t, out, `image: "urr.local/promo:dev"`)
	require.Contains(t, out, "PROMO_ADDR: dns:///urr-promo-headless:9000", "the gateway is told where it is")
}

// TestServiceThatAcceptsNoCalls tests parts of the library chart that no service's chart uses yet.
func TestServiceThatAcceptsNoCalls(t *testing.T) {
	t.Parallel()
	const name = "relay"
	b := setup(t)
	dir := copyCharts(t, b)
	chart := filepath.Join(dir, name)
	require.NoError(t, os.CopyFS(chart, os.DirFS(filepath.Join("testdata", name))))
	require.LessOrEqual(t, linesByHand(t, chart), maxLines)
	require.NoError(t, derived.WriteUmbrella(dir, append(serviceNames(), name)))
	require.NoError(t, derived.WriteSchemas(dir, append(describeAll(t, b), settings.Service{Name: name, Calls: map[string]bool{platform.Ticket: false}})))

	b.run(t, nil, "helm-unittest", "--strict", "--with-subchart=false", chart)
	queues := []string{"--set", "relay.queues.requests.queueURL=https://sqs/1/a.fifo", "--set", "relay.queues.requests-dlq.queueURL=https://sqs/1/b.fifo"}
	args := append(b.umbrellaArgs(), queues...)
	b.run(t, nil, "helm", append([]string{"lint", "--strict", filepath.Join(dir, "urr")}, args...)...)
	objects := b.run(t, nil, "helm", append([]string{"template", "urr", filepath.Join(dir, "urr")}, args...)...)
	require.Contains(t, string(objects), "\n  name: urr-relay\n")
	requireValid(t, b, objects)
}

// copyCharts returns a copy of the folder of the charts.
func copyCharts(t *testing.T, b fixture) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "helm")
	require.NoError(t, os.CopyFS(dir, os.DirFS(b.charts())))
	return dir
}

// copyCheckout returns a copy of the parts of the checkout that make settings reads and writes.
func copyCheckout(t *testing.T, b fixture) string {
	t.Helper()
	root := t.TempDir()
	for _, folder := range []string{"pkg", "proto", "scripts"} {
		require.NoError(t, os.Symlink(filepath.Join(b.layout.Root, folder), filepath.Join(root, folder)))
	}
	require.NoError(t, os.CopyFS(filepath.Join(root, "deploy", "helm"), os.DirFS(b.charts())))
	require.NoError(t, os.WriteFile(filepath.Join(root, "go.work"), []byte(read(t, filepath.Join(b.layout.Root, "go.work"))), 0o600))
	for _, name := range serviceNames() {
		source, target := filepath.Join(b.layout.Root, "services", name), filepath.Join(root, "services", name)
		app := filepath.Join("internal", "app")
		require.NoError(t, os.MkdirAll(filepath.Join(target, app), 0o755))
		for _, folder := range names(t, filepath.Join(source, "internal")) {
			if folder != "app" {
				require.NoError(t, os.Symlink(filepath.Join(source, "internal", folder), filepath.Join(target, "internal", folder)))
			}
		}
		sources, err := filepath.Glob(filepath.Join(source, app, "*.go"))
		require.NoError(t, err)
		for _, path := range append(sources, filepath.Join(source, "README.md"), filepath.Join(source, "go.mod")) {
			file, err := filepath.Rel(source, path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(target, file), []byte(read(t, path)), 0o600))
		}
	}
	return root
}

// describeAll describes the services of the checkout.
func describeAll(t *testing.T, b fixture) []settings.Service {
	t.Helper()
	var all []settings.Service
	for _, name := range serviceNames() {
		s, err := settings.Describe(b.layout.Root, name, access.Calls())
		require.NoError(t, err)
		all = append(all, s)
	}
	return all
}

// linesByHand returns the number of lines of a chart without its tests, before files are generated.
func linesByHand(t *testing.T, chart string) int {
	t.Helper()
	lines := 0
	require.NoError(t, filepath.WalkDir(chart, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "tests":
			return filepath.SkipDir
		case d.IsDir():
			return nil
		}
		lines += strings.Count(read(t, path), "\n")
		return nil
	}))
	return lines
}

// requireListed requires that the table in services/README.md lists the files changed by hand.
func requireListed(t *testing.T, b fixture, files ...string) {
	t.Helper()
	_, section, found := strings.Cut(read(t, filepath.Join(b.layout.Root, "services", "README.md")), "\n## A tenth service\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(section, -1) {
		listed = append(listed, strings.ReplaceAll(row[1], "<caller>", "gateway"))
	}
	require.ElementsMatch(t, listed, files)
	require.LessOrEqual(t, len(files), maxFiles)
}
