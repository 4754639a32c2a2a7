package payment

import (
	"errors"
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
	ErrAmountNotTaken      = errs.ErrAmountNotTaken
	ErrProviderUnavailable = errs.ErrProviderUnavailable
	ErrWebhookSignature    = errs.ErrWebhookSignature
	// ErrTooManyPages refuses a user's page beyond PagesPerHour.
	ErrTooManyPages      = errs.ErrRateLimited
	ErrSettlementDelayed = errs.ErrSettlementDelayed // payments are processed too late, so new ones are refused
)

// The errors about refunds.
var (
	// ErrNotRefundable refuses a refund: the payment is not paid, or tickets cannot be refunded.
	ErrNotRefundable  = errs.ErrNotRefundable
	ErrEventCancelled = errs.ErrEventCancelled
	// ErrOnlyWholeOrder refuses a refund of a part of a payment that can only be given back as a whole.
	ErrOnlyWholeOrder = errs.ErrOnlyWholeOrder
	// ErrAmountChanged refuses a refund that would give back less than was shown.
	ErrAmountChanged = errs.ErrAmountChanged
	// ErrTicketsPending refuses a refund until the ticket service has received the payment's event.
	ErrTicketsPending = errs.ErrTicketsPending
	ErrRefundNotFound = errs.ErrRefundNotFound
	// ErrMembershipNotFound refuses a refund of a membership that does not exist.
	ErrMembershipNotFound = errs.ErrMembershipNotFound
	// ErrNotHeld refuses to retry or resolve a refund that is not HELD.
	ErrNotHeld = errs.ErrRefundNotHeld
	// ErrNotPending refuses to hold a refund that is not PENDING.
	ErrNotPending = errs.ErrRefundNotPending
	// ErrNotPaidByHand refuses to end a refund as paid by hand if too little was given back by hand.
	ErrNotPaidByHand = errs.ErrRefundNotPaid
	// ErrNothingByHand refuses to assign money given back by hand if too little is unassigned.
	ErrNothingByHand = errs.ErrNothingByHand
	// ErrNotOwed refuses a refund of which a Kafka event says that the ticket service has decided it, and
	// the ticket service does not.
	ErrNotOwed = errors.New("the ticket service does not owe this refund")
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
	errs.ErrReferenceNotFound, ErrHoldExpired, ErrAlreadyPaid, errs.ErrNotPayable, errs.ErrBuyerBlocked, errs.ErrEventCancelled,
	ErrInProgress,
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
