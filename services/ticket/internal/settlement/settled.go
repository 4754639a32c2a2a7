package settlement

import "github.com/google/uuid"

// Settled is what became of a payment here.
type Settled struct {
	PaymentID uuid.UUID
	// Rejected is why the payment has paid for nothing; empty: it has paid, and the other fields are set.
	Rejected string
	// UserID is who got the tickets or the membership.
	UserID string
	// Paid is the sum of what it has paid for. Kept is the part of it that was neither given back nor
	// promised to be. Both are in the currency's minor unit.
	Paid, Kept int64
	Currency   string
}
