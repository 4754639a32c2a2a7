package errs

// The catalogue: every stable code of the HTTP API, its kind and its one English sentence (the member `error` of a problem document).
// Codes and sentences are a contract with clients: a code is never renamed or given another meaning. A domain names its errors by
// aliasing these (var ErrSoldOut = errs.ErrSoldOut), so that there is one place to read.

// The request itself.
var (
	ErrInvalidRequest   = New(Invalid, "INVALID_REQUEST", "The request is not valid")
	ErrUnknownField     = New(Invalid, "UNKNOWN_FIELD", "The request has a member that is not known")
	ErrBodyTooLarge     = New(Invalid, "BODY_TOO_LARGE", "The request body is too large")
	ErrInvalidUTF8      = New(Invalid, "INVALID_UTF8", "The request is not valid UTF-8")
	ErrInvalidID        = New(Invalid, "INVALID_ID", "An id in the request is not well-formed")
	ErrInvalidCursor    = New(Invalid, "INVALID_CURSOR", "The cursor is not one that this list gave out")
	ErrMethodNotAllowed = New(Invalid, "METHOD_NOT_ALLOWED", "The method is not allowed on this path")
	ErrUnsupportedMedia = New(Invalid, "UNSUPPORTED_MEDIA_TYPE", "The body must be application/json")
	ErrNotFound         = New(NotFound, "NOT_FOUND", "Nothing is found at this path")
	ErrConflict         = New(Conflict, "CONFLICT", "The present state does not allow this")
	ErrUnprocessable    = New(Unprocessable, "UNPROCESSABLE", "The request contradicts an earlier one")
)

// Who asks.
var (
	ErrUnauthenticated = New(Unauthenticated, "UNAUTHENTICATED", "Sign-in required")
	ErrSessionInvalid  = New(Unauthenticated, "SESSION_INVALID", "The session has ended")
	ErrLoginFailed     = New(Unauthenticated, "LOGIN_FAILED", "The sign-in did not succeed")
	ErrVisitorRequired = New(Unauthenticated, "VISITOR_REQUIRED", "A visitor cookie is required")
	ErrForbidden       = New(Forbidden, "FORBIDDEN", "You may not do this")
	ErrRoleRequired    = New(Forbidden, "ROLE_REQUIRED", "Your role does not allow this")
	ErrCrossOrigin     = New(Forbidden, "CROSS_ORIGIN", "Requests from another origin are refused")
	ErrCallerRefused   = New(Forbidden, "CALLER_REFUSED", "The calling service may not call this method")
)

// How much, and whether it works at all.
var (
	ErrRateLimited      = New(Exhausted, "RATE_LIMITED", "Too many requests")
	ErrOverloaded       = New(Exhausted, "OVERLOADED", "Too many requests at the moment")
	ErrCanceled         = New(Canceled, "CANCELED", "The request was given up")
	ErrUnavailable      = New(Unavailable, "UNAVAILABLE", "Temporarily unavailable")
	ErrDeadline         = New(Deadline, "DEADLINE_EXCEEDED", "No answer in time")
	ErrAuditUnavailable = New(Unavailable, "AUDIT_UNAVAILABLE", "The act cannot be recorded at the moment")
	ErrInternal         = New(Internal, "INTERNAL", "Internal error")
)

// Idempotency-Key (draft-ietf-httpapi-idempotency-key-header).
var (
	ErrIdempotencyKeyRequired = New(Invalid, "IDEMPOTENCY_KEY_REQUIRED", "The Idempotency-Key header is required")
	ErrIdempotencyKeyInvalid  = New(Invalid, "IDEMPOTENCY_KEY_INVALID", "The Idempotency-Key header is not well-formed")
	ErrIdempotencyKeyReused   = New(Unprocessable, "IDEMPOTENCY_KEY_REUSED", "The Idempotency-Key was used with another request")
	ErrIdempotencyInProgress  = New(Conflict, "IDEMPOTENCY_IN_PROGRESS", "A request with this Idempotency-Key is still running")
)

