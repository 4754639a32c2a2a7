package payment

import (
	"errors"
	"slices"

	"urr.guru/pkg/errs"
)

// The errors of the domain, from the platform's catalogue.
var (
	ErrNotFound            = errs.ErrPaymentNotFound
	ErrAmountMismatch      = errs.ErrAmountMismatch
	ErrHoldExpired         = errs.ErrHoldExpired
	ErrExpired             = errs.ErrPaymentExpired
	ErrInProgress          = errs.ErrPaymentInProgress
	ErrAlreadyPaid         = errs.ErrAlreadyPaid
	ErrProviderUnknown     = errs.ErrProviderUnknown
	ErrProviderUnavailable = errs.ErrProviderUnavailable
	ErrWebhookSignature    = errs.ErrWebhookSignature
	ErrSettlementDelayed   = errs.ErrSettlementDelayed // new payments are refused
)

// The errors of refunds.
var (
	// ErrNotRefundable refuses a refund of a payment that is not paid.
	ErrNotRefundable = errors.New("the payment cannot be refunded")
	// ErrNotHeld refuses a person's decision about a refund that needs none.
	ErrNotHeld = errors.New("the refund is not held")
)

// expiryError returns the error of an expired payment. That of a reservation is the one of its
// hold.
func expiryError(t Type) *errs.Error {
	if t == Reservation {
		return ErrHoldExpired
	}
	return ErrExpired
}

// refusals are the errors by which ticket's PayableService refuses a payment. Its reason identifies
// a refusal; the kind is not enough, since a proxy may answer PermissionDenied or NotFound.
var refusals = []*errs.Error{
	errs.ErrReferenceNotFound, ErrHoldExpired, ErrAlreadyPaid, errs.ErrNotPayable, errs.ErrEventCancelled, ErrInProgress,
}

// Refusal returns ticket's refusal. ok is false for any other error, which leaves ticket's decision
// unknown.
func Refusal(err error) (refusal *errs.Error, ok bool) {
	if err == nil {
		return nil, false
	}
	e := errs.From(err)
	if !slices.ContainsFunc(refusals, func(r *errs.Error) bool { return r.Reason == e.Reason }) {
		return nil, false
	}
	return e, true
}
