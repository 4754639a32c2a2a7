package reservation

import "urr.guru/pkg/errs"

// Errors of requests for holds and reservations.
var (
	ErrSeatTaken     = errs.ErrSeatTaken
	ErrLimitExceeded = errs.ErrLimitExceeded
	ErrSoldOut       = errs.ErrSoldOut
	ErrNotAdjacent   = errs.ErrNotAdjacent
	ErrTryAgain      = errs.ErrTryAgain
	ErrNotFound      = errs.ErrReservationNotFound
	ErrNotHeld       = errs.ErrReservationNotHeld
)
