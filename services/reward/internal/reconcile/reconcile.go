// Package reconcile compares the ledger of a provider with the allocations in two passes. The first
// compares each entry of the ledger with its allocation. The second checks that the ledger has paid
// each allocation that is SUCCESS.
//
// Both sides are read in pages. Only the set of paid allocations is kept in memory, one bit for
// each, so the ledger may have any size. The service may run meanwhile: an entry is read before its
// allocation, and an allocation that became SUCCESS after the ledger was read is undecided.
package reconcile

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"urr.guru/services/reward/internal/payout"
)

// Store reads allocations. It fills only the fields id, member, kind, value, status, key, resends,
// ProcessedAt and UnknownSince.
type Store interface {
	// Now returns the time of the clock that also sets ProcessedAt.
	Now(ctx context.Context) (time.Time, error)
	// ByKeys returns the allocations whose idempotency key is one of keys.
	ByKeys(ctx context.Context, keys []string) ([]payout.Allocation, error)
	// Page returns up to limit allocations after an id, in the order of their ids.
	Page(ctx context.Context, after int64, limit int) ([]payout.Allocation, error)
}

// The page sizes, in rows, with which the ledger and the database are read.
const (
	ledgerPage = 500
	tablePage  = 5000
)

// Options says what is compared and who receives the findings.
type Options struct {
	// Kinds are compared; entries and allocations of other kinds are skipped.
	Kinds []payout.Kind
	// AsOf is a time by the store's clock. The ledger has every payout that was made before it. Zero:
	// the time before Run opens the ledger.
	AsOf time.Time
	// Since is a time by the store's clock. The ledger may lack payouts of allocations that became
	// SUCCESS before it. Zero: the ledger is complete.
	Since time.Time
	// Report receives each finding; an error ends the comparison.
	Report func(Finding) error
}

// Run compares the allocations in store with the ledger at source: a file, "-" for stdin, or a URL.
func Run(ctx context.Context, store Store, source string, opts Options) (Counts, error) {
	if opts.AsOf.IsZero() {
		now, err := store.Now(ctx)
		if err != nil {
			return Counts{}, err
		}
		opts.AsOf = now
	}
	ledger, err := Open(ctx, source)
	if err != nil {
		return Counts{}, err
	}
	counts, err := compare(ctx, store, Read(ledger), opts)
	return counts, errors.Join(err, ledger.Close())
}

// compare reads the whole ledger, then all allocations. An error means that nothing was proved.
func compare(ctx context.Context, store Store, ledger iter.Seq2[LedgerEntry, error], opts Options) (Counts, error) {
	c := &comparison{Options: opts, store: store, paid: idSet{}, counts: Counts{Findings: map[Kind]int64{}}}
	page := make([]LedgerEntry, 0, ledgerPage)
	for entry, err := range ledger {
		if err != nil {
			return c.counts, err
		}
		if entry.Kind == "" {
			if len(c.Kinds) != 1 {
				return c.counts, fmt.Errorf("ledger: the entry of key %q has no kind, and more than one kind is compared", entry.Key)
			}
			entry.Kind = c.Kinds[0]
		}
		if page = append(page, entry); len(page) == ledgerPage {
			if err := c.compareEntries(ctx, page); err != nil {
				return c.counts, err
			}
			page = page[:0]
		}
	}
	if err := c.compareEntries(ctx, page); err != nil {
		return c.counts, err
	}
	return c.counts, c.compareAllocations(ctx)
}

type comparison struct {
	Options

	store  Store
	paid   idSet // allocations that the ledger has paid
	counts Counts
}

func (c *comparison) report(kind Kind, id int64, key, format string, args ...any) error {
	c.counts.Findings[kind]++
	return c.Report(Finding{Kind: kind, AllocationID: id, Key: key, Text: fmt.Sprintf(format, args...)})
}

// compareEntries compares a page of the ledger with its allocations, which are read after the page.
func (c *comparison) compareEntries(ctx context.Context, page []LedgerEntry) error {
	if len(page) == 0 {
		return nil
	}
	var keys []string
	for _, e := range page {
		keys = append(keys, e.Key)
		if base, _, ok := cutResend(e.Key); ok {
			keys = append(keys, base)
		}
	}
	allocations, err := c.store.ByKeys(ctx, keys)
	if err != nil {
		return err
	}
	byKey := make(map[string]*payout.Allocation, len(allocations))
	for i := range allocations {
		byKey[allocations[i].IdempotencyKey] = &allocations[i]
	}
	for _, e := range page {
		if err := c.compareEntry(e, allocationOf(byKey, e.Key)); err != nil {
			return err
		}
	}
	return nil
}

// cutResend splits a key that replaced a voided one, such as "x-R2", into the key of the
// allocation, "x", and the number of the replacement, 2.
func cutResend(key string) (base string, n int, ok bool) {
	at := strings.LastIndex(key, "-R")
	if at < 0 {
		return "", 0, false
	}
	n, err := strconv.Atoi(key[at+len("-R"):])
	return key[:at], n, err == nil && n > 0
}

