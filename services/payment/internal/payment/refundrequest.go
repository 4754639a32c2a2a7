package payment

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/idempotency"
)

const (
	// RefundsPerHour is the most requests for refunds by one user within RefundHour, so that they do
	// not delay everybody else's refunds at the provider.
	RefundsPerHour = 20
	// RefundHour is the period over which RefundsPerHour is counted.
	RefundHour = time.Hour
	// pendingRetry is the Retry-After of a refund whose tickets are not issued yet.
	pendingRetry = 2 * time.Second
	// maxNamed is the most tickets that an error lists.
	maxNamed = 100
)

// RefundRequest asks to refund tickets of a payment.
type RefundRequest struct {
	PaymentID uuid.UUID
	// Cause is ByUser, ByOperator, or ByHand: an operator says what money by hand was for.
	Cause  Cause
	Reason string
	Scope  RefundScope
	// IdempotencyKey is required. A repeated request returns the first refund.
	IdempotencyKey string
}

// EarlierRefunds has the earlier refunds on which the decision about a new request depends.
type EarlierRefunds struct {
	// Holding are the payment's refunds for which Refund.Holds is true.
	Holding []Refund
	// Asked are the times of the user's requests within RefundHour, for any payment, oldest first. It
	// is empty for causes other than ByUser.
	Asked []time.Time
}

// DecideRequest is a Decide about a request for a refund; before has the earlier refunds.
type DecideRequest func(p Payment, before EarlierRefunds, now time.Time) (*Change, error)

// AskRefund stores a refund that a person asks for, and waits for the ticket service's answer. If
// that does not come in time, the refund is returned as REQUESTED, and the sweeper continues.
// Errors: those of RequestRefund, ErrEventCancelled, ErrTicketsPending, ErrOnlyWholeOrder,
// ErrAmountChanged.
func (s *Service) AskRefund(ctx context.Context, q RefundRequest) (Refund, error) {
	p, r, err := s.RequestRefund(ctx, q)
	if err == nil && r.Status == RefundRequested {
		r = s.tryBegin(ctx, p, r)
	}
	if err == nil && r.Status == RefundRejected {
		return Refund{}, r.rejection()
	}
	return r, err
}

// RefundMembership refunds the payment with which a membership was bought, as AskRefund does. It is
// always the same payment, so a repeated request finds the first refund. Errors: those of
// AskRefund, ErrMembershipNotFound.
func (s *Service) RefundMembership(ctx context.Context, id uuid.UUID, q RefundRequest) (Refund, error) {
	if _, err := idempotency.Require(q.Scope.UserID, "refund", q.IdempotencyKey); err != nil {
		return Refund{}, err
	}
	askCtx, cancel := context.WithTimeout(ctx, ticketTimeout)
	defer cancel()
	var err error
	if q.PaymentID, err = s.tickets.MembershipPayment(askCtx, id); err != nil {
		return Refund{}, err
	}
	return s.AskRefund(ctx, q)
}

// tryBegin claims the tickets of a REQUESTED refund. After a failure the sweeper tries again.
func (s *Service) tryBegin(ctx context.Context, p Payment, r Refund) Refund {
	r, err := s.beginRefund(ctx, p, r)
	if err != nil {
		s.log.WarnContext(ctx, "tickets of a refund not claimed yet", "refund_id", r.ID, "payment_id", r.PaymentID, "error", err)
		s.wakeSweeper(Claims)
	}
	return r
}

// rejection returns the error of a refund that the ticket service has rejected.
func (r Refund) rejection() error {
	switch r.Reason {
	case ErrEventCancelled.Reason:
		return ErrEventCancelled
	case ErrOnlyWholeOrder.Reason:
		return ErrOnlyWholeOrder
	case ErrTicketsPending.Reason:
		return ErrTicketsPending.WithRetry(pendingRetry)
	case ErrAmountChanged.Reason:
		return ErrAmountChanged.With("amount", strconv.FormatInt(r.Amount, 10))
	default:
		return notRefundable(r.Excluded)
	}
}

// notRefundable returns ErrNotRefundable with the tickets that cannot be refunded and the reasons.
func notRefundable(excluded []ExcludedTicket) *errs.Error {
	if len(excluded) == 0 {
		return ErrNotRefundable
	}
	var ids, reasons []string
	for _, t := range excluded[:min(len(excluded), maxNamed)] {
		ids, reasons = append(ids, t.TicketID.String()), append(reasons, t.Reason)
	}
	return ErrNotRefundable.With("ticketIds", strings.Join(ids, ",")).With("ticketReasons", strings.Join(reasons, ","))
}

