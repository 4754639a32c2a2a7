package benchtest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/benchtest"
)

func TestRoundsAlternateAndTheFirstOnlyWarmsUp(t *testing.T) {
	t.Parallel()
	var order string
	figure := func(name string, values ...float64) benchtest.MeasureFunc {
		return func(context.Context) (float64, map[string]float64, error) {
			order += name
			v := values[0]
			values = values[1:]
			return v, map[string]float64{"part": v / 2}, nil
		}
	}
	c, err := benchtest.New(t.Context(), figure("s", 100, 10, 20, 40), figure("b", 100, 5, 20, 10))
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, c.Round(t.Context()))
	}
	require.Equal(t, "sb"+"bs"+"sb"+"bs", order)
	r := c.Result(benchtest.Result{Name: "row", Must: 0.5})
	require.InDelta(t, 20, r.Value, 0)
	require.InDelta(t, 10, r.Baseline, 0)
	require.InDelta(t, 0.5, r.Ratio, 0, "the median of the rounds' ratios")
	require.InDelta(t, 10, r.Parts["part"], 0)
	require.True(t, r.OK())
	require.Len(t, r.Raw, 3)

	r.Limits = map[string]float64{"part": 10}
	require.True(t, r.OK())
	r.Limits = map[string]float64{"part": 9, "missing": 1}
	require.False(t, r.OK())
	require.Equal(t, []string{"missing", "part"}, r.Exceeded())
}

func TestRowWithoutBaselineHasLimitsOnly(t *testing.T) {
	t.Parallel()
	c, err := benchtest.New(t.Context(), func(context.Context) (float64, map[string]float64, error) {
		return 3, map[string]float64{"memory": 3}, nil
	}, nil)
	require.NoError(t, err)
	require.NoError(t, c.Round(t.Context()))
	r := c.Result(benchtest.Result{Name: "row", Limits: map[string]float64{"memory": 3}})
	require.True(t, r.OK())
	require.Zero(t, r.Ratio)
	r.Limits["memory"] = 2
	require.False(t, r.OK())
}

func TestSlowerNamesRowsThatAreMuchSlower(t *testing.T) {
	t.Parallel()
	before := []benchtest.Result{{Name: "same", Ratio: 0.5}, {Name: "slower", Ratio: 0.5}, {Name: "gone", Ratio: 1}, {Name: "alike", Value: 4}, {Name: "more", Value: 4}}
	now := []benchtest.Result{
		{Name: "same", Ratio: 0.41}, {Name: "slower", Ratio: 0.39}, {Name: "new", Ratio: 0.1}, {Name: "alike", Value: 4.9}, {Name: "more", Value: 5.1, Unit: "MB"},
	}
	require.Equal(t, []string{"slower: 0.39, before 0.50", "more: 5.10 MB, before 4.00"}, benchtest.SlowerRows(now, before))
}
