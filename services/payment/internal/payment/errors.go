package payment

import "urr.guru/pkg/errs"

// What can go wrong, in the platform's vocabulary.
var (
	ErrNotFound         = errs.ErrPaymentNotFound
	ErrAmountMismatch   = errs.ErrAmountMismatch
	ErrHoldExpired      = errs.ErrHoldExpired
	ErrExpired          = errs.ErrPaymentExpired
	ErrInProgress       = errs.ErrPaymentInProgress
	ErrAlreadyPaid      = errs.ErrAlreadyPaid
	ErrProviderUnknown  = errs.ErrProviderUnknown
	ErrWebhookSignature = errs.ErrWebhookSignature
)

// expiry is how the end of the time to pay is called: a reservation's is its hold's.
func expiry(t Type) *errs.Error {
	if t == Reservation {
		return ErrHoldExpired
	}
	return ErrExpired
}

// refusal reports whether ticket said a definite no, as opposed to not answering.
func refusal(err error) (*errs.Error, bool) {
	if err == nil {
		return nil, false
	}
	e := errs.From(err)
	switch e.Kind {
	case errs.Conflict, errs.NotFound, errs.Forbidden, errs.Invalid, errs.Unprocessable:
		return e, true
	default:
		return nil, false
	}
}
