package event

import (
	"strconv"
	"time"
)

const (
	// freeChanges is the number of a user's unpaid holds of an event after which each further one makes
	// the user wait before the next hold: firstPause, and twice as long each time, up to longestPause.
	// Otherwise two accounts could hold places for ever, one after the other.
	freeChanges  = 2
	firstPause   = 30 * time.Second
	longestPause = time.Hour
	// ForgottenAfter is how long unpaid holds, and their payment pages, count.
	ForgottenAfter = 6 * time.Hour
	// Forgiven is the number of a user's unpaid holds that do not count since a payment failed, and of
	// declined payments whose pages do not: a card may be bad, but not without an end.
	Forgiven = 3
	// MaxPages is the most payment pages that a user may open for unpaid holds of an event. Each gives
	// its hold more time.
	MaxPages = 3
)

// Record is what limits a user's holds of an event's places.
type Record struct {
	// Used is the number of places that the user has bought or holds, or has given back and that are
	// not for sale again yet (these are Returning). InSeries is Used of all events of the event's series.
	Used, InSeries, Returning int64
	// Returned is the number of places that the user has given back, without those that are Returning.
	Returned int64
	// Unpaid is the number of the user's holds that ended without a payment within ForgottenAfter,
	// without those that are Forgiven. LastUnpaid is the latest of these ends.
	Unpaid     int64
	LastUnpaid time.Time
	// Pages is the number of payment pages of holds that ended so, of which as many declined ones are
	// Forgiven. FirstPage is the end of the first of these holds.
	Pages     int64
	FirstPage time.Time
}

// CheckLimits returns ErrLimitExceeded if the user may not have this many more places at the event
// or in its series, and ErrTooManyReturns if the user has given back too many before.
func (r Record) CheckLimits(sale *Sale, now time.Time, wanted int) error {
	kept := r.kept(sale)
	if err := r.checkLimit(r.Used+kept, wanted, sale.Limit(now)); err != nil {
		return err
	}
	if sale.MaxPerUserInSeries > 0 {
		if err := r.checkLimit(r.InSeries+kept, wanted, sale.MaxPerUserInSeries); err != nil {
			return err
		}
	}
	if left := r.leftOfReturns(sale); int64(wanted) > left {
		return ErrTooManyReturns.With("limit", strconv.Itoa(sale.ReturnsLimit())).
			With("returned", strconv.FormatInt(r.Returned, 10)).With("left", strconv.FormatInt(left, 10))
	}
	return nil
}

// Left returns how many more places the user may have: the most for which CheckLimits returns nil.
func (r Record) Left(sale *Sale, now time.Time) int64 {
	kept := r.kept(sale)
	left := min(int64(sale.Limit(now))-r.Used-kept, r.leftOfReturns(sale))
	if sale.MaxPerUserInSeries > 0 {
		left = min(left, int64(sale.MaxPerUserInSeries)-r.InSeries-kept)
	}
	return max(0, left)
}

// kept returns how many of the places that the user has given back count because the organiser keeps
// such places: they are not for sale again.
func (r Record) kept(sale *Sale) int64 {
	if sale.ReturnsTo == ReturnsToHouse {
		return r.Returned
	}
	return 0
}

// leftOfReturns returns how many more places the user may have, so that all those that the user has
// given back, if any, and may still give back stay within the event's limit of them.
func (r Record) leftOfReturns(sale *Sale) int64 {
	if r.Returned == 0 {
		return int64(sale.MaxPerUser)
	}
	return max(0, int64(sale.ReturnsLimit())-r.Returned-r.Used)
}

func (r Record) checkLimit(used int64, wanted, limit int) error {
	if used+int64(wanted) <= int64(limit) {
		return nil
	}
	err := ErrLimitExceeded.With("limit", strconv.Itoa(limit)).With("used", strconv.FormatInt(used, 10))
	if r.Returning > 0 {
		err = err.With("returning", strconv.FormatInt(r.Returning, 10))
	}
	return err
}

// CheckPause returns ErrHoldPaused while the user has to wait after unpaid holds. Who may open no more
// payment pages waits until the first one is forgotten: a hold that cannot be paid helps nobody.
func (r Record) CheckPause(now time.Time) error {
	var until time.Time
	if r.Unpaid > freeChanges {
		until = r.LastUnpaid.Add(min(firstPause<<min(r.Unpaid-freeChanges-1, 10), longestPause))
	}
	if forgotten := r.FirstPage.Add(ForgottenAfter); r.Pages >= MaxPages && forgotten.After(until) {
		until = forgotten
	}
	if !now.Before(until) {
		return nil
	}
	return ErrHoldPaused.With("unpaid", strconv.FormatInt(r.Unpaid, 10)).WithRetry(until.Sub(now))
}
