package event

import "urr.guru/pkg/errs"

// Why a request for an event or its sale is refused.
var (
	ErrNotFound        = errs.ErrEventNotFound
	ErrLocked          = errs.ErrEventLocked
	ErrChanged         = errs.ErrPreconditionFailed
	ErrCancelled       = errs.ErrEventCancelled
	ErrWrongEvent      = errs.ErrWrongEvent
	ErrSaleNotOpen     = errs.ErrSaleNotOpen
	ErrSeatingMismatch = errs.ErrSeatingMismatch
	ErrSectionNotFound = errs.ErrSectionNotFound
	ErrSeatNotFound    = errs.ErrSeatNotFound
	ErrInvalid         = errs.ErrInvalidRequest
	ErrTooManyBlocked  = errs.ErrTooManyBlocked
)
