package reconcile

import (
	"fmt"
	"strings"
)

// Kind is the kind of a finding, as the command prints it.
type Kind string

// The findings. All but Undecided are differences.
const (
	// PaidNotSuccess means that the ledger has paid an allocation that is PENDING or FAILED.
	PaidNotSuccess Kind = "paid_not_success"
	// SuccessNotPaid means that an allocation is SUCCESS, and the ledger has no entry of it.
	SuccessNotPaid Kind = "success_not_paid"
	// CancelledPaid means that an allocation is CANCELLED, but the ledger shows that it was paid.
	CancelledPaid Kind = "cancelled_paid"
	// PaidTwice means that the ledger has a second entry of an allocation, under its key or under the
	// key of a repeated payment, which ends with -R1.
	PaidTwice Kind = "paid_twice"
	// OtherMember, OtherKind and OtherValue mean that the ledger has paid what was not allocated.
	OtherMember Kind = "other_member"
	OtherKind   Kind = "other_kind"
	OtherValue  Kind = "other_value"
	// UnknownEntry means that no allocation has the key of an entry.
	UnknownEntry Kind = "unknown_entry"
	// Undecided means that the service does not know yet what has become of an allocation, or that the
	// allocation became SUCCESS after the ledger was read.
	Undecided Kind = "undecided"
)

// kinds returns all kinds of findings, in the order in which Counts.String prints them.
func kinds() []Kind {
	return []Kind{PaidTwice, PaidNotSuccess, SuccessNotPaid, CancelledPaid, OtherMember, OtherKind, OtherValue, UnknownEntry, Undecided}
}

// Finding is a difference between the ledger and the tables, or an allocation that is undecided.
type Finding struct {
	Kind Kind
	// AllocationID is 0 for UnknownEntry.
	AllocationID int64
	// Key is the idempotency key of the ledger's entry, or of the allocation if there is no entry.
	Key string
	// Text says what the ledger and the allocation have.
	Text string
}

// String returns the finding in one line.
func (f Finding) String() string {
	if f.AllocationID == 0 {
		return fmt.Sprintf("%s: key %q: %s", f.Kind, f.Key, f.Text)
	}
	return fmt.Sprintf("%s: allocation %d, key %q: %s", f.Kind, f.AllocationID, f.Key, f.Text)
}

// Counts is the result of a comparison.
type Counts struct {
	// Entries is how many of the ledger's entries were compared, Allocations how many allocations.
	Entries, Allocations int64
	Findings             map[Kind]int64
}

// Differences returns the number of findings that are not Undecided.
func (c *Counts) Differences() (n int64) {
	for kind, count := range c.Findings {
		if kind != Undecided {
			n += count
		}
	}
	return n
}

// String returns the counts in one line.
func (c *Counts) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "reconcile: entries=%d allocations=%d", c.Entries, c.Allocations)
	for _, kind := range kinds() {
		fmt.Fprintf(&b, " %s=%d", kind, c.Findings[kind])
	}
	fmt.Fprintf(&b, " differences=%d", c.Differences())
	return b.String()
}
