// Package gotest lets a Go benchmark measure a row of `make bench`.
package gotest

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/benchtest"
)

// ResultFile is the environment variable with the path of the file for Compare's result, as JSON.
const ResultFile = "BENCH_RESULT"

// Compare measures one round per iteration of the benchmark (-benchtime 7x: seven rounds), after
// one to warm up, and reports the medians as a row of `make bench`.
func Compare(b *testing.B, row benchtest.Result, subject, baseline benchtest.MeasureFunc) {
	b.Helper()
	c, err := benchtest.New(b.Context(), subject, baseline)
	require.NoError(b, err)
	for b.Loop() {
		require.NoError(b, c.Round(b.Context()))
	}
	r := c.Result(row)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(r.Value, "value")
	b.ReportMetric(r.Baseline, "baseline")
	b.ReportMetric(r.Ratio, "ratio")
	for name, part := range r.Parts {
		b.ReportMetric(part, name)
	}
	if path := os.Getenv(ResultFile); path != "" { //nolint:forbidigo // set by make bench
		raw, err := json.Marshal(r)
		require.NoError(b, err)
		require.NoError(b, os.WriteFile(path, raw, 0o600))
	}
}
