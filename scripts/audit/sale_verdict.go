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

// SaleVerdict is the result of a run of the sale demo. The JSON names are those in the last line
// that the demo prints.
type SaleVerdict struct {
	Visitors          int `json:"visitors"`
	Seats             int `json:"seats"`
	Sold              int `json:"sold"`
	Oversold          int `json:"oversold"`
	PaidWithoutTicket int `json:"paid_without_ticket"`
	// OverThreshold, OutOfOrder and ExtraTurns are nil (unknown) unless the stores are read.
	OverThreshold *int `json:"over_threshold"`
	OutOfOrder    *int `json:"out_of_order"`
	ExtraTurns    *int `json:"extra_turns"`
	ForgedIn      int  `json:"forged_in"`
	// Unbalanced counts the payments for which the provider keeps more or less money than it should;
	// nil: unknown.
	Unbalanced *int `json:"unbalanced"`
	// PresaleIn counts the reservations that users without an entitlement made before the general
	// sale; nil: unknown.
	PresaleIn *int `json:"presale_in"`
	// PresaleBought counts the paid reservations that entitled users made before the general sale.
	PresaleBought int `json:"presale_bought"`
	// AdmittedAfterRefund counts the tickets that a door admitted after their refund was decided,
	// according to the stores or to visitors. Each ticket counts once.
	AdmittedAfterRefund int `json:"opened_after_refund"`
	// Withheld counts the places that are out of sale at the end although nobody has them; nil: unknown.
	Withheld *int `json:"withheld"`
	// Cheats counts the attempts to get something for nothing. Other counts those that ended wrongly.
	Cheats int `json:"cheats"`
	// Other counts all other inconsistencies. The last line contains it if it is not 0.
	Other int `json:"other"`
}

// OK reports whether every seat was sold once, to visitors who waited and paid. It ignores numbers
// that are unknown (nil).
func (v SaleVerdict) OK() bool {
	none := func(n *int) bool { return n == nil || *n == 0 }
	return v.Sold == v.Seats && v.Oversold == 0 && v.PaidWithoutTicket == 0 && none(v.OverThreshold) && none(v.OutOfOrder) &&
		none(v.ExtraTurns) && v.ForgedIn == 0 && none(v.Unbalanced) && none(v.PresaleIn) && v.AdmittedAfterRefund == 0 && none(v.Withheld) && v.Other == 0
}

func (v SaleVerdict) Line() string {
	numberText := func(n *int) string {
		if n == nil {
			return "unknown"
		}
		return strconv.Itoa(*n)
	}
	figures := fmt.Sprintf("visitors=%d seats=%d sold=%d oversold=%d paid_without_ticket=%d over_threshold=%s out_of_order=%s extra_turns=%s forged_in=%d",
		v.Visitors, v.Seats, v.Sold, v.Oversold, v.PaidWithoutTicket, numberText(v.OverThreshold), numberText(v.OutOfOrder), numberText(v.ExtraTurns), v.ForgedIn)
	figures += fmt.Sprintf(" unbalanced=%s presale_in=%s opened_after_refund=%d withheld=%s cheats=%d",
		numberText(v.Unbalanced), numberText(v.PresaleIn), v.AdmittedAfterRefund, numberText(v.Withheld), v.Cheats)
	return LastLine("demo", v.OK(), figures, v.Other)
}

// SaleJudge judges a run of the sale demo, either from the stores or from public information.
type SaleJudge interface {
	// Begin reads the state of the stores before the run, to compare it with their later state.
	Begin(ctx context.Context) error
	// ReadNumbers reads the current numbers of the sale that this judge has access to.
	ReadNumbers(ctx context.Context) (SaleNumbers, error)
	// Settle waits until all effects of the visitors' requests are complete.
	Settle(ctx context.Context) error
	// InjectFault damages the stored data directly, to show that the judge detects the fault.
	InjectFault(ctx context.Context, fault string) error

	// judge computes the verdict on a run and stores it in v.
	judge(ctx context.Context, run SaleRun, v *saleFindings) error
}

var (
	_ SaleJudge = (*SaleInStores)(nil)
	_ SaleJudge = (*PublicSale)(nil)
)

