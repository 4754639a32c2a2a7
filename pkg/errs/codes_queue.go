package errs

// Errors of tier 2, the waiting line of an event.
var (
	// ErrEntitlementUnknown is for a visitor without a position, who needs one unless entitled.
	ErrEntitlementUnknown = declare(Unavailable, "ENTITLEMENT_UNKNOWN", "It is not known at the moment whether you may buy in the presale")
	ErrPassUsed           = declare(Conflict, "PASS_USED", "This waiting room position was used by another user")
	ErrQueueTokenRequired = declare(Forbidden, "QUEUE_TOKEN_REQUIRED", "Queue entry token required")
	ErrSlotEnded          = declare(Forbidden, "SLOT_ENDED", "Your time in the shop has ended")
	ErrUserBlocked        = declare(Forbidden, "USER_BLOCKED", "You may not join this line")
	ErrTooManyBlocked     = declare(Conflict, "TOO_MANY_BLOCKED", "No more users can be blocked from this line")
	ErrLineRecovering     = declare(Unavailable, "LINE_RECOVERING", "The line is being restored")
)
