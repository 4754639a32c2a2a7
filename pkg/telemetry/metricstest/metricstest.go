// Package metricstest reads the counters and gauges of this process as Prometheus would.
package metricstest

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// MetricSum returns the sum of a metric's values over all label sets that contain these labels; ok
// is false when there is none.
func MetricSum(t testing.TB, metric string, labels map[string]string) (sum float64, ok bool) {
	t.Helper()
	for _, s := range gather(t) {
		if s.name == metric && s.has(labels) {
			sum += s.value
			ok = true
		}
	}
	return sum, ok
}

// ByLabel returns the values of a metric, keyed by the value of one of its labels.
func ByLabel(t testing.TB, metric, label string) map[string]float64 {
	t.Helper()
	values := make(map[string]float64)
	for _, s := range gather(t) {
		if value, ok := s.labels[label]; ok && s.name == metric {
			values[value] += s.value
		}
	}
	return values
}

// ByName returns the values of all metrics with a label of this value, keyed by the metric's name.
func ByName(t testing.TB, label, value string) map[string]float64 {
	t.Helper()
	values := make(map[string]float64)
	for _, s := range gather(t) {
		if s.has(map[string]string{label: value}) {
			values[s.name] += s.value
		}
	}
	return values
}

// labelledValue is a counter or gauge with its labels.
type labelledValue struct {
	name   string
	labels map[string]string
	value  float64
}

func (s *labelledValue) has(labels map[string]string) bool {
	for name, value := range labels {
		if got, ok := s.labels[name]; !ok || got != value {
			return false
		}
	}
	return true
}

func gather(t testing.TB) (all []labelledValue) {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if m.GetCounter() == nil && m.GetGauge() == nil {
				continue
			}
			s := labelledValue{name: f.GetName(), labels: make(map[string]string), value: m.GetCounter().GetValue() + m.GetGauge().GetValue()}
			for _, l := range m.GetLabel() {
				s.labels[l.GetName()] = l.GetValue()
			}
			all = append(all, s)
		}
	}
	return all
}
