package errs

// Errors of tier 1, the virtual waiting room.
var (
	ErrVWRInactive       = declare(NotFound, "VWR_INACTIVE", "No waiting room is active for this event")
	ErrVWRRequestUnknown = declare(NotFound, "VWR_REQUEST_UNKNOWN", "The waiting room does not know this request")
	ErrVWRTokenRequired  = declare(Forbidden, "VWR_TOKEN_REQUIRED", "Waiting room token required")
	ErrProofRequired     = declare(Forbidden, "PROOF_REQUIRED", "A proof of work is required")
	ErrCaptchaRequired   = declare(Forbidden, "CAPTCHA_REQUIRED", "The test of the challenge provider is required")
	ErrLobbyOpen         = declare(Conflict, "LOBBY_OPEN", "Positions are not given out yet")
	// ErrAskLater has when the visitor may ask, as asksAt (epoch ms) and Retry-After. It is also for
	// applications to promotions.
	ErrAskLater      = declare(Exhausted, "ASK_LATER", "Each visitor asks at an own time, and this one's has not come")
	ErrLobbyClosed   = declare(Conflict, "LOBBY_CLOSED", "The lobby takes no entries now")
	ErrLobbyFixed    = declare(Conflict, "LOBBY_FIXED", "The lobby of the running round cannot be changed")
	ErrLobbyNotFound = declare(NotFound, "LOBBY_NOT_FOUND", "Nothing is published about a lobby of this event")
)
