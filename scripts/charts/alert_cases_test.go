package charts_test

import (
	"context"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"urr.guru/pkg/charttest"
)

// alertNamespace is the namespace of the rendered release, and of the series in all cases.
const alertNamespace = "shop"

// alertRule is a rule in the rendered PrometheusRule.
type alertRule struct {
	Alert, Expr, For string
	Annotations      struct{ Summary string }
}

// alertCase is one case of testdata/alerts.yaml.
type alertCase struct {
	Fires, Silent string
	Every         string // between two samples, and two evaluations; empty: a minute
	Series        map[string]string
	Labels        map[string]string
}

// The cases are in testdata/alerts.yaml, which also describes their format.
func TestAlertsFireAndStaySilent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	rules := alertRules(t, b)
	require.Len(t, rules["UrrServiceDown"], len(services()), "a rule per service")
	var cases map[string][]alertCase
	raw := read(t, filepath.Join(b.layout.Root, "scripts", "charts", "testdata", "alerts.yaml"))
	require.NoError(t, yaml.Unmarshal([]byte(raw), &cases))
	for name := range cases {
		require.Contains(t, rules, name, "cases of an alert that does not exist")
	}
	for name, alertsRules := range rules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kinds := make(map[bool]bool)
			for _, c := range cases[name] {
				require.NotEqual(t, c.Fires == "", c.Silent == "", "a case either fires or stays silent: %+v", c)
				kinds[c.Fires != ""] = true
				t.Run(c.Fires+c.Silent, func(t *testing.T) { c.check(t, alertsRules) })
			}
			require.True(t, kinds[true], "no case in which the alert fires")
			require.True(t, kinds[false], "no case in which the alert stays silent")
		})
	}
}

// check evaluates the rules of one alert at each sample.
func (c alertCase) check(t *testing.T, rules []alertRule) {
	t.Helper()
	every := time.Minute
	if c.Every != "" {
		var err error
		every, err = time.ParseDuration(c.Every)
		require.NoError(t, err)
	}
	data, samples := series(t, c.Series, every, alertNamespace)
	firing := make([]map[string]labels.Labels, samples)
	for _, rule := range rules {
		for i, alerts := range rule.firing(t, data, samples, every) {
			if firing[i] == nil {
				firing[i] = make(map[string]labels.Labels)
			}
			for id, l := range alerts {
				firing[i][id] = l
			}
		}
	}
	if c.Silent != "" {
		for i, alerts := range firing {
			require.Empty(t, alerts, "fires at sample %d", i)
		}
		return
	}
	require.Len(t, firing[samples-1], 1, "alerts that fire at the end")
	for _, l := range firing[samples-1] {
		for name, value := range c.Labels {
			require.Equal(t, value, l.Get(name), "label %s", name)
		}
		for _, m := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(rules[0].Annotations.Summary, -1) {
			require.True(t, l.Has(m[1]), "the summary names the label %s, which the alert does not have", m[1])
		}
	}
	if strings.Contains(rules[0].Expr, "absent(") {
		return
	}
	elsewhere, _ := series(t, c.Series, every, "another")
	for _, rule := range rules {
		for _, alerts := range rule.firing(t, elsewhere, samples, every) {
			require.Empty(t, alerts, "fires for series of another namespace")
		}
	}
}

// firing returns, for each sample, the alerts that fire: those whose expression has returned the
// same labels for the time For.
func (r alertRule) firing(t *testing.T, data seriesData, samples int, every time.Duration) []map[string]labels.Labels {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute})
	wait, err := model.ParseDuration(r.For)
	require.NoError(t, err)
	firing := make([]map[string]labels.Labels, samples)
	since := make(map[string]int)
	for i := range samples {
		query, err := engine.NewInstantQuery(t.Context(), data, nil, r.Expr, time.Unix(0, 0).Add(time.Duration(i)*every))
		require.NoError(t, err, r.Expr)
		result := query.Exec(t.Context())
		require.NoError(t, result.Err, r.Expr)
		require.Empty(t, result.Warnings, r.Expr)
		vector, err := result.Vector()
		require.NoError(t, err)
		active := make(map[string]int)
		firing[i] = make(map[string]labels.Labels)
		for _, sample := range vector {
			id := sample.Metric.String()
			begin, pending := since[id]
			if !pending {
				begin = i
			}
			active[id] = begin
			if time.Duration(i-begin)*every >= time.Duration(wait) {
				firing[i][id] = sample.Metric.Copy()
			}
		}
		since = active
		query.Close()
	}
	return firing
}

