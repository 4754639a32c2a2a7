package event

import (
	"fmt"
	"time"

	"urr.guru/pkg/errs"
)

// CancellationFee is the share of the price, in percent, that is kept of a ticket which its user gives
// back before Until.
type CancellationFee struct {
	Until   time.Time
	Percent int32
}

// CancellationFees have ascending times. After the last one its share is kept.
type CancellationFees []CancellationFee

// Kept returns what is kept of a price at a time. It is rounded down: the payer gets the remainder.
func (f CancellationFees) Kept(price int64, now time.Time) int64 {
	var percent int64
	for _, step := range f {
		percent = int64(step.Percent)
		if now.Before(step.Until) {
			break
		}
	}
	return price/100*percent + price%100*percent/100 // price * percent might overflow
}

// check checks the order of the times; nil is what a PUT leaves out.
func (f *CancellationFees) check() (bad []errs.Field) {
	if f == nil {
		return nil
	}
	for i, step := range *f {
		if i > 0 && !step.Until.After((*f)[i-1].Until) {
			bad = append(bad, errs.Field{Path: fmt.Sprintf("cancellationFees.steps[%d].until", i), Message: "must be after the one before"})
		}
	}
	return bad
}

// stored returns the fees as the database returns them.
func (f *CancellationFees) stored() *CancellationFees {
	if f == nil {
		return nil
	}
	stored := make(CancellationFees, len(*f))
	for i, step := range *f {
		stored[i] = CancellationFee{Until: toMicroseconds(step.Until), Percent: step.Percent}
	}
	return &stored
}
