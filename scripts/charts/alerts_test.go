package charts_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// foreign has the metrics of Prometheus itself and of kube-state-metrics, with their labels.
var foreign = map[string]string{ //nolint:gochecknoglobals // a constant table
	"up":                                   ``,
	"kube_job_failed":                      `"job_name" "condition"`,
	"kube_pod_status_ready":                `"condition"`,
	"kube_pod_container_resource_requests": `"resource"`,
	"kube_cronjob_created":                 `"cronjob"`,
	"kube_cronjob_status_last_successful_time":             `"cronjob"`,
	"kube_horizontalpodautoscaler_status_current_replicas": `"horizontalpodautoscaler"`,
	"kube_horizontalpodautoscaler_spec_max_replicas":       `"horizontalpodautoscaler"`,
	"kube_horizontalpodautoscaler_spec_min_replicas":       `"horizontalpodautoscaler"`,
}

// Each alert uses only metrics that exist, since it would never fire otherwise, and has an entry in
// the runbook that says what to do.
func TestAlerts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var file struct {
		Alerts []struct{ Alert, Expr, For, Severity, Summary, Runbook, Entry string }
	}
	require.NoError(t, yaml.Unmarshal([]byte(read(t, b.charts("urr", "alerts.yaml"))), &file))
	require.NotEmpty(t, file.Alerts)
	code := metricsCode(t, b)
	maps.Copy(code, foreign)
	for _, a := range file.Alerts {
		require.Regexp(t, `^Urr[A-Za-z]+$`, a.Alert)
		require.Contains(t, []string{"warning", "critical"}, a.Severity, a.Alert)
		require.NotEmpty(t, a.Summary, a.Alert)
		require.Regexp(t, `^\d+[ms]$`, a.For, a.Alert)

		selectors := regexp.MustCompile(`\b((?:urr|kube)_\w+|up\b)(\{[^}]*\})?`).FindAllStringSubmatch(a.Expr, -1)
		require.NotEmpty(t, selectors, a.Alert)
		for _, s := range selectors {
			require.True(t, strings.HasPrefix(s[2], "{$ns"), "%s: %s of every namespace", a.Alert, s[1])
			metric := regexp.MustCompile(`_(count|sum|bucket)$`).ReplaceAllString(s[1], "")
			declared, found := code[metric]
			require.True(t, found, "%s: nobody declares %s", a.Alert, metric)
			for _, label := range regexp.MustCompile(`(\w+)=~?"`).FindAllStringSubmatch(s[2], -1) {
				// The former is set by the PodMonitor, the latter by the client library for a histogram.
				if label[1] != "app_kubernetes_io_name" && label[1] != "le" {
					require.Contains(t, declared, `"`+label[1]+`"`, "%s: label of %s", a.Alert, metric)
				}
			}
		}

		page, anchor, _ := strings.Cut(a.Runbook, "#")
		text := read(t, filepath.Join(b.layout.Root, page))
		section := ""
		for part := range strings.SplitSeq("\n"+text, "\n## ") { // the entries of a section end at the next heading
			if strings.HasPrefix(part, "Runbook\n") {
				section = "## " + part
			}
		}
		require.Contains(t, anchors(section), anchor, "%s: the runbook has no such heading", a.Alert)
		require.Contains(t, section, a.Entry, "%s: the runbook has no such entry", a.Alert)
		require.True(t, a.Entry != "" || anchor != "runbook", "%s: where in the runbook?", a.Alert)
	}
}

// anchors returns the fragment names of a document's headings.
func anchors(text string) []string {
	var all []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		plain := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, strings.ReplaceAll(plain, " ", "-"))
	}
	return all
}

// metricsCode returns, by metric, the source file that declares it.
func metricsCode(t *testing.T, b fixture) map[string]string {
	t.Helper()
	code := map[string]string{}
	name := regexp.MustCompile(`"(urr_\w+)"`)
	for _, module := range []string{"pkg", "services"} {
		err := filepath.WalkDir(filepath.Join(b.layout.Root, module), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			raw, err := os.ReadFile(path)
			for _, m := range name.FindAllStringSubmatch(string(raw), -1) {
				code[m[1]] += string(raw)
			}
			return err
		})
		require.NoError(t, err)
	}
	return code
}
