package errs

// Errors of payments.
var (
	ErrPaymentNotFound     = declare(NotFound, "PAYMENT_NOT_FOUND", "The payment does not exist")
	ErrReferenceNotFound   = declare(NotFound, "REFERENCE_NOT_FOUND", "What is to be paid does not exist")
	ErrNotPayable          = declare(Conflict, "NOT_PAYABLE", "This cannot be paid any more")
	ErrAlreadyPaid         = declare(Conflict, "ALREADY_PAID", "This is paid already")
	ErrAmountMismatch      = declare(Conflict, "AMOUNT_MISMATCH", "The amount is not the one to be paid")
	ErrPaymentExpired      = declare(Conflict, "PAYMENT_EXPIRED", "The payment has expired")
	ErrPaymentInProgress   = declare(Conflict, "PAYMENT_IN_PROGRESS", "The payment is in progress")
	ErrProviderUnknown     = declare(NotFound, "PROVIDER_UNKNOWN", "The payment provider is not known")
	ErrProviderUnavailable = declare(Unavailable, "PROVIDER_UNAVAILABLE", "The payment provider does not answer")
	ErrSettlementDelayed   = declare(Unavailable, "SETTLEMENT_DELAYED", "Payments are not taken at the moment")
	ErrNotRefundable       = declare(Conflict, "NOT_REFUNDABLE", "This cannot be given back")
	ErrTicketsPending      = declare(Conflict, "TICKETS_PENDING", "What this payment has paid for is being issued, try again in a moment")
	ErrRefundNotFound      = declare(NotFound, "REFUND_NOT_FOUND", "The refund does not exist")
	ErrRefundNotHeld       = declare(Conflict, "REFUND_NOT_HELD", "The refund does not wait for a person")
	ErrRefundNotPaid       = declare(Conflict, "REFUND_NOT_PAID", "No refund by hand at the provider covers the refund")
	ErrDifferenceNotFound  = declare(NotFound, "DIFFERENCE_NOT_FOUND", "The difference does not exist")
	ErrDifferenceNotOpen   = declare(Conflict, "DIFFERENCE_NOT_OPEN", "The difference is not open")
	ErrWebhookSignature    = declare(Unauthenticated, "WEBHOOK_SIGNATURE_INVALID", "The webhook's signature is not valid")
)
