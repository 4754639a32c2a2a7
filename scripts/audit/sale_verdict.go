package audit

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"urr.guru/scripts/crowd"
)

// SaleVerdict is the result of a run of the demo, with the names of its last line.
type SaleVerdict struct {
	Visitors          int `json:"visitors"`
	Seats             int `json:"seats"`
	Sold              int `json:"sold"`
	Oversold          int `json:"oversold"`
	PaidWithoutTicket int `json:"paid_without_ticket"`
	// OverThreshold and OutOfOrder are visible in the stores only; nil: unknown.
	OverThreshold *int `json:"over_threshold"`
	OutOfOrder    *int `json:"out_of_order"`
	ForgedIn      int  `json:"forged_in"`
	// Other counts all other inconsistencies of the stores; the last line contains it if it is not
	// 0.
	Other int `json:"other"`
}

// OK reports whether every seat was sold once, to visitors who waited and paid, as far as that is
// known.
func (v SaleVerdict) OK() bool {
	none := func(n *int) bool { return n == nil || *n == 0 }
	return v.Sold == v.Seats && v.Oversold == 0 && v.PaidWithoutTicket == 0 && none(v.OverThreshold) && none(v.OutOfOrder) &&
		v.ForgedIn == 0 && v.Other == 0
}

// Line is the run's last line.
func (v SaleVerdict) Line() string {
	known := func(n *int) string {
		if n == nil {
			return "unknown"
		}
		return strconv.Itoa(*n)
	}
	return LastLine("demo", v.OK(), fmt.Sprintf("visitors=%d seats=%d sold=%d oversold=%d paid_without_ticket=%d over_threshold=%s out_of_order=%s forged_in=%d",
		v.Visitors, v.Seats, v.Sold, v.Oversold, v.PaidWithoutTicket, known(v.OverThreshold), known(v.OutOfOrder), v.ForgedIn), v.Other)
}

// SaleJudge measures and judges a run of the demo: by the stores, or by what is public.
type SaleJudge interface {
	// Begin records the state before the run.
	Begin(ctx context.Context) error
	// Sample reads the current state of the sale, as far as it is visible.
	Sample(ctx context.Context) (Sample, error)
	// Settle waits until everything in progress has completed.
	Settle(ctx context.Context) error
	// Damage damages the stores, bypassing the services.
	Damage(ctx context.Context, what string) error

	// judge sets the verdict.
	judge(ctx context.Context, run SaleRun, v *saleFindings) error
}

var (
	_ SaleJudge = (*SaleInStores)(nil)
	_ SaleJudge = (*PublicSale)(nil)
)

// SaleRun is what a run has shown.
type SaleRun struct {
	Visitors, Seats, Threshold int
	Tally                      *crowd.Tally
	Samples                    []Sample
}

// saleFindings is the verdict with its evidence.
type saleFindings struct {
	SaleVerdict
	Findings
}

// settleWithin is how long after the last visitor late webhooks and the saga's events may still
// arrive.
const settleWithin = 45 * time.Second

// JudgeSale determines the verdict.
func JudgeSale(ctx context.Context, by SaleJudge, run SaleRun) (SaleVerdict, Findings, error) {
	v := saleFindings{SaleVerdict: SaleVerdict{Visitors: run.Visitors, Seats: run.Seats}}
	if err := by.judge(ctx, run, &v); err != nil {
		return v.SaleVerdict, v.Findings, err
	}
	v.ForgedIn += int(run.Tally.ForgedIn.Load())
	for _, violation := range run.Tally.Violations() {
		v.Add("%s", violation)
	}
	return v.SaleVerdict, v.Findings, nil
}

// over counts the samples with more active visitors than the threshold allows.
func (r SaleRun) over() (n int) {
	for _, s := range r.Samples {
		if s.Active > int64(r.Threshold) {
			n++
		}
	}
	return n
}
