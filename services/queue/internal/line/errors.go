package line

import "urr.guru/pkg/errs"

// Errors returned to visitors.
var (
	ErrPassUsed     = errs.ErrPassUsed
	ErrPassRequired = errs.ErrVWRTokenRequired
	ErrBlocked      = errs.ErrUserBlocked
	ErrRecovering   = errs.ErrLineRecovering
	ErrEventUnknown = errs.ErrEventNotFound // there is neither a line nor an event with that id
)
