package payment

import "urr.guru/pkg/errs"

// What can go wrong, in the platform's vocabulary.
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
	// ErrSettlementDelayed: what was paid is not settled in time, so nobody else is charged.
	ErrSettlementDelayed = errs.ErrSettlementDelayed
)

// expiry is how the end of the time to pay is called: a reservation's is its hold's.
func expiry(t Type) *errs.Error {
	if t == Reservation {
		return ErrHoldExpired
	}
	return ErrExpired
}

// refusals are ticket's own reasons to say no, as its PayableService names them. The kind of an
// error is not enough: a proxy on the way denies and does not find as well, and a release of ticket
// that does not know a request yet calls it invalid.
var refusals = []*errs.Error{
	errs.ErrReferenceNotFound, ErrHoldExpired, ErrAlreadyPaid, errs.ErrNotPayable, errs.ErrEventCancelled, ErrInProgress,
}

// Refusal returns ticket's definite no. ok is false of any other error, after which nobody knows
// what ticket would say, or did.
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
