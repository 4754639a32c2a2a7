package line

import (
	"errors"

	"urr.guru/pkg/errs"
)

// What a visitor can be refused with.
var (
	ErrPassUsed     = errs.ErrPassUsed
	ErrPassRequired = errs.ErrVWRTokenRequired
	ErrBlocked      = errs.ErrUserBlocked
	ErrRecovering   = errs.ErrLineRecovering
	// ErrEventUnknown: there is neither a line nor an event of that id.
	ErrEventUnknown = errs.ErrEventNotFound
)

// ErrSalesUnsupported says that ticket does not tell where sales stand: its previous release does not.
var ErrSalesUnsupported = errors.New("ticket does not tell where sales stand")
