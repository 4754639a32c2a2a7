package event

import "urr.guru/pkg/errs"

// Errors of requests for an event or its sale.
var (
	ErrNotFound        = errs.ErrEventNotFound
	ErrLocked          = errs.ErrEventLocked
	ErrChanged         = errs.ErrPreconditionFailed
	ErrCancelled       = errs.ErrEventCancelled
	ErrNotCancelled    = errs.ErrEventNotCancelled
	ErrRefundsBegun    = errs.ErrRefundsBegun
	ErrUsePostpone     = errs.ErrUsePostpone
	ErrStartPast       = errs.ErrStartPast
	ErrWrongEvent      = errs.ErrWrongEvent
	ErrSaleNotOpen     = errs.ErrSaleNotOpen
	ErrNotEntitled     = errs.ErrNotEntitled
	ErrSeatingMismatch = errs.ErrSeatingMismatch
	ErrSectionNotFound = errs.ErrSectionNotFound
	ErrSeatNotFound    = errs.ErrSeatNotFound
	ErrInvalid         = errs.ErrInvalidRequest
	ErrTooManyBlocked  = errs.ErrTooManyBlocked
	ErrLimitExceeded   = errs.ErrLimitExceeded
	ErrTooManyReturns  = errs.ErrTooManyReturns
	ErrHoldPaused      = errs.ErrHoldPaused
)
