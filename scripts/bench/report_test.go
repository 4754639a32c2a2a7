package bench

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/benchtest"
	"urr.guru/scripts/process"
)

func TestReportShowsEveryKindOfRow(t *testing.T) {
	t.Parallel()
	raw := []benchtest.Round{{Value: 10, Baseline: 20}, {Value: 20, Baseline: 30}}
	r := Report{
		Rows: []benchtest.Result{
			{Name: "best", Besides: "bare", Value: 10, Baseline: 20, Ratio: 2, Must: 1, Aim: 1.5, Raw: raw},
			{Name: "over", Besides: "bare", Ratio: 2, Must: 1, Parts: map[string]float64{"calls": 3}, Limits: map[string]float64{"calls": 2}, Raw: raw},
			{Name: "limited", Value: 15, Unit: "MB", Parts: map[string]float64{"calls": 2}, Limits: map[string]float64{"calls": 2}, Raw: raw},
		},
		Failed: []Failure{{Row: "broken", Error: "no server"}},
	}
	var out strings.Builder
	r.Print(&out)
	lines := strings.Fields(out.String())
	text := strings.Join(lines, " ")
	for _, want := range []string{
		"best 10 20 2 1 1.5 aim rounds 2 1.5", "over 2 1 misses, calls above 2 calls 3 rounds 2 1.5", "limited 15 ok MB calls 2 rounds 10 20",
	} {
		require.Contains(t, text, want)
	}
	require.ErrorContains(t, r.Unmeasured(), "not measured: broken: no server")
	require.NoError(t, Report{}.Unmeasured())

	file := filepath.Join(t.TempDir(), "bench", "report.json")
	require.NoError(t, r.Keep(file))
	var kept Report
	_, err := process.Load(file, &kept)
	require.NoError(t, err)
	require.Equal(t, r, kept)
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	require.Equal(t, "misses, calls above 2", outcome(benchtest.Result{Ratio: 1, Parts: map[string]float64{"calls": 3}, Limits: map[string]float64{"calls": 2}}))
	require.Equal(t, "ok", outcome(benchtest.Result{Ratio: 1, Must: 1, Aim: 2}))
	require.Equal(t, "aim", outcome(benchtest.Result{Ratio: 2, Must: 1, Aim: 2}))
}
