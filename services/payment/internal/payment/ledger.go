package payment

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Lister lists the account at a provider. The reconciliation compares it with the payments.
type Lister interface {
	// List returns the captures, refunds and disputes that were made at or after from and before to,
	// by the provider's clock, in any order and perhaps more than once. The first call has an empty
	// cursor, each later one the returned next, until next is empty. A page may be empty.
	// Authorisations, declined and voided charges are left out; a refund that fails stays in the list.
	// The account may have orders of other shops.
	List(ctx context.Context, from, to time.Time, cursor string) (entries []LedgerEntry, next string, err error)
}

// LedgerKind is the kind of an entry of a provider's account.
type LedgerKind int

// The kinds of entries.
const (
	LedgerCapture LedgerKind = iota + 1
	LedgerRefund
	// LedgerDispute is a dispute of the order's charge, open or decided.
	LedgerDispute
)

// LedgerEntry is a capture or a refund at a provider, or a dispute that began.
type LedgerEntry struct {
	Kind LedgerKind
	// OrderID is the order of the charge, also for a refund. Another shop's may be empty or unknown.
	OrderID string
	// ID is the provider's id: Outcome.ChargeID of a capture, ProviderRefund.ID of a refund.
	ID string
	// RefundID is our id of a refund; zero: a person made the refund at the provider.
	RefundID uuid.UUID
	// Amount is the captured or the refunded amount, in the currency's minor unit. Later refunds do
	// not change that of a capture. Currency is in capitals; it may be empty for a refund.
	Amount   int64
	Currency string
	// At is the time of the capture, or when the refund was accepted.
	At time.Time
	// State is the present state of a refund: accepted, done or failed. A capture has none.
	State ProviderState
}
