// Package bench measures what the hot paths of the platform cost, beside a named baseline in the
// same run. Machines differ and are shared with other work, so a figure is only compared with its
// baseline: both are measured in alternating rounds, and the median of the rounds' ratios is
// reported. CPU time is that of whole processes, as the kernel counts it.
package bench

import (
	"context"
	"fmt"
	"slices"
)

// Result is the outcome of a row.
type Result struct {
	Name string `json:"name"`
	// What says what Value measures, Besides what Baseline measures.
	What     string  `json:"what"`
	Besides  string  `json:"besides"`
	Unit     string  `json:"unit"`
	Value    float64 `json:"value"`    // median over the rounds
	Baseline float64 `json:"baseline"` // median over the rounds
	// Ratio is the median of Baseline / Value over the rounds: more is better.
	Ratio float64 `json:"ratio"`
	// Must is the least ratio that is accepted, Aim the one to strive for.
	Must float64 `json:"must"`
	Aim  float64 `json:"aim"`
	// Parts splits Value by process, and adds those that are not in it, as the stores.
	Parts map[string]float64 `json:"parts"`
	Raw   []Round            `json:"rounds"`
}

// Round is one measurement of both.
type Round struct {
	Value    float64            `json:"value"`
	Baseline float64            `json:"baseline"`
	Parts    map[string]float64 `json:"parts"`
}

// OK reports whether the row reaches what it must.
func (r Result) OK() bool { return r.Ratio >= r.Must }

// side is one of the two things that a round measures. It returns the figure and its parts.
type side func(context.Context) (value float64, parts map[string]float64, err error)

// measure runs the rounds after one that warms up. The order alternates, so that neither side
// always runs after the other.
func measure(ctx context.Context, rounds int, subject, baseline side) ([]Round, error) {
	var all []Round
	for i := range rounds + 1 {
		var r Round
		run := []func() error{
			func() (err error) { r.Value, r.Parts, err = subject(ctx); return err },
			func() (err error) { r.Baseline, _, err = baseline(ctx); return err },
		}
		if i%2 == 1 {
			slices.Reverse(run)
		}
		for _, do := range run {
			if err := do(); err != nil {
				return nil, err
			}
		}
		if i > 0 {
			all = append(all, r)
		}
	}
	return all, nil
}

// summarize fills the medians in.
func summarize(r Result, rounds []Round) Result {
	r.Raw, r.Parts = rounds, map[string]float64{}
	r.Value = median(rounds, func(r Round) float64 { return r.Value })
	r.Baseline = median(rounds, func(r Round) float64 { return r.Baseline })
	r.Ratio = median(rounds, func(r Round) float64 { return r.Baseline / r.Value })
	for name := range rounds[0].Parts {
		r.Parts[name] = median(rounds, func(r Round) float64 { return r.Parts[name] })
	}
	return r
}

func median(rounds []Round, of func(Round) float64) float64 {
	v := make([]float64, len(rounds))
	for i, r := range rounds {
		v[i] = of(r)
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// Slower names the rows whose ratio is more than a fifth below that of an earlier report.
func Slower(now, before []Result) []string {
	var slower []string
	for _, r := range now {
		i := slices.IndexFunc(before, func(b Result) bool { return b.Name == r.Name })
		if i >= 0 && r.Ratio < 0.8*before[i].Ratio {
			slower = append(slower, fmt.Sprintf("%s: %.2f, before %.2f", r.Name, r.Ratio, before[i].Ratio))
		}
	}
	return slower
}
