// Package benchtest compares a measured figure with a baseline on machines that differ and do other
// work too: both are measured alternately, in rounds, and the median of the rounds' ratios counts.
package benchtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// Result is the outcome of a comparison, a row of a report.
type Result struct {
	Name string `json:"name"`
	// What describes what Value measures, Besides what Baseline measures. For both, less is better.
	// A row with limits only has no baseline: Besides is empty, and Baseline and Ratio are 0.
	What     string  `json:"what"`
	Besides  string  `json:"besides"`
	Unit     string  `json:"unit"`
	Value    float64 `json:"value"`    // median over the rounds
	Baseline float64 `json:"baseline"` // median over the rounds
	// Ratio is the median of Baseline / Value over the rounds: more is better.
	Ratio float64 `json:"ratio"`
	// Must is the least ratio that is accepted, Aim the ratio to strive for.
	Must float64 `json:"must"`
	Aim  float64 `json:"aim"`
	// Parts splits Value, such as by process, and has more figures, such as of stores.
	Parts map[string]float64 `json:"parts"`
	// Limits has the largest allowed value of some of the Parts.
	Limits map[string]float64 `json:"limits,omitempty"`
	Raw    []Round            `json:"rounds"`
}

// Round is one measurement of the figure and of its baseline.
type Round struct {
	Value    float64            `json:"value"`
	Baseline float64            `json:"baseline"`
	Parts    map[string]float64 `json:"parts"`
}

func (r Result) OK() bool { return r.Ratio >= r.Must && len(r.Exceeded()) == 0 }

func (r Result) Exceeded() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(r.Limits)) {
		if part, ok := r.Parts[name]; !ok || part > r.Limits[name] {
			names = append(names, name)
		}
	}
	return names
}

// MeasureFunc measures a figure or its baseline once. It returns the value and its parts.
type MeasureFunc func(context.Context) (value float64, parts map[string]float64, err error)

// Comparison measures a figure and its baseline round by round. The order of the two alternates, so
// that neither always runs after the other. The baseline may be nil, for a row with limits only.
type Comparison struct {
	subject, baseline MeasureFunc
	rounds            []Round
	measured          int // number of rounds, the warm-up included
}

// New compares subject with baseline. It measures one round to warm up, which is not kept.
func New(ctx context.Context, subject, baseline MeasureFunc) (*Comparison, error) {
	c := &Comparison{subject: subject, baseline: baseline}
	_, err := c.measureRound(ctx)
	return c, err
}

func (c *Comparison) Round(ctx context.Context) error {
	r, err := c.measureRound(ctx)
	if err == nil {
		c.rounds = append(c.rounds, r)
	}
	return err
}

func (c *Comparison) measureRound(ctx context.Context) (r Round, err error) {
	run := []func() error{
		func() (err error) { r.Value, r.Parts, err = c.subject(ctx); return err },
	}
	if c.baseline != nil {
		run = append(run, func() (err error) { r.Baseline, _, err = c.baseline(ctx); return err })
	}
	if c.measured%2 == 1 {
		slices.Reverse(run)
	}
	c.measured++
	for _, do := range run {
		if err := do(); err != nil {
			return r, err
		}
	}
	return r, nil
}

// Result completes r with the rounds and their medians. At least one round must have been measured.
func (c *Comparison) Result(r Result) Result {
	r.Raw, r.Parts = c.rounds, map[string]float64{}
	r.Value = median(c.rounds, func(r Round) float64 { return r.Value })
	r.Baseline = median(c.rounds, func(r Round) float64 { return r.Baseline })
	if c.baseline != nil {
		r.Ratio = median(c.rounds, func(r Round) float64 { return r.Baseline / r.Value })
	}
	for name := range c.rounds[0].Parts {
		r.Parts[name] = median(c.rounds, func(r Round) float64 { return r.Parts[name] })
	}
	return r
}

func median(rounds []Round, value func(Round) float64) float64 {
	v := make([]float64, len(rounds))
	for i, r := range rounds {
		v[i] = value(r)
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// SlowerRows lists the rows whose ratio is more than a fifth below that in an earlier report. Rows
// without a baseline are compared by their values.
func SlowerRows(now, before []Result) (descriptions []string) {
	var slower []string
	for _, r := range now {
		i := slices.IndexFunc(before, func(b Result) bool { return b.Name == r.Name })
		switch {
		case i < 0:
		case r.Ratio < 0.8*before[i].Ratio:
			slower = append(slower, fmt.Sprintf("%s: %.2f, before %.2f", r.Name, r.Ratio, before[i].Ratio))
		case r.Besides == "" && before[i].Besides == "" && before[i].Value < 0.8*r.Value:
			slower = append(slower, fmt.Sprintf("%s: %.2f %s, before %.2f", r.Name, r.Value, r.Unit, before[i].Value))
		}
	}
	return slower
}