// allocationOf returns the allocation for which a key was sent, nil if there is none. An allocation
// with exactly this key is preferred, even if the key looks like one that replaced a voided key.
func allocationOf(byKey map[string]*payout.Allocation, key string) *payout.Allocation {
	if a := byKey[key]; a != nil {
		return a
	}
	base, n, ok := cutResend(key)
	if a := byKey[base]; ok && a != nil && n <= a.Resends {
		return a
	}
	return nil
}

func (c *comparison) compareEntry(e LedgerEntry, a *payout.Allocation) error {
	comparedKind := e.Kind
	if a != nil && !slices.Contains(c.Kinds, comparedKind) {
		comparedKind = a.Kind // compare the entry, too, if its allocation is of a compared kind
	}
	if !slices.Contains(c.Kinds, comparedKind) {
		return nil
	}
	c.counts.Entries++
	if a == nil {
		return c.report(UnknownEntry, 0, e.Key, "the ledger has paid %s to member %q (transaction %q), and no allocation has this key", describeReward(e.Kind, e.Value), e.MemberID, e.TransactionID)
	}
	if err := c.compareContents(e, a); err != nil {
		return err
	}
	return c.compareStatus(e, a)
}

// compareContents compares what was paid with what was allocated.
func (c *comparison) compareContents(e LedgerEntry, a *payout.Allocation) error {
	if e.MemberID != a.MemberID {
		if err := c.report(OtherMember, a.ID, e.Key, "the ledger has paid member %q (transaction %q), the allocation is of member %q", e.MemberID, e.TransactionID, a.MemberID); err != nil {
			return err
		}
	}
	if e.Kind != a.Kind {
		if err := c.report(OtherKind, a.ID, e.Key, "the ledger has paid a %s (transaction %q), the allocation is a %s", e.Kind, e.TransactionID, a.Kind); err != nil {
			return err
		}
	}
	if e.Value != a.Value {
		return c.report(OtherValue, a.ID, e.Key, "the ledger has paid %s (transaction %q), the allocation is of %s", describeReward(e.Kind, e.Value), e.TransactionID, describeReward(a.Kind, a.Value))
	}
	return nil
}

func (c *comparison) compareStatus(e LedgerEntry, a *payout.Allocation) error {
	switch {
	case !c.paid.add(a.ID):
		return c.report(PaidTwice, a.ID, e.Key, "the ledger has paid it once more as transaction %q; it is %s", e.TransactionID, a.Status)
	case a.Status == payout.Success, undecided(a):
		return nil
	case a.Status == payout.Cancelled:
		return c.report(CancelledPaid, a.ID, e.Key, "the ledger has paid it as transaction %q, and it is CANCELLED", e.TransactionID)
	default:
		return c.report(PaidNotSuccess, a.ID, e.Key, "the ledger has paid it as transaction %q, and it is %s", e.TransactionID, a.Status)
	}
}

// undecided reports whether a call of the allocation is under way, or may have paid.
func undecided(a *payout.Allocation) bool {
	return a.Status == payout.Processing || a.Status == payout.Failed && !a.UnknownSince.IsZero()
}

// compareAllocations compares all allocations with the set of those that the ledger has paid.
func (c *comparison) compareAllocations(ctx context.Context) error {
	for after := int64(0); ; {
		page, err := c.store.Page(ctx, after, tablePage)
		if err != nil {
			return err
		}
		for i := range page {
			if err := c.compareAllocation(&page[i]); err != nil {
				return err
			}
			after = page[i].ID
		}
		if len(page) < tablePage {
			return nil
		}
	}
}

func (c *comparison) compareAllocation(a *payout.Allocation) error {
	if !slices.Contains(c.Kinds, a.Kind) {
		return nil
	}
	paid := c.paid.has(a.ID)
	if a.Status == payout.Success && !paid && a.ProcessedAt.Before(c.Since) {
		return nil
	}
	c.counts.Allocations++
	switch {
	case undecided(a):
		return c.report(Undecided, a.ID, a.IdempotencyKey, "it is %s, and a call may have paid it; the ledger has paid it: %t", a.Status, paid)
	case a.Status != payout.Success || paid:
		return nil
	case !a.ProcessedAt.Before(c.AsOf):
		return c.report(Undecided, a.ID, a.IdempotencyKey, "it became SUCCESS at %s, after the ledger was read", a.ProcessedAt.UTC().Format(time.RFC3339Nano))
	default:
		return c.report(SuccessNotPaid, a.ID, a.IdempotencyKey, "it is SUCCESS, and the ledger has not paid it")
	}
}

func describeReward(kind payout.Kind, value int64) string {
	if kind == payout.Coupon {
		return fmt.Sprintf("coupon %d", value)
	}
	return fmt.Sprintf("%d points", value)
}
