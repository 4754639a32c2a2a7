package event

import (
	"fmt"
	"time"

	"urr.guru/pkg/errs"
)

// CancellationFee says that the organiser keeps Percent of the price of a ticket that its user
// gives back before Until.
type CancellationFee struct {
	Until   time.Time
	Percent int32
}

// CancellationFees are sorted by Until. After the last Until the last percentage still applies.
type CancellationFees []CancellationFee

// Kept returns the part of a ticket's price that the organiser keeps if the ticket is given back at
// the time now. It is rounded down, in favour of the payer.
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

// check returns an error for each Until that is not after the previous one. f may be nil.
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

// stored returns the fees with their times truncated to the precision of the database.
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
