package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/rounds"
	"urr.guru/scripts/bench"
)

func TestPageShowsEveryKindOfRow(t *testing.T) {
	t.Parallel()
	raw := []rounds.Round{{Value: 10, Baseline: 20}, {Value: 20, Baseline: 30}}
	r := bench.Report{
		Rows: []rounds.Result{
			{Name: "best", Besides: "bare", Value: 10, Baseline: 20, Ratio: 2, Must: 1, Aim: 1.5, Raw: raw},
			{Name: "over", Besides: "bare", Value: 10, Baseline: 20, Ratio: 2, Must: 1, Parts: map[string]float64{"calls": 3}, Limits: map[string]float64{"calls": 2}, Raw: raw},
			{Name: "limited", Value: 15, Unit: "MB", Parts: map[string]float64{"calls": 2}, Limits: map[string]float64{"calls": 2}, Raw: raw},
		},
		Failed: []bench.Failure{{Row: "broken", Error: "no <server>"}},
	}
	html, err := page(r)
	require.NoError(t, err)
	for _, want := range []string{
		`<tr class="aim"><td class="text"><a href="#best">best</a><td class="text">aim`, `<tr class="misses"><td class="text"><a href="#over">over</a><td class="text">misses`, "calls 3 ≤ 2",
		`<tr class="ok"><td class="text"><a href="#limited">limited</a><td class="text">ok<td>15<td><td class="text">MB<td><td><td><td class="text">calls 2 ≤ 2`,
		"Rounds: 2.00 1.50</p>", "Rounds: 10 20</p>", "<code>broken</code>: no &lt;server&gt;",
	} {
		require.Contains(t, string(html), want)
	}
	require.ErrorContains(t, failed(r), "not measured: broken")
	require.NoError(t, failed(bench.Report{}))
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	require.Equal(t, "misses, calls above 2", outcome(rounds.Result{Ratio: 1, Parts: map[string]float64{"calls": 3}, Limits: map[string]float64{"calls": 2}}))
	require.Equal(t, "ok", outcome(rounds.Result{Ratio: 1, Must: 1, Aim: 2}))
	require.Equal(t, "aim", outcome(rounds.Result{Ratio: 2, Must: 1, Aim: 2}))
}
