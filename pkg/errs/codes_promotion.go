package errs

// Errors of promotions and of the requests to take part in them.
var (
	ErrPromotionNotFound = declare(NotFound, "PROMOTION_NOT_FOUND", "The promotion does not exist")
	ErrNotWithdrawable   = declare(Conflict, "NOT_WITHDRAWABLE", "The request can no longer be withdrawn")
	// A user has withdrawn applications so often that a further one is refused.
	ErrWithdrawnTooOften = declare(Conflict, "WITHDRAWN_TOO_OFTEN", "The user has withdrawn too often to apply again")
	ErrDrawNotFound      = declare(NotFound, "DRAW_NOT_FOUND", "There is no draw for this event")
	ErrDrawExpired       = declare(NotFound, "DRAW_EXPIRED", "The lists of this draw are deleted; a copy that was saved before can still be verified")
	ErrEntriesNotPublic  = declare(NotFound, "ENTRIES_NOT_PUBLIC", "The entries are not published yet")
	ErrAnnouncementEarly = declare(Conflict, "ANNOUNCEMENT_EARLY", "The result is not announced yet")
	ErrRequestNotFound   = declare(NotFound, "REQUEST_NOT_FOUND", "The request does not exist")
	// An operator opens a draw or a lobby whose randomness beacon cannot be reached at the moment.
	ErrBeaconUnavailable = declare(Unavailable, "BEACON_UNAVAILABLE", "No source of the beacon answers, so nothing was opened")
	// An operator tries to cancel a draw whose result may already be known.
	ErrDrawFixed = declare(Conflict, "DRAW_FIXED", "The draw can no longer be cancelled")
)
