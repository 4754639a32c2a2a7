package errs

// Promotions and event requests.
var (
	ErrPromotionNotFound = declare(NotFound, "PROMOTION_NOT_FOUND", "The promotion does not exist")
	ErrRequestNotFound   = declare(NotFound, "REQUEST_NOT_FOUND", "The request does not exist")
	// Of an operator who would end a draw whose result may be known.
	ErrDrawFixed = declare(Conflict, "DRAW_FIXED", "The draw can no longer be cancelled")
)