// Tier 1: the virtual waiting room.
var (
	ErrVWRInactive       = New(NotFound, "VWR_INACTIVE", "No waiting room is active for this event")
	ErrVWRRequestUnknown = New(NotFound, "VWR_REQUEST_UNKNOWN", "The waiting room does not know this request")
	ErrVWRTokenRequired  = New(Forbidden, "VWR_TOKEN_REQUIRED", "Waiting room token required")
	ErrLobbyOpen         = New(Conflict, "LOBBY_OPEN", "The lobby is open and positions are not given out yet")
	ErrLobbyClosed       = New(Conflict, "LOBBY_CLOSED", "The lobby of this event is not open")
	ErrProofRequired     = New(Forbidden, "PROOF_REQUIRED", "Proof of work required")
)

// Tier 2: the line.
var (
	ErrPassUsed           = New(Conflict, "PASS_USED", "This waiting room position was used by another user")
	ErrQueueTokenRequired = New(Forbidden, "QUEUE_TOKEN_REQUIRED", "Queue entry token required")
	ErrSlotEnded          = New(Forbidden, "SLOT_ENDED", "Your time in the shop has ended")
	ErrUserBlocked        = New(Forbidden, "USER_BLOCKED", "You may not join this line")
	ErrLineRecovering     = New(Unavailable, "LINE_RECOVERING", "The line is being restored")
)

// Events and their sale.
var (
	ErrEventNotFound   = New(NotFound, "EVENT_NOT_FOUND", "The event does not exist")
	ErrEventExists     = New(Conflict, "EVENT_EXISTS", "The event exists already")
	ErrEventLocked     = New(Conflict, "EVENT_LOCKED", "This can no longer be changed once the sale has begun")
	ErrEventCancelled  = New(Conflict, "EVENT_CANCELLED", "The event is cancelled")
	ErrWrongEvent      = New(Forbidden, "WRONG_EVENT", "The entry token is for another event")
	ErrSaleNotOpen     = New(Conflict, "SALE_NOT_OPEN", "The sale is not open")
	ErrPresaleOnly     = New(Forbidden, "PRESALE_ONLY", "The presale is open to members only")
	ErrSeatingMismatch = New(Conflict, "SEATING_MISMATCH", "The event is not sold this way")
	ErrSectionNotFound = New(NotFound, "SECTION_NOT_FOUND", "The section does not exist")
	ErrSeatNotFound    = New(NotFound, "SEAT_NOT_FOUND", "The seat does not exist")
	ErrSeatTaken       = New(Conflict, "SEAT_TAKEN", "The seat is taken")
	ErrLimitExceeded   = New(Conflict, "LIMIT_EXCEEDED", "The limit per person is reached")
	ErrSoldOut         = New(Conflict, "SOLD_OUT", "Not enough seats are left")
	ErrTryAgain        = New(Conflict, "TRY_AGAIN", "Seats are being chosen by others, try again")
)

// Reservations, tickets, transfers, memberships.
var (
	ErrReservationNotFound = New(NotFound, "RESERVATION_NOT_FOUND", "The reservation does not exist")
	ErrReservationNotHeld  = New(Conflict, "RESERVATION_NOT_HELD", "The reservation is not held any more")
	ErrHoldExpired         = New(Conflict, "HOLD_EXPIRED", "The hold has expired")
	ErrTicketNotFound      = New(NotFound, "TICKET_NOT_FOUND", "The ticket does not exist")
	ErrTicketCodeInvalid   = New(Invalid, "TICKET_CODE_INVALID", "The ticket code is not genuine")
	ErrTicketNotValid      = New(Conflict, "TICKET_NOT_VALID", "The ticket is not valid")
	ErrAlreadyUsed         = New(Conflict, "ALREADY_USED", "The ticket was used already")
	ErrTransferNotFound    = New(NotFound, "TRANSFER_NOT_FOUND", "The transfer does not exist")
	ErrTransferNotOpen     = New(Conflict, "TRANSFER_NOT_OPEN", "The transfer is not open")
	ErrTransferExists      = New(Conflict, "TRANSFER_EXISTS", "The ticket is offered already")
	ErrTransferToSelf      = New(Invalid, "TRANSFER_TO_SELF", "A ticket cannot be transferred to its holder")
	ErrPriceTooHigh        = New(Invalid, "PRICE_TOO_HIGH", "The price is above the face value")
	ErrPlanNotFound        = New(NotFound, "PLAN_NOT_FOUND", "The membership plan does not exist")
	ErrPlanExists          = New(Conflict, "PLAN_EXISTS", "The membership plan exists already")
	ErrMembershipNotFound  = New(NotFound, "MEMBERSHIP_NOT_FOUND", "The membership does not exist")
	ErrMembershipActive    = New(Conflict, "MEMBERSHIP_ACTIVE", "The membership is active already")
)

