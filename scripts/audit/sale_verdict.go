package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"urr.guru/pkg/loop"
	"urr.guru/scripts/crowd"
)

// SaleVerdict is the result of a run of the demo, with the names of its last line.
type SaleVerdict struct {
	Visitors          int `json:"visitors"`
	Seats             int `json:"seats"`
	Sold              int `json:"sold"`
	Oversold          int `json:"oversold"`
	PaidWithoutTicket int `json:"paid_without_ticket"`
	// OverThreshold, OutOfOrder and ExtraTurns are visible in the stores only; nil: unknown.
	OverThreshold *int `json:"over_threshold"`
	OutOfOrder    *int `json:"out_of_order"`
	ExtraTurns    *int `json:"extra_turns"`
	ForgedIn      int  `json:"forged_in"`
	// Unbalanced counts the payments of which the provider keeps another amount than they pay for;
	// nil: unknown.
	Unbalanced *int `json:"unbalanced"`
	// OpenedAfterRefund counts the tickets that a door let in after their refund was decided, by
	// the stores or by what the visitors saw.
	OpenedAfterRefund int `json:"opened_after_refund"`
	// Other counts all other inconsistencies of the stores; the last line contains it if it is not
	// 0.
	Other int `json:"other"`
}

// OK reports whether every seat was sold once, to visitors who waited and paid, as far as that is
// known.
func (v SaleVerdict) OK() bool {
	none := func(n *int) bool { return n == nil || *n == 0 }
	return v.Sold == v.Seats && v.Oversold == 0 && v.PaidWithoutTicket == 0 && none(v.OverThreshold) && none(v.OutOfOrder) &&
		none(v.ExtraTurns) && v.ForgedIn == 0 && none(v.Unbalanced) && v.OpenedAfterRefund == 0 && v.Other == 0
}

func (v SaleVerdict) Line() string {
	known := func(n *int) string {
		if n == nil {
			return "unknown"
		}
		return strconv.Itoa(*n)
	}
	figures := fmt.Sprintf("visitors=%d seats=%d sold=%d oversold=%d paid_without_ticket=%d over_threshold=%s out_of_order=%s extra_turns=%s forged_in=%d",
		v.Visitors, v.Seats, v.Sold, v.Oversold, v.PaidWithoutTicket, known(v.OverThreshold), known(v.OutOfOrder), known(v.ExtraTurns), v.ForgedIn)
	figures += fmt.Sprintf(" unbalanced=%s opened_after_refund=%d", known(v.Unbalanced), v.OpenedAfterRefund)
	return LastLine("demo", v.OK(), figures, v.Other)
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

	// judge determines the verdict on a run and adds it to v.
	judge(ctx context.Context, run SaleRun, v *saleFindings) error
}

var (
	_ SaleJudge = (*SaleInStores)(nil)
	_ SaleJudge = (*PublicSale)(nil)
)

// SaleRun is what the demo of a sale has observed itself.
type SaleRun struct {
	Visitors, Seats, Threshold int
	// Tally is that of the crowd of the sale, and Cancelled that of the event that was cancelled.
	Tally, Cancelled *crowd.Tally
	Samples          []Sample
	// Faults are other contradictions that the demo saw, a sentence each.
	Faults []string
}

// saleFindings is the verdict on a sale with its evidence.
type saleFindings struct {
	SaleVerdict
	Findings

	opened []string // the tickets that the stores say were opened after their refund
}

// settleWithin is how long after the last visitor late webhooks and the saga's events may still
// arrive.
const settleWithin = 45 * time.Second

// JudgeSale determines the verdict on a run of the demo, with its evidence.
func JudgeSale(ctx context.Context, by SaleJudge, run SaleRun) (SaleVerdict, Findings, error) {
	v := saleFindings{SaleVerdict: SaleVerdict{Visitors: run.Visitors, Seats: run.Seats}}
	if err := by.judge(ctx, run, &v); err != nil {
		return v.SaleVerdict, v.Findings, err
	}
	v.count(run)
	return v.SaleVerdict, v.Findings, nil
}

