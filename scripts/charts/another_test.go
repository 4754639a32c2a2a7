package charts_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/internal/schemas"
	"urr.guru/scripts/internal/umbrella"
)

const (
	// maxFiles is the maximum number of files outside its own folders that a new service may change.
	maxFiles = 6
	// maxLines is the maximum number of lines of a new service's chart that are not generated.
	maxLines = 60
)

// TestAnotherService applies the steps of services/README.md for a new service, which the gateway
// calls, to a copy of the charts.
func TestAnotherService(t *testing.T) {
	t.Parallel()
	const name = "promo"
	b := setup(t)
	dir := copyCharts(t, b)
	at := func(elem ...string) string { return filepath.Join(append([]string{dir}, elem...)...) }
	// change copies a file and replaces the first text of each pair by the second.
	change := func(from, to string, pairs ...string) {
		text := read(t, from)
		for i := 0; i < len(pairs); i += 2 {
			require.Contains(t, text, pairs[i], from)
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
		require.NoError(t, os.WriteFile(to, []byte(strings.NewReplacer(pairs...).Replace(text)), 0o644))
	}

	// The service's own chart.
	for _, file := range []string{"Chart.yaml", "values.yaml"} {
		change(at("stats", file), at(name, file), "stats", name)
	}
	for _, file := range []string{"schema.json", ".helmignore", "templates/service.yaml"} {
		change(at("stats", file), at(name, file))
	}

	// What the guide lists.
	change(at("gateway", "values.yaml"), at("gateway", "values.yaml"), "    stats: {address", "    promo: {address: \"\"}\n    stats: {address")
	requireListed(t, b, changed(t, b.charts(), dir, name))
	require.LessOrEqual(t, linesByHand(t, at(name)), maxLines)

	makeSettings(t, dir, name)
	b.run(t, nil, "helm", "lint", "--strict", at(name), "--set", "kafka.brokers={kafka:9092}")
	b.run(t, nil, "helm", append([]string{"lint", "--strict", at("urr")}, b.umbrellaArgs()...)...)
	out := string(b.run(t, nil, "helm", append([]string{"template", "urr", at("urr")}, b.umbrellaArgs()...)...))
	for _, object := range []string{"urr-promo", "urr-promo-headless", "urr-promo-migrate", "urr-database-promo", "urr-rpc-gateway-promo"} {
		require.Contains(t, out, "\n  name: "+object+"\n")
	}
	require.Contains(t, out, `image: "urr.local/promo:dev"`)
	require.Contains(t, out, "PROMO_ADDR: dns:///urr-promo-headless:9000", "the gateway is told where it is")
}

// TestServiceThatAcceptsNoCalls tests the parts of the library that no service's chart uses yet.
func TestServiceThatAcceptsNoCalls(t *testing.T) {
	t.Parallel()
	const name = "relay"
	b := setup(t)
	dir := copyCharts(t, b)
	chart := filepath.Join(dir, name)
	require.NoError(t, os.CopyFS(chart, os.DirFS(filepath.Join("testdata", name))))
	require.LessOrEqual(t, linesByHand(t, chart), maxLines)
	makeSettings(t, dir, name)

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

// makeSettings generates what make settings does for the charts when the platform has one more
// service.
func makeSettings(t *testing.T, dir, name string) {
	t.Helper()
	require.NoError(t, umbrella.Write(dir, append(serviceNames(), name)))
	require.NoError(t, schemas.Write(dir))
}

// linesByHand counts the lines of a chart without its tests and before anything is generated.
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

// changed lists the files that differ between two folders of charts, without the new service's own,
// relative to the checkout.
func changed(t *testing.T, before, after, name string) []string {
	t.Helper()
	var all []string
	require.NoError(t, filepath.WalkDir(after, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		file, err := filepath.Rel(after, path)
		if err != nil || strings.HasPrefix(file, name+"/") {
			return err
		}
		if d.Type()&fs.ModeSymlink != 0 {
			if _, err := os.Lstat(filepath.Join(before, file)); err != nil {
				all = append(all, "deploy/helm/"+file)
			}
		} else if read(t, path) != read(t, filepath.Join(before, file)) {
			all = append(all, "deploy/helm/"+file)
		}
		return nil
	}))
	return all
}

// requireListed compares the changed files with the table of services/README.md.
func requireListed(t *testing.T, b fixture, files []string) {
	t.Helper()
	_, section, found := strings.Cut(read(t, filepath.Join(b.layout.Root, "services", "README.md")), "\n## A tenth service\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(section, -1)
	require.NotEmpty(t, rows)
	require.LessOrEqual(t, len(rows), maxFiles)
	var listed []string
	for _, row := range rows {
		listed = append(listed, strings.NewReplacer("<name>", "promo", "<caller>", "gateway").Replace(row[1]))
	}
	require.Subset(t, listed, files)
}