// SaleRun is what the sale demo has observed, without reading a store.
type SaleRun struct {
	Visitors, Seats, Threshold int
	// Tally is what the visitors of the sale saw, and Beside what those of smaller sales beside it saw.
	Tally   *crowd.Tally
	Beside  []*crowd.Tally
	Cheats  int // attempts to get something for nothing
	Samples []SaleNumbers
	// Faults describe, in a sentence each, other contradictions that the demo observed.
	Faults []string
}

// saleFindings is the verdict on a sale and the sentences that explain it.
type saleFindings struct {
	SaleVerdict
	Findings

	opened []string // ids of the tickets that were admitted after their refund was decided
}

// settleWithin is the longest wait, after the last visit, for late webhooks and Kafka events.
const settleWithin = 45 * time.Second

// JudgeSale computes the verdict on a run of the sale demo, and the sentences that explain it.
func JudgeSale(ctx context.Context, judge SaleJudge, run SaleRun) (SaleVerdict, Findings, error) {
	v := saleFindings{SaleVerdict: SaleVerdict{Visitors: run.Visitors, Seats: run.Seats}}
	if err := judge.judge(ctx, run, &v); err != nil {
		return v.SaleVerdict, v.Findings, err
	}
	v.addObserved(run)
	return v.SaleVerdict, v.Findings, nil
}

// addObserved adds to the verdict what the demo and its visitors have observed.
func (v *saleFindings) addObserved(run SaleRun) {
	v.ForgedIn += int(run.Tally.ForgedIn.Load())
	v.Cheats = run.Cheats
	for _, tally := range append([]*crowd.Tally{run.Tally}, run.Beside...) {
		v.opened = append(v.opened, tally.AdmittedAfterRefund()...)
		v.Other += len(tally.WrongAnswers())
		for _, violation := range tally.Violations() {
			v.Add("%s", violation)
		}
	}
	slices.Sort(v.opened)
	v.AdmittedAfterRefund = len(slices.Compact(v.opened))
	v.Other += len(run.Faults)
	for _, fault := range run.Faults {
		v.Add("%s", fault)
	}
}

// samplesOverThreshold counts the samples with more visitors in the shop than slots.
func (r SaleRun) samplesOverThreshold() (n int) {
	for _, s := range r.Samples {
		if s.Active > int64(r.Threshold) {
			n++
		}
	}
	return n
}

// PublicSale judges a sale without access to the stores, by public information and by what visitors
// saw. Sold is the public figure. Oversold counts seats for which two visitors hold a ticket.
// PaidWithoutTicket counts visitors whose payment was confirmed but who saw no ticket. The number
// of visitors in the shop, the order of admissions, the buyers in the presale and the withheld places
// are not known.
type PublicSale struct {
	Visitor *crowd.Session
	EventID string
}

// Begin prints that the judge uses only public information.
func (o *PublicSale) Begin(context.Context) error {
	fmt.Println("the stores are not named: the run is judged by what the visitors see (see “Another platform” in scripts/README.md)")
	return nil
}

func (o *PublicSale) ReadNumbers(ctx context.Context) (s SaleNumbers, err error) {
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

// Settle does not wait, since judge waits until the public figures say that the sale is sold out.
func (*PublicSale) Settle(context.Context) error { return nil }

// InjectFault always fails, since this judge has no access to the stores.
func (*PublicSale) InjectFault(context.Context, string) error {
	return errors.New("the stores are not named")
}

func (o *PublicSale) judge(ctx context.Context, run SaleRun, v *saleFindings) error {
	for deadline := time.Now().Add(settleWithin); ; {
		sold, err := o.readSold(ctx)
		expired := time.Now().After(deadline)
		if err != nil && expired {
			return err // before the deadline, a store may be unavailable
		}
		v.Sold = int(sold)
		if v.Sold == v.Seats || expired {
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

// LastLine returns the last line that a demo prints: ok or FAILED, the figures, and the number of
// other faults if there are any.
func LastLine(name string, ok bool, figures string, otherFaults int) string {
	line := name + map[bool]string{true: " ok: ", false: " FAILED: "}[ok] + figures
	if otherFaults > 0 {
		line += fmt.Sprintf(" other=%d", otherFaults)
	}
	return line
}

// maxFindings is the most sentences in a report, so that it stays readable.
const maxFindings = 10

// Findings are sentences that explain a verdict. Add keeps at most maxFindings.
type Findings []string

func (f *Findings) Add(format string, args ...any) {
	if len(*f) < maxFindings {
		*f = append(*f, fmt.Sprintf(format, args...))
	}
}
