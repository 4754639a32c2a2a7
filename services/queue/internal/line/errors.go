package line

import (
	"errors"

	"urr.guru/pkg/errs"
)

// Errors returned to visitors.
var (
	ErrPassUsed     = errs.ErrPassUsed
	ErrPassRequired = errs.ErrVWRTokenRequired
	ErrBlocked      = errs.ErrUserBlocked
	ErrRecovering   = errs.ErrLineRecovering
	// ErrEventUnknown means that there is neither a line nor an event with that id.
	ErrEventUnknown = errs.ErrEventNotFound
)

// ErrSalesUnsupported means that ticket does not implement sale statuses; its previous release does
// not.
var ErrSalesUnsupported = errors.New("ticket does not tell where sales stand")
