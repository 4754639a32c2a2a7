package payment

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Lister lists the account at a provider, with which payments are reconciled.
type Lister interface {
	// List returns the captures, refunds and disputes that were made at or after from and before to,
	// by the provider's clock, in any order and perhaps more than once. It begins with an empty
	// cursor, and goes on with next until that is empty; a page may be empty. What was authorised,
	// declined or voided is left out, and a refund stays in the list when it fails. The account may
	// have orders of other shops.
	List(ctx context.Context, from, to time.Time, cursor string) (entries []LedgerEntry, next string, err error)
}

// LedgerKind is the kind of an entry of a provider's account.
type LedgerKind int

// The kinds of entries.
const (
	LedgerCapture LedgerKind = iota + 1
	LedgerRefund
	// LedgerDispute says that there is a dispute of the order's charge, whatever has become of it.
	LedgerDispute
)

// LedgerEntry is a capture or a refund at a provider, or a dispute that began.
type LedgerEntry struct {
	Kind LedgerKind
	// OrderID is that of the charge, also of a refund. It is empty, or foreign, for another shop's.
	OrderID string
	// ID is the provider's: Outcome.ChargeID of a capture, ProviderRefund.ID of a refund.
	ID string
	// RefundID is our id of a refund; zero: a person made it there.
	RefundID uuid.UUID
	// Amount is what was captured, whatever was refunded since, or refunded, in the currency's minor
	// unit. Currency is as in Payment, in capitals; it may be empty for a refund.
	Amount   int64
	Currency string
	// At is when it was captured, or when the refund was accepted.
	At time.Time
	// State is that of a refund by now: accepted, done or failed. A capture has none.
	State ProviderState
}
