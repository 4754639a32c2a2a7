package figures

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/benchtest"
	"urr.guru/pkg/plan"
	"urr.guru/scripts/bench"
	"urr.guru/scripts/internal/section"
	"urr.guru/scripts/platform"
)

// The generated sections in documents have the figures of the reference report.
func TestDocumentsAreCurrent(t *testing.T) {
	t.Parallel()
	layout, err := platform.Find()
	require.NoError(t, err)
	reference, err := bench.Reference(layout.Root)
	require.NoError(t, err)
	r := report{reference}
	want, err := r.planText()
	require.NoError(t, err)
	plans, err := os.ReadFile(planFile(layout.Root))
	require.NoError(t, err)
	require.Equal(t, string(want), string(plans), "run make figures")
	for _, d := range r.generatedSections() {
		raw, err := os.ReadFile(filepath.Join(layout.Root, d.path))
		require.NoError(t, err)
		current, err := section.Replace(string(raw), d.section, d.text)
		require.NoError(t, err)
		require.Equal(t, current, string(raw), "%s differs from scripts/bench/reference.json: run make figures", d.path)
	}
}

func TestTables(t *testing.T) {
	t.Parallel()
	r := report{bench.Report{
		StartedAt: time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC), Go: "go1", Processors: 2,
		Rows: []benchtest.Result{
			{Name: "event", What: "GET", Besides: "bare", Unit: "CPU-µs", Value: 31, Baseline: 24, Ratio: 0.78, Must: 0.6, Parts: map[string]float64{"gateway": 30, "ticket": 1}},
			{Name: "seat_hold", Besides: "pgbench", Unit: "µs", Value: 500, Baseline: 490, Ratio: 1, Must: 0.65, Parts: map[string]float64{"calls": 2}, Limits: map[string]float64{"calls": 2}},
			{Name: "accept", Besides: "alone", Unit: "µs", Value: 10, Baseline: 4, Ratio: 0.4, Must: 0.5, Parts: map[string]float64{"calls": 1.07}, Limits: map[string]float64{"calls": 1}},
			{Name: "memory", What: "Redis", Unit: "MB", Value: 326, Parts: map[string]float64{"all": 326}, Limits: map[string]float64{"all": 330}},
		},
	}}
	require.Equal(t, `| row | what | beside |
| --- | --- | --- |
| `+"`event`"+` | GET | bare |
| `+"`seat_hold`"+` |  | pgbench |
| `+"`accept`"+` |  | alone |
| `+"`memory`"+` | Redis |  |

Measured on 2026-11-23 with go1 and 2 processors.

| row | value | unit | baseline | ratio | must | reached |
| --- | ---: | --- | ---: | ---: | --- | --- |
| `+"`event`"+` | 31.0 | CPU-µs | 24.0 | 0.78 | ≥ 0.60 | yes |
| `+"`seat_hold`"+` | 500 | µs | 490 | 1.00 | ≥ 0.65, calls ≤ 2.00 | yes |
| `+"`accept`"+` | 10.0 | µs | 4.00 | 0.40 | ≥ 0.50, calls ≤ 1.00 | **no**: ratio 0.40, calls 1.07 |
| `+"`memory`"+` | 326 | MB |  |  | all ≤ 330 | yes |
`, r.rowsTable())

	s := plan.Opening{Kind: plan.Sale, Expected: plan.Expected{Visitors: 60_000, WithinSeconds: 60}}
	require.Contains(t, r.calculationTable([]plan.Opening{s}), "| read the event | gateway | `event` | 30.0 | 60,000/60 = 1,000 | 0.03 |\n")
	require.Contains(t, r.calculationTable([]plan.Opening{s}), "| hold seats | ticket, PostgreSQL | `seat_hold` | 500 | 100 | 0.10 |\n")
	require.Contains(t, r.calculationTable([]plan.Opening{s}), "| poll tier 1 | gateway | `serving` | not measured |")
	require.Contains(t, r.capacityTable([]plan.Opening{s}), "| ticket, PostgreSQL | 0.20 |\n", "half busy")
	require.Contains(t, r.capacityTable([]plan.Opening{s}), "| vwr | not measured |\n")
	require.Contains(t, r.capacityTable([]plan.Opening{s}), "| ticket | < 0.01, without `availability_50k` |\n")
}
