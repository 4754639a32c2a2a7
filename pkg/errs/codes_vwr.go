package errs

// Tier 1: the virtual waiting room.
var (
	ErrVWRInactive       = declare(NotFound, "VWR_INACTIVE", "No waiting room is active for this event")
	ErrVWRRequestUnknown = declare(NotFound, "VWR_REQUEST_UNKNOWN", "The waiting room does not know this request")
	ErrVWRTokenRequired  = declare(Forbidden, "VWR_TOKEN_REQUIRED", "Waiting room token required")
)