// Payments.
var (
	ErrPaymentNotFound     = New(NotFound, "PAYMENT_NOT_FOUND", "The payment does not exist")
	ErrReferenceNotFound   = New(NotFound, "REFERENCE_NOT_FOUND", "What is to be paid does not exist")
	ErrNotPayable          = New(Conflict, "NOT_PAYABLE", "This cannot be paid any more")
	ErrAlreadyPaid         = New(Conflict, "ALREADY_PAID", "This is paid already")
	ErrAmountMismatch      = New(Conflict, "AMOUNT_MISMATCH", "The amount is not the one to be paid")
	ErrPaymentExpired      = New(Conflict, "PAYMENT_EXPIRED", "The payment has expired")
	ErrPaymentInProgress   = New(Conflict, "PAYMENT_IN_PROGRESS", "The payment is in progress")
	ErrNotRefundable       = New(Conflict, "NOT_REFUNDABLE", "The payment cannot be refunded")
	ErrProviderUnknown     = New(NotFound, "PROVIDER_UNKNOWN", "The payment provider is not known")
	ErrProviderUnavailable = New(Unavailable, "PROVIDER_UNAVAILABLE", "The payment provider does not answer")
	ErrWebhookSignature    = New(Unauthenticated, "WEBHOOK_SIGNATURE_INVALID", "The webhook's signature is not valid")
)

// Catalogue lists every code, in the order of their declaration.
func Catalogue() []*Error {
	return []*Error{
		ErrInvalidRequest, ErrUnknownField, ErrBodyTooLarge, ErrInvalidUTF8, ErrInvalidID, ErrInvalidCursor, ErrMethodNotAllowed,
		ErrUnsupportedMedia, ErrNotFound, ErrConflict, ErrUnprocessable,
		ErrUnauthenticated, ErrSessionInvalid, ErrLoginFailed, ErrVisitorRequired, ErrForbidden, ErrRoleRequired, ErrCrossOrigin,
		ErrCallerRefused,
		ErrRateLimited, ErrOverloaded, ErrCanceled, ErrUnavailable, ErrDeadline, ErrAuditUnavailable, ErrInternal,
		ErrIdempotencyKeyRequired, ErrIdempotencyKeyInvalid, ErrIdempotencyKeyReused, ErrIdempotencyInProgress,
		ErrVWRInactive, ErrVWRRequestUnknown, ErrVWRTokenRequired, ErrLobbyOpen, ErrLobbyClosed, ErrProofRequired,
		ErrPassUsed, ErrQueueTokenRequired, ErrSlotEnded, ErrUserBlocked, ErrLineRecovering,
		ErrEventNotFound, ErrEventExists, ErrEventLocked, ErrEventCancelled, ErrWrongEvent, ErrSaleNotOpen, ErrPresaleOnly,
		ErrSeatingMismatch, ErrSectionNotFound, ErrSeatNotFound, ErrSeatTaken, ErrLimitExceeded, ErrSoldOut, ErrTryAgain,
		ErrReservationNotFound, ErrReservationNotHeld, ErrHoldExpired, ErrTicketNotFound, ErrTicketCodeInvalid, ErrTicketNotValid,
		ErrAlreadyUsed, ErrTransferNotFound, ErrTransferNotOpen, ErrTransferExists, ErrTransferToSelf, ErrPriceTooHigh,
		ErrPlanNotFound, ErrPlanExists, ErrMembershipNotFound, ErrMembershipActive,
		ErrPaymentNotFound, ErrReferenceNotFound, ErrNotPayable, ErrAlreadyPaid, ErrAmountMismatch, ErrPaymentExpired,
		ErrPaymentInProgress, ErrNotRefundable, ErrProviderUnknown, ErrProviderUnavailable, ErrWebhookSignature,
	}
}

// Lookup finds a code of the catalogue.
func Lookup(reason string) (*Error, bool) {
	for _, e := range Catalogue() {
		if e.Reason == reason {
			return e, true
		}
	}
	return nil, false
}
