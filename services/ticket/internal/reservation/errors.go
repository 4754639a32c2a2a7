package reservation

import "urr.guru/pkg/errs"

// Errors of requests for holds, reservations and payments.
var (
	ErrSeatTaken         = errs.ErrSeatTaken
	ErrLimitExceeded     = errs.ErrLimitExceeded
	ErrSoldOut           = errs.ErrSoldOut
	ErrNotAdjacent       = errs.ErrNotAdjacent
	ErrTryAgain          = errs.ErrTryAgain
	ErrNotFound          = errs.ErrReservationNotFound
	ErrNotHeld           = errs.ErrReservationNotHeld
	ErrHoldExpired       = errs.ErrHoldExpired
	ErrReferenceNotFound = errs.ErrReferenceNotFound
	ErrNotPayable        = errs.ErrNotPayable
	ErrAlreadyPaid       = errs.ErrAlreadyPaid
	ErrPaymentInProgress = errs.ErrPaymentInProgress
)
