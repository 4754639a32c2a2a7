package payment

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// A person gives money back at the provider ("by hand") without saying what it was for. Until an
// operator says so, refunds that were asked for are not sent: they may be for the same tickets.

// reasonByHand is the reason of a refund that is HELD since money by hand is unassigned.
const reasonByHand = "BY_HAND"

// byOperator begins the Request of a ByHand refund by which an operator says what money by hand was
// for. No provider's id begins with it.
const byOperator = "operator:"

// errByHandRequested delays a refund until the ticket service has said which tickets money by hand
// was for.
var errByHandRequested = errors.New("a refund by hand is not assigned to its tickets yet")

// tookDispute reports whether the bank took this money after a lost dispute. People who ask for
// refunds may give the same words as their reason.
func (r Refund) tookDispute() bool {
	return r.Cause == ByHand && r.ProviderID != "" && r.Reason == lostDisputeReason && r.Status != RefundFailed
}

// ForOperators reports whether payers do not see the row: it says what money by hand was for. They
// see the refund by hand itself, and the tickets that it has ended.
func (r Refund) ForOperators() bool {
	return r.Scope.Goodwill > 0 || strings.HasPrefix(r.Request, byOperator) && r.Cause == ByHand && r.Status != RefundDone
}

// assigned returns the decision that inserts an operator's statement about the unassigned money. For
// tickets all of it is reserved, so that nothing else can use it until the ticket service answers.
// Goodwill is recorded at once. While the ticket service has not said which tickets a refund by hand
// has ended, nothing is unassigned: it may be all of them.
func assigned(r Refund) DecideRequest {
	return func(p Payment, before EarlierRefunds, _ time.Time) (*Change, error) {
		unassigned := p.Unassigned()
		if slices.ContainsFunc(before.Holding, Refund.mayEndTickets) {
			unassigned = 0
		}
		if shown := r.Scope.Shown; unassigned < max(r.Scope.Goodwill, 1) || shown != nil && *shown != unassigned {
			return nil, nothingByHand(unassigned)
		}
		n := r
		n.Provider, n.Status = p.Provider, RefundDone
		if n.Scope.Goodwill > 0 {
			c := p.withMoney(0, 0, 0, "a refund by hand was goodwill")
			c.AddGoodwill, c.NewRefund = n.Scope.Goodwill, &n
			return c, nil
		}
		if p.Captured != p.Amount || p.Reference.Type == Membership { // it has no tickets
			return nil, ErrNotRefundable
		}
		n.Status, n.Scope.HandLimit = RefundRequested, unassigned
		c := p.withMoney(0, 0, unassigned, "")
		c.NewRefund = &n
		return c, nil
	}
}

// nothingByHand refuses a request with what is unassigned.
func nothingByHand(unassigned int64) error {
	return ErrNothingByHand.With("unassigned", strconv.FormatInt(unassigned, 10))
}

// mayEndTickets reports whether the refund was made by hand, and the ticket service has still to say
// which tickets it has ended.
func (r Refund) mayEndTickets() bool {
	return r.Cause == ByHand && r.Status == RefundRequested && r.Scope.HandLimit == 0
}

// afterAssignments delays a refund by hand until the ticket service has answered what operators have
// assigned, so that the same money does not count for tickets twice. Later ones see this refund.
func afterAssignments(p Payment, _ Refund, _ time.Time) (*RefundChange, error) {
	if p.ByHandRequested {
		return nil, errByHandRequested
	}
	return nil, nil //nolint:nilnil // it may be claimed
}

// unlessByHand holds a refund that was asked for while money by hand is unassigned, so that nobody
// is paid twice. Only what the provider cannot give back any more is certain to be covered by that
// money. If an earlier call may have made the refund, nothing changes: the provider is asked first.
// Otherwise, and for other causes, it calls decide.
func unlessByHand(lease int64, decide DecideRefund) DecideRefund {
	return whileRefundLeased(lease, func(p Payment, r Refund, now time.Time) (*RefundChange, error) {
		switch {
		case !r.Cause.waitsForHand():
			return decide(p, r, now)
		case p.ByHandRequested:
			return nil, errByHandRequested
		case p.Unassigned() == 0:
			return decide(p, r, now)
		case !r.DoubtAt.IsZero():
			return nil, nil //nolint:nilnil // the provider is asked
		}
		left := max(0, p.Captured-p.Refunded)
		if covered := min(p.Unassigned(), r.Send-left); covered > 0 {
			return coveredByHand(p, r, covered, now), nil
		}
		r.Status, r.Reason = RefundHeld, reasonByHand
		return &RefundChange{Refund: r, Payment: p.withMoney(0, 0, 0, heldNote)}, nil
	})
}

// coveredByHand lets money by hand count for a part of a refund. The rest is sent under a new key.
func coveredByHand(p Payment, r Refund, covered int64, now time.Time) *RefundChange {
	c := &RefundChange{Refund: r.withoutRefusals().withNewKey(now), Payment: p.withMoney(0, 0, covered, "a refund by hand counts for a refund of ours")}
	c.Refund.Send -= covered
	return c
}

// paidByHand returns how much of a HELD refund money by hand covers, as an operator says: what is
// unassigned, if the refund was held because of it; else all of the refund or nothing.
func paidByHand(p Payment, r Refund) int64 {
	switch {
	case r.Reason == reasonByHand:
		return min(p.Unassigned(), r.Send)
	case p.RefundedByHand-p.ByHandCounted >= r.Send:
		return r.Send
	default:
		return 0
	}
}

// ByHandRefunds are refunds that a person made at the provider, as one look-up returned them.
type ByHandRefunds struct {
	Refunds []ProviderRefund
	// Whole says that nothing is left of the charge at the provider.
	Whole bool
}

// Refund returns the new refund that records x, one of the refunds made by hand.
func (b ByHandRefunds) Refund(p Payment, x ProviderRefund) Refund {
	reason := manualRefundReason
	if x.Lost {
		reason = lostDisputeReason
	}
	return Refund{
		ID: uuid.Must(uuid.NewV7()), PaymentID: p.ID, Provider: p.Provider, Cause: ByHand, Request: x.ID, Reason: reason,
		Status: RefundRequested, Amount: x.Amount, ProviderID: x.ID, Scope: RefundScope{Whole: b.Whole},
	}
}

// The reasons and the timeline's notes of a refund that a person made at the provider, and of money
// that the bank took after a lost dispute.
const (
	manualRefundReason = "REFUNDED_AT_PROVIDER"
	lostDisputeReason  = "DISPUTE_LOST"
	manualRefundNote   = "refunded by hand at the provider"
	lostDisputeNote    = "taken by the bank: the dispute is lost"
)

// Adopted returns the payment's change when refunds by hand of this total amount are recorded.
func (b ByHandRefunds) Adopted(p Payment, amount int64) *Change {
	note := manualRefundNote
	if slices.ContainsFunc(b.Refunds, func(x ProviderRefund) bool { return x.Lost }) {
		note = lostDisputeNote
	}
	return p.withMoney(amount, amount, 0, note)
}
