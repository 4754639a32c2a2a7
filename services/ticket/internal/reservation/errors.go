package reservation

import "urr.guru/pkg/errs"

// Why a hold, a reservation or its payment is refused.
var (
	ErrSeatTaken         = errs.ErrSeatTaken
	ErrLimitExceeded     = errs.ErrLimitExceeded
	ErrSoldOut           = errs.ErrSoldOut
	ErrTryAgain          = errs.ErrTryAgain
	ErrNotFound          = errs.ErrReservationNotFound
	ErrNotHeld           = errs.ErrReservationNotHeld
	ErrHoldExpired       = errs.ErrHoldExpired
	ErrReferenceNotFound = errs.ErrReferenceNotFound
	ErrNotPayable        = errs.ErrNotPayable
	ErrAlreadyPaid       = errs.ErrAlreadyPaid
	ErrPaymentInProgress = errs.ErrPaymentInProgress
)
