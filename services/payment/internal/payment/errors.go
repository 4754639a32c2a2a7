package payment

import "urr.guru/pkg/errs"

// The errors of the domain, in the platform's vocabulary.
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
	// ErrSettlementDelayed: payments are not settled in time, so new ones are refused.
	ErrSettlementDelayed = errs.ErrSettlementDelayed
)

// expiryError is the error of a payment whose time is over: for a reservation that of its hold.
func expiryError(t Type) *errs.Error {
	if t == Reservation {
		return ErrHoldExpired
	}
	return ErrExpired
}

// refusals are the reasons of ticket's PayableService for a refusal. The kind of an error is not
// enough: a proxy may answer PermissionDenied or NotFound, and another release of ticket
// InvalidArgument.
var refusals = []*errs.Error{
	errs.ErrReferenceNotFound, ErrHoldExpired, ErrAlreadyPaid, errs.ErrNotPayable, errs.ErrEventCancelled, ErrInProgress,
}

// Refusal returns ticket's refusal. ok is false for any other error, after which ticket's decision
// is unknown.
func Refusal(err error) (no *errs.Error, ok bool) {
	if err == nil {
		return nil, false
	}
	e := errs.From(err)
	for _, no := range refusals {
		if e.Reason == no.Reason {
			return e, true
		}
	}
	return nil, false
}
