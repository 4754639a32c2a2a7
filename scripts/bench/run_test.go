package bench

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/benchtest"
)

// measureAll measures a group of rows, in which the broken ones fail. It returns the report and how
// often the group was started.
func measureAll(t *testing.T, broken []string, rows ...string) (r Report, runs int) {
	t.Helper()
	g := rowGroup{rows: rows, run: func(_ context.Context, _ Options, wanted []string, addResult func(benchtest.Result)) error {
		runs++
		for _, name := range wanted {
			if slices.Contains(broken, name) {
				return errors.New(name + " is broken")
			}
			addResult(benchtest.Result{Name: name})
		}
		return nil
	}}
	r, err := measure(t.Context(), Options{Say: func(string, ...any) {}}, []rowGroup{g})
	require.NoError(t, err)
	return r, runs
}

func names(r Report) (rows, failed []string) {
	for _, row := range r.Rows {
		rows = append(rows, row.Name)
	}
	for _, f := range r.Failed {
		failed = append(failed, f.Row)
	}
	return rows, failed
}

// If a row fails, the report has it as failed, and the rows after it are still measured.
func TestFailedRowLosesNoOther(t *testing.T) {
	t.Parallel()
	r, runs := measureAll(t, []string{"b"}, "a", "b", "c", "d")
	rows, failed := names(r)
	require.Equal(t, []string{"a", "c", "d"}, rows)
	require.Equal(t, []string{"b"}, failed)
	require.Equal(t, "b is broken", r.Failed[0].Error)
	require.Equal(t, 2, runs)
	require.Len(t, r.RowSeconds, 3)

	r, _ = measureAll(t, []string{"a", "d"}, "a", "b", "c", "d")
	rows, failed = names(r)
	require.Equal(t, []string{"b", "c"}, rows)
	require.Equal(t, []string{"a", "d"}, failed)
}

// If a group's processes do not start, the group is tried twice, and all its rows are failures.
func TestGroupThatCannotRunIsGivenUp(t *testing.T) {
	t.Parallel()
	all := []string{"a", "b", "c", "d"}
	r, runs := measureAll(t, all, all...)
	rows, failed := names(r)
	require.Empty(t, rows)
	require.Equal(t, []string{"a", "b, c, d"}, failed)
	require.Equal(t, 2, runs)
}

func TestGroupThatEndsWithoutARowOrBadlyIsNamed(t *testing.T) {
	t.Parallel()
	silent := rowGroup{rows: []string{"a"}, run: func(context.Context, Options, []string, func(benchtest.Result)) error { return nil }}
	late := rowGroup{rows: []string{"b"}, run: func(_ context.Context, _ Options, _ []string, addResult func(benchtest.Result)) error {
		addResult(benchtest.Result{Name: "b"})
		return errors.New("a process did not end")
	}}
	r, err := measure(t.Context(), Options{Say: func(string, ...any) {}}, []rowGroup{silent, late})
	require.NoError(t, err)
	rows, failed := names(r)
	require.Equal(t, []string{"b"}, rows)
	require.Equal(t, []string{"a", "b"}, failed)
}

// After an interrupt, the report has the rows measured before, and all other rows as failed.
func TestInterruptedRunEnds(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	g := rowGroup{rows: []string{"a", "b"}, run: func(_ context.Context, _ Options, _ []string, addResult func(benchtest.Result)) error {
		addResult(benchtest.Result{Name: "a"})
		stop()
		return context.Canceled
	}}
	var kept []Report
	never := rowGroup{rows: []string{"c"}}
	opts := Options{Say: func(string, ...any) {}, Keep: func(r Report) { kept = append(kept, r) }}
	r, err := measure(ctx, opts, []rowGroup{g, never})
	require.ErrorIs(t, err, context.Canceled)
	rows, failed := names(r)
	require.Equal(t, []string{"a"}, rows)
	require.Equal(t, []string{"b, c"}, failed)
	require.Len(t, kept, 2)
	require.Equal(t, r.Rows, kept[0].Rows)
	require.Empty(t, kept[0].Failed)
}