// count adds what the demo has observed itself to what a judge has found.
func (v *saleFindings) count(run SaleRun) {
	v.ForgedIn += int(run.Tally.ForgedIn.Load())
	for _, tally := range []*crowd.Tally{run.Tally, run.Cancelled} {
		v.opened = append(v.opened, tally.OpenedAfterRefund()...)
		v.Other += len(tally.WrongAnswers())
		for _, violation := range tally.Violations() {
			v.Add("%s", violation)
		}
	}
	slices.Sort(v.opened)
	v.OpenedAfterRefund = len(slices.Compact(v.opened))
	v.Other += len(run.Faults)
	for _, fault := range run.Faults {
		v.Add("%s", fault)
	}
}

// samplesOverThreshold counts the samples with more active visitors than the threshold allows.
func (r SaleRun) samplesOverThreshold() (n int) {
	for _, s := range r.Samples {
		if s.Active > int64(r.Threshold) {
			n++
		}
	}
	return n
}

// PublicSale judges a platform without access to its stores, by public information and by what
// the visitors saw. Sold comes from the public figures; oversold counts seats for which two
// visitors of the crowd hold a ticket; paid without ticket counts visitors whose payment was
// confirmed and who saw no ticket. The number of visitors inside and the order of admissions are
// visible in the stores only, and stay unknown.
type PublicSale struct {
	Visitor *crowd.Session
	EventID string
}

// Begin prints that the run is judged by public information.
func (o *PublicSale) Begin(context.Context) error {
	fmt.Println("the stores are not named: the run is judged by what the visitors see (see “Another platform” in scripts/README.md)")
	return nil
}

func (o *PublicSale) Sample(ctx context.Context) (s Sample, err error) {
	s.Sold, err = o.readSold(ctx)
	return s, err
}

func (o *PublicSale) readSold(ctx context.Context) (int64, error) {
	ans, err := o.Visitor.Call(ctx, crowd.StepFigures, http.MethodGet, "/api/v1/stats/events/"+o.EventID, nil, nil)
	if err != nil {
		return 0, err
	}
	if !ans.OK() {
		return 0, fmt.Errorf("the figures of %s: %d %s", o.EventID, ans.Status, ans.Body)
	}
	var figures struct {
		SeatsSold int64 `json:"seatsSold"`
	}
	if err := json.Unmarshal(ans.Body, &figures); err != nil {
		return 0, fmt.Errorf("the figures of %s: %w", o.EventID, err)
	}
	return figures.SeatsSold, nil
}

// Settle does not wait: judge reads the figures until the sale is sold out.
func (*PublicSale) Settle(context.Context) error { return nil }

// Damage always fails, since the stores to damage are unknown.
func (*PublicSale) Damage(context.Context, string) error {
	return errors.New("the stores are not named")
}

func (o *PublicSale) judge(ctx context.Context, run SaleRun, v *saleFindings) error {
	for deadline := time.Now().Add(settleWithin); ; {
		sold, err := o.readSold(ctx)
		over := time.Now().After(deadline)
		if err != nil && over {
			return err // until then a store may be unavailable
		}
		v.Sold = int(sold)
		if v.Sold == v.Seats || over {
			break
		}
		if !loop.Sleep(ctx, time.Second) {
			return ctx.Err()
		}
	}
	v.Oversold = len(run.Tally.DuplicateSeats()) + max(0, v.Sold-v.Seats)
	v.PaidWithoutTicket = int(run.Tally.Paid.Load() - run.Tally.Ticketed.Load())
	return nil
}

// LastLine returns the last line that a run prints: ok or FAILED, its figures, and the number of
// other faults if there are any.
func LastLine(name string, ok bool, figures string, other int) string {
	line := name + map[bool]string{true: " ok: ", false: " FAILED: "}[ok] + figures
	if other > 0 {
		line += fmt.Sprintf(" other=%d", other)
	}
	return line
}

// maxFindings keeps the report readable when there are many findings.
const maxFindings = 10

// Findings are the evidence of a verdict, a sentence each.
type Findings []string

func (f *Findings) Add(format string, args ...any) {
	if len(*f) < maxFindings {
		*f = append(*f, fmt.Sprintf(format, args...))
	}
}
