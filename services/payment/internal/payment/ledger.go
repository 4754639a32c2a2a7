package payment

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Lister lists the movements of the account at a provider, for the nightly comparison.
type Lister interface {
	// List returns the captures, refunds, disputes and warnings of fraud that were made at or after from
	// and before to, by the provider's clock, and refunds and disputes whose money came back in that
	// time, in any order and perhaps more than once. The first call has an empty cursor, and each later
	// one has next of the call before, until next is empty. A page may be empty. Authorisations, declined
	// and voided charges are left out; a refund that fails stays in. Orders of other shops at the same
	// account may be included.
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
	// LedgerWarning is a warning by the card's issuer, which takes the order's charge for fraud.
	LedgerWarning
)

// LedgerEntry is a capture or a refund at a provider, a dispute that began or gave money back, or a
// warning.
type LedgerEntry struct {
	Kind LedgerKind
	// OrderID is the order of the charge, also for a refund. It may be empty for another shop's, and if
	// ChargeID is set, which is the provider's id of the charge.
	OrderID, ChargeID string
	// ID is the provider's: Outcome.ChargeID for a capture, ProviderRefund.ID for a refund.
	ID string
	// RefundID is this service's id of a refund; zero: a person made the refund at the provider.
	RefundID uuid.UUID
	// Amount is the captured or refunded amount, in the currency's minor unit. Later refunds do not
	// change a capture's Amount. Currency is in capitals; it may be empty for a refund.
	Amount   int64
	Currency string
	// At is the time of the capture, or when the refund was accepted or its money came back.
	At time.Time
	// State is the current state of a refund: accepted, done or failed; 0 for a capture.
	State ProviderState
	// FraudType is that of Notice, for a warning.
	FraudType string
}