// RequestRefund stores a refund that a person asks for, and returns it with its payment; the sweeper
// makes the refund. Errors: those of idempotency, ErrNotFound (also if a user asks for another user's payment), ErrNotRefundable,
// ErrTooManyRefunds, ErrNothingByHand.
func (s *Service) RequestRefund(ctx context.Context, q RefundRequest) (Payment, Refund, error) {
	if _, err := idempotency.Require(q.Scope.UserID, "refund", q.IdempotencyKey); err != nil {
		return Payment{}, Refund{}, err
	}
	slices.SortFunc(q.Scope.TicketIDs, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	r := Refund{ID: newID(), PaymentID: q.PaymentID, Cause: q.Cause, Request: q.IdempotencyKey, Reason: q.Reason, Scope: q.Scope}
	decide := requested(r)
	if r.Cause == ByHand {
		r.Request = byOperator + r.Request
		decide = assigned(r)
	}
	p, stored, err := s.store.AddRefund(ctx, r, decide)
	if err != nil {
		return Payment{}, Refund{}, err
	}
	if !stored.Scope.equal(q.Scope) {
		return Payment{}, Refund{}, idempotency.ErrReused
	}
	failpoint.Hit("payment.refund.requested")
	return p, stored, nil
}

// requested returns the decision that inserts a refund that a person asks for.
func requested(r Refund) DecideRequest {
	return func(p Payment, before EarlierRefunds, now time.Time) (*Change, error) {
		switch {
		case r.Cause == ByUser && p.UserID != r.Scope.UserID:
			return nil, ErrNotFound
		case p.Status != Confirmed:
			return nil, ErrNotRefundable
		case len(before.Asked) >= RefundsPerHour:
			oldest := before.Asked[len(before.Asked)-RefundsPerHour]
			return nil, ErrTooManyRefunds.WithRetry(oldest.Add(RefundHour).Sub(now))
		}
		if taken := before.taken(r); len(taken) > 0 {
			return nil, notRefundable(taken)
		}
		n := r
		n.PaymentID, n.Provider, n.Status = p.ID, p.Provider, RefundRequested
		c := p.withMoney(0, 0, 0, "") // the timeline entry follows when the tickets are claimed
		c.NewRefund = &n
		return c, nil
	}
}

// taken returns which tickets of n another refund has claimed or asked for. The ticket service would
// refuse them too, but a refusal here costs neither a row nor a call. For operators it decides about
// what was given back: of a ticket that is void, the rest can be given back later.
func (b EarlierRefunds) taken(n Refund) (taken []ExcludedTicket) {
	held := map[uuid.UUID]string{}
	for _, r := range b.Holding {
		why := "REFUNDING"
		if r.Published && n.Cause == ByOperator {
			continue
		}
		if r.Published {
			why = "REFUNDED"
		}
		for _, item := range r.Items {
			held[item.TicketID] = why
		}
		if r.Status == RefundRequested {
			for _, id := range r.Scope.TicketIDs {
				held[id] = why
			}
		}
	}
	for _, id := range n.Scope.TicketIDs {
		if why, ok := held[id]; ok {
			taken = append(taken, ExcludedTicket{TicketID: id, Reason: why})
		}
	}
	return taken
}

// RetryRefund has a HELD refund sent again (see retried). Errors: ErrRefundNotFound, ErrNotHeld,
// ErrNothingByHand.
func (s *Service) RetryRefund(ctx context.Context, id uuid.UUID, shown *int64) (Refund, error) {
	r, err := s.decideHeld(ctx, id, retried(shown))
	s.wakeSweeper(Requests)
	return r, err
}

// HoldRefund makes a PENDING refund HELD. Errors: ErrRefundNotFound, ErrNotPending.
func (s *Service) HoldRefund(ctx context.Context, id uuid.UUID) (Refund, error) {
	return s.decideHeld(ctx, id, heldByOperator)
}

// ResolveRefund ends a HELD refund that a person has paid: at the provider (byHand), or as the note
// describes (see resolved). Errors: ErrRefundNotFound, ErrNotHeld, ErrNotPaidByHand, ErrUnavailable (a
// call may still make it, or whether one has made it cannot be found out).
func (s *Service) ResolveRefund(ctx context.Context, id uuid.UUID, byHand bool, note string) (Refund, error) {
	if err := s.askHeld(ctx, id); err != nil {
		return Refund{}, err
	}
	r, err := s.decideHeld(ctx, id, resolved(byHand, note))
	s.opts.Published()
	s.wakeSweeper(Requests)
	return r, err
}

// askHeld asks the provider about a refund that was held while a call might have made it.
func (s *Service) askHeld(ctx context.Context, id uuid.UUID) error {
	var p Payment
	var askedAt time.Time
	r, err := s.decideHeld(ctx, id, func(locked Payment, _ Refund, now time.Time) (*RefundChange, error) {
		p, askedAt = locked, now
		return nil, nil //nolint:nilnil // the provider is asked first
	})
	if err != nil || r.Status != RefundHeld || r.DoubtAt.IsZero() {
		return err
	}
	if _, ok := s.providers.For(p); !ok {
		return errs.ErrUnavailable
	}
	if _, err := s.reconcileRefunds(WithUrgency(ctx, ForRefund), p); err != nil {
		return errs.ErrUnavailable.Wrap(err)
	}
	_, err = s.decideHeld(ctx, id, notMade(askedAt, s.callEndsAfter(p)))
	return err
}

func (s *Service) decideHeld(ctx context.Context, id uuid.UUID, decide DecideRefund) (Refund, error) {
	r, _, err := s.store.ApplyRefund(ctx, id, decide)
	if errors.Is(err, ErrNotFound) {
		return Refund{}, ErrRefundNotFound
	}
	return r, err
}

// ListRefunds returns refunds in a status (empty: any), newest first. It also returns the value of
// before for the next page (zero: there is none).
func (s *Service) ListRefunds(ctx context.Context, status RefundStatus, limit int, before uuid.UUID) ([]DueRefund, uuid.UUID, error) {
	list, err := s.store.ListRefunds(ctx, status, limit+1, before)
	if err != nil || len(list) <= limit {
		return list, uuid.Nil, err
	}
	return list[:limit], list[limit-1].Refund.ID, nil
}
