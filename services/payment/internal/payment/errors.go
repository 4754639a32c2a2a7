package payment

import (
	"slices"

	"urr.guru/pkg/errs"
)

// The errors about payments, from the catalogue in pkg/errs.
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
	ErrSettlementDelayed   = errs.ErrSettlementDelayed // payments are processed too late, so new ones are refused
)

// The errors about refunds.
var (
	// ErrNotRefundable refuses a refund: the payment is not paid, or tickets cannot be refunded.
	ErrNotRefundable  = errs.ErrNotRefundable
	ErrEventCancelled = errs.ErrEventCancelled
	// ErrTicketsPending refuses a refund until the ticket service has received the payment's event.
	ErrTicketsPending = errs.ErrTicketsPending
	ErrRefundNotFound = errs.ErrRefundNotFound
	// ErrMembershipNotFound refuses a refund of a membership that does not exist.
	ErrMembershipNotFound = errs.ErrMembershipNotFound
	// ErrNotHeld refuses to retry or resolve a refund that is not HELD.
	ErrNotHeld = errs.ErrRefundNotHeld
	// ErrNotPaidByHand refuses to end a refund as paid by hand if too little was given back by hand.
	ErrNotPaidByHand = errs.ErrRefundNotPaid
	// ErrTooManyRefunds refuses a user's request beyond RefundsPerHour.
	ErrTooManyRefunds = errs.ErrRateLimited
)

// expiryError returns the error of an expired payment: ErrHoldExpired if it was for a reservation,
// else ErrExpired.
func expiryError(t Type) *errs.Error {
	if t == Reservation {
		return ErrHoldExpired
	}
	return ErrExpired
}

// refusals are the errors by which the ticket service refuses a payment. They are recognised by
// their reason, not by their kind: a proxy too may answer PermissionDenied or NotFound.
var refusals = []*errs.Error{
	errs.ErrReferenceNotFound, ErrHoldExpired, ErrAlreadyPaid, errs.ErrNotPayable, errs.ErrEventCancelled, ErrInProgress,
}

// Refusal returns err as a refusal by the ticket service. ok is false for any other error: the
// decision of the ticket service is then unknown.
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
