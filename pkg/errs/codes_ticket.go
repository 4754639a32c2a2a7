package errs

// Errors of events and their sale.
var (
	ErrEventNotFound  = declare(NotFound, "EVENT_NOT_FOUND", "The event does not exist")
	ErrEventLocked    = declare(Conflict, "EVENT_LOCKED", "This can no longer be changed once the sale has begun")
	ErrEventCancelled = declare(Conflict, "EVENT_CANCELLED", "The event is cancelled")
	// Errors of operators' calls that the state of the event does not allow.
	ErrEventNotCancelled = declare(Conflict, "EVENT_NOT_CANCELLED", "The event is not cancelled")
	ErrRefundsBegun      = declare(Conflict, "REFUNDS_BEGUN", "The refunds have begun, so the cancellation can no longer be undone")
	ErrUsePostpone       = declare(Conflict, "USE_POSTPONE", "Tickets are sold, so the times can only be moved by postponing the event")
	ErrStartPast         = declare(Conflict, "START_PAST", "The new start is not in the future")
	ErrWrongEvent        = declare(Forbidden, "WRONG_EVENT", "The entry token is for another event")
	ErrSaleNotOpen       = declare(Conflict, "SALE_NOT_OPEN", "The sale is not open")
	ErrNotEntitled       = declare(Forbidden, "NOT_ENTITLED", "Only users with an entitlement may buy before the general sale")
	ErrSeatingMismatch   = declare(Conflict, "SEATING_MISMATCH", "The event is not sold this way")
	ErrSectionNotFound   = declare(NotFound, "SECTION_NOT_FOUND", "The section does not exist")
	ErrSeatNotFound      = declare(NotFound, "SEAT_NOT_FOUND", "The seat does not exist")
	ErrSeatTaken         = declare(Conflict, "SEAT_TAKEN", "The seat is taken")
	ErrLimitExceeded     = declare(Conflict, "LIMIT_EXCEEDED", "The limit per person is reached")
	ErrSoldOut           = declare(Conflict, "SOLD_OUT", "Not enough is left")
	ErrNotAdjacent       = declare(Conflict, "SEATS_NOT_ADJACENT", "Enough seats are free, but not next to each other")
	ErrTryAgain          = declare(Conflict, "TRY_AGAIN", "Seats are being chosen by others, try again")
)

// Errors of reservations and tickets.
var (
	ErrReservationNotFound = declare(NotFound, "RESERVATION_NOT_FOUND", "The reservation does not exist")
	ErrReservationNotHeld  = declare(Conflict, "RESERVATION_NOT_HELD", "The reservation is not held any more")
	ErrHoldExpired         = declare(Conflict, "HOLD_EXPIRED", "The hold has expired")
	ErrTicketNotFound      = declare(NotFound, "TICKET_NOT_FOUND", "The ticket does not exist")
	ErrNotVoidable         = declare(Conflict, "NOT_VOIDABLE", "The ticket has ended, or is being refunded or passed on")
	ErrTicketCodeInvalid   = declare(Invalid, "TICKET_CODE_INVALID", "The ticket code is not genuine")
)

// Errors of passing a ticket from one user to another.
var (
	ErrCodeInvalid      = declare(NotFound, "CODE_INVALID", "The code is wrong, used up or withdrawn")
	ErrTooManyCodes     = declare(Exhausted, "TOO_MANY_CODES", "Too many wrong codes within an hour")
	ErrBatchNotFound    = declare(NotFound, "BATCH_NOT_FOUND", "The event has no such batch of codes")
	ErrUploadNotFound   = declare(NotFound, "UPLOAD_NOT_FOUND", "The upload does not exist, or has ended")
	ErrTransferNotFound = declare(NotFound, "TRANSFER_NOT_FOUND", "The offer does not exist")
	ErrNotTransferable  = declare(Conflict, "NOT_TRANSFERABLE", "The ticket cannot be passed on like this")
	ErrTransferEnded    = declare(Conflict, "TRANSFER_ENDED", "The offer has ended")
	ErrTransferTaken    = declare(Conflict, "TRANSFER_TAKEN", "Somebody else has accepted the offer")
	ErrTransferGivenUp  = declare(Conflict, "TRANSFER_GIVEN_UP", "The caller has given the offer up")
	ErrOwnTransfer      = declare(Conflict, "OWN_TRANSFER", "The ticket is the caller's own")
	ErrBuyerBlocked     = declare(Forbidden, "BUYER_BLOCKED", "The user is blocked at the event")
)

// Errors of memberships.
var (
	ErrPlanNotFound       = declare(NotFound, "PLAN_NOT_FOUND", "The plan does not exist")
	ErrPlanNotOnSale      = declare(Conflict, "PLAN_NOT_ON_SALE", "The plan is not on sale")
	ErrMembershipNotFound = declare(NotFound, "MEMBERSHIP_NOT_FOUND", "The membership does not exist")
	ErrMembershipAhead    = declare(Conflict, "MEMBERSHIP_AHEAD", "The user has bought the next membership of the plan already")
	ErrFreePlanOnce       = declare(Conflict, "FREE_PLAN_ONCE", "Each user gets a membership of a free plan once")
)

// Errors of buyers who again and again hold places without paying, or give back what they have bought.
var (
	// ErrHoldPaused has until when no hold is made, as Retry-After.
	ErrHoldPaused     = declare(Exhausted, "HOLD_PAUSED", "You have held places without paying several times, try again later")
	ErrTooManyReturns = declare(Conflict, "TOO_MANY_RETURNS", "You have given back as many places of this event as one person may")
)

// Errors of webhooks.
var (
	ErrWebhookNotFound = declare(NotFound, "WEBHOOK_NOT_FOUND", "The webhook does not exist")
	ErrTooManyWebhooks = declare(Conflict, "TOO_MANY_WEBHOOKS", "There are 20 webhooks, which is the most")
)

// Errors of scanning tickets at the doors.
var (
	ErrAlreadyUsed  = declare(Conflict, "ALREADY_USED", "The ticket has been used")
	ErrNotValid     = declare(Conflict, "NOT_VALID", "The ticket admits nobody")
	ErrListNotReady = declare(Conflict, "LIST_NOT_READY", "Tickets may still change hands or be given back")
	ErrScanNotFound = declare(NotFound, "SCAN_NOT_FOUND", "The scan does not exist")
	ErrUndoTooLate  = declare(Conflict, "UNDO_TOO_LATE", "The scan can no longer be undone")
)