// alertRules returns the rules that the umbrella chart renders, by the names of their alerts.
func alertRules(t *testing.T, b fixture) map[string][]alertRule {
	t.Helper()
	rendered := b.run(t, nil, "helm", append([]string{
		"template", "urr", b.charts("urr"), "--namespace", alertNamespace, "--show-only", "templates/monitoring.yaml",
		"--set", "monitoring.enabled=true", "--set", "monitoring.runbooks=https://git.example/urr",
		"--set", "global.networkPolicy.metricsFrom[0].podSelector.matchLabels.a=b",
	}, b.umbrellaArgs()...)...)
	rules := make(map[string][]alertRule)
	type ruleObject struct {
		Spec struct{ Groups []struct{ Rules []alertRule } }
	}
	for _, object := range charttest.Decode[ruleObject](t, rendered) {
		for _, group := range object.Spec.Groups {
			for _, rule := range group.Rules {
				rules[rule.Alert] = append(rules[rule.Alert], rule)
			}
		}
	}
	require.NotEmpty(t, rules)
	return rules
}

// seriesData is a Prometheus storage that has the series of a case.
type seriesData []storage.Series

// series parses the series of a case. It also returns the number of samples.
func series(t *testing.T, described map[string]string, every time.Duration, namespace string) (data seriesData, n int) {
	t.Helper()
	for name, values := range described {
		l, samples, err := parser.ParseSeriesDesc(name + " " + values)
		require.NoError(t, err, "%s %s", name, values)
		require.False(t, l.Has("namespace"), "%s: every series is of the release's namespace", name)
		var list []chunks.Sample
		for i, v := range samples {
			if !v.Omitted {
				list = append(list, sample{int64(i) * every.Milliseconds(), v.Value})
			}
		}
		n = max(n, len(samples))
		data = append(data, storage.NewListSeries(labels.NewBuilder(l).Set("namespace", namespace).Labels(), list))
	}
	return data, n
}

// sample is a sample of a series; t is in milliseconds.
type sample struct {
	t int64
	v float64
}

func (s sample) T() int64                    { return s.t }
func (sample) ST() int64                     { return 0 }
func (s sample) F() float64                  { return s.v }
func (sample) H() *histogram.Histogram       { return nil }
func (sample) FH() *histogram.FloatHistogram { return nil }
func (sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample         { return s }

var _ storage.Queryable = seriesData(nil)

func (d seriesData) Querier(int64, int64) (storage.Querier, error) { return querier(d), nil }

type querier []storage.Series

func (q querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	set := &seriesSet{at: -1}
	for _, s := range q {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.Labels().Get(m.Name)) }) {
			set.series = append(set.series, s)
		}
	}
	return set
}

// LabelValues implements storage.Querier; the engine does not call it.
func (querier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, errors.ErrUnsupported
}

// LabelNames implements storage.Querier; the engine does not call it.
func (querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, errors.ErrUnsupported
}

func (querier) Close() error { return nil }

type seriesSet struct {
	series []storage.Series
	at     int
}

func (s *seriesSet) Next() bool                      { s.at++; return s.at < len(s.series) }
func (s *seriesSet) At() storage.Series              { return s.series[s.at] }
func (*seriesSet) Err() error                        { return nil }
func (*seriesSet) Warnings() annotations.Annotations { return nil }
