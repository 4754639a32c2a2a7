package payment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/failpoint"
)

const (
	// maxRefundWait is the longest pause between two attempts at a refund.
	maxRefundWait = 5 * time.Minute
	// refundAlert is the age of a refund from which a failure is logged as an error.
	refundAlert = 10 * time.Minute
	// sendWithin is the longest time between storing that a refund will be sent and sending it. A
	// process that was suspended for longer sends nothing.
	sendWithin = 20 * time.Second
	// acceptedPoll is the pause before the provider is first asked about a refund that it has
	// accepted. Later pauses grow with the refund's age, up to maxAcceptedPoll.
	acceptedPoll    = time.Hour
	maxAcceptedPoll = 24 * time.Hour
)

// RefundLane is a kind of the sweeper's work on refunds. Each lane has its own workers, so that a
// compensation waits neither for the ticket service nor behind refunds of a cancelled event.
type RefundLane string

// The lanes of refunds.
const (
	Claims        RefundLane = "CLAIMS" // tickets to claim at the ticket service
	Compensations RefundLane = "COMPENSATIONS"
	Requests      RefundLane = "REQUESTS"
	Cancellations RefundLane = "CANCELLATIONS"
)

// refundLanes has the causes of the refunds that each lane processes.
var refundLanes = map[RefundLane][]Cause{ //nolint:gochecknoglobals // a constant
	Claims:        {ByUser, ByOperator, ByHand},
	Compensations: {Compensation},
	Requests:      {ByUser, ByOperator, TransferPayout, ByHandFailed},
	Cancellations: {EventCancelled},
}

// ErrKeySpent is returned by a Provider when the provider repeats its error for every later call with
// the same key. Whatever the first call did, the key does nothing more.
var ErrKeySpent = errors.New("the provider keeps this error under the key")

// KeptError is the ErrKeySpent of Refund, and of Charge where all charges of a payment have the same
// key. It has the code of the provider's answer.
type KeptError struct {
	Code string
	// Trouble says that the provider, or a bank behind it, has a problem that may pass. Otherwise the
	// call is refused, for a reason that is not known to be final.
	Trouble bool
}

func (e *KeptError) Error() string { return e.Code + ": " + ErrKeySpent.Error() }

func (e *KeptError) Unwrap() error { return ErrKeySpent }

// Group is the Kafka consumer group for the ticket service's rejections and refunds that are due.
const Group = "payment-service-group"

// Rejection reports that the ticket service cannot deliver what was paid for.
type Rejection struct {
	// EventKey identifies the rejection's Kafka event, which is processed once.
	EventKey  string
	PaymentID uuid.UUID
	Reason    string
}

// Compensate refunds the captured amount of a payment: once, even if it is rejected repeatedly. It
// fails with ErrNotFound when the payment does not exist, and with ErrNotOwed when the ticket service has
// not rejected it.
func (s *Service) Compensate(ctx context.Context, r Rejection) error {
	err := s.owe(ctx, r.EventKey, r.PaymentID, Refund{ID: newID(), Cause: Compensation, Reason: r.Reason})
	s.wakeSweeper(Compensations)
	return err
}

// PromisedRefund is a refund that the ticket service has decided: its tickets are claimed already.
type PromisedRefund struct {
	// EventKey identifies the Kafka event, which is processed once.
	EventKey string
	// ClaimID is the id of the claim at the ticket service, and of the refund.
	ClaimID, PaymentID uuid.UUID
	Cause              Cause
	Items              []RefundItem
}

// RefundPromised stores a refund that the ticket service has decided. It fails with ErrNotFound
// when the payment does not exist, and with ErrNotOwed when the ticket service has not promised it.
func (s *Service) RefundPromised(ctx context.Context, r PromisedRefund) error {
	n := Refund{ID: r.ClaimID, Cause: r.Cause, Request: r.ClaimID.String(), Reason: string(r.Cause), Items: r.Items}
	for _, item := range r.Items {
		n.Amount += item.Amount
	}
	return s.owe(ctx, r.EventKey, r.PaymentID, n)
}

// stepRefund makes the next step of a leased refund. After an error it postpones the refund.
func (s *Service) stepRefund(ctx context.Context, d DueRefund) {
	r := d.Refund
	err := s.advanceRefund(WithUrgency(ctx, r.Cause.urgency()), d.Payment, r)
	if err == nil || errors.Is(err, errTakenOver) || ctx.Err() != nil {
		return
	}
	log := s.log.WarnContext
	if s.opts.Now().Sub(r.CreatedAt) > refundAlert {
		log = s.log.ErrorContext
	}
	log(ctx, "refund failed, trying again", "refund_id", r.ID, "payment_id", r.PaymentID, "cause", r.Cause, "status", r.Status,
		"attempt", r.Attempts, "error", err)
	ctx, cancel := forWrite(ctx)
	defer cancel()
	if err := s.store.PostponeRefund(ctx, r, backoff(r.Attempts, maxRefundWait), err); err != nil {
		s.log.WarnContext(ctx, "refund not postponed", "refund_id", r.ID, "error", err)
	}
}

// advanceRefund makes the next step of a refund. Only the stored state decides which step is next,
// so that another process can continue after a crash.
func (s *Service) advanceRefund(ctx context.Context, p Payment, r Refund) error {
	switch {
	case r.AbortDue:
		return s.abortRefund(ctx, r)
	case r.Status == RefundRequested:
		_, err := s.beginRefund(ctx, p, r)
		return err
	case r.Status == RefundAccepted:
		return s.askAccepted(ctx, p, r)
	case r.Send == 0: // free, or given back by hand
		return s.finishRefund(ctx, r, ProviderRefund{State: ProviderDone})
	default:
		return s.sendRefund(ctx, p, r)
	}
}

// beginRefund claims the tickets of a refund, and returns the refund with the answer. It ignores
// leases: the ticket service repeats its first answer in every later call for the refund.
func (s *Service) beginRefund(ctx context.Context, p Payment, r Refund) (Refund, error) {
	if r.mayEndTickets() {
		if _, _, err := s.store.ApplyRefund(ctx, r.ID, afterAssignments); err != nil {
			return r, err
		}
	}
	var claim Claim // of a wrong amount: no claim, since it was never published as paid
	if p.Captured == p.Amount {
		claimCtx, cancel := context.WithTimeout(ctx, ticketTimeout)
		defer cancel()
		var err error
		if claim, err = s.tickets.BeginRefund(claimCtx, p, r); err != nil {
			return r, fmt.Errorf("claim tickets: %w", err)
		}
	}
	failpoint.Hit("payment.refund.after_begin")
	after, _, err := s.store.ApplyRefund(ctx, r.ID, begun(claim))
	if err != nil {
		return r, err
	}
	if after.Published {
		s.opts.Published()
	}
	s.wakeSweeper(Requests)
	return after, nil
}

// abortRefund releases the claim of a refund that the provider has refused.
func (s *Service) abortRefund(ctx context.Context, r Refund) error {
	abortCtx, cancel := context.WithTimeout(ctx, ticketTimeout)
	defer cancel()
	if err := s.tickets.AbortRefund(abortCtx, r.ID); err != nil {
		return fmt.Errorf("give up the claim: %w", err)
	}
	failpoint.Hit("payment.refund.after_abort")
	_, _, err := s.store.ApplyRefund(ctx, r.ID, aborted)
	return err
}

// callEndsAfter returns how long after LastSent a call for a refund can still take effect.
func (s *Service) callEndsAfter(p Payment) time.Duration { return s.caps(p).InFlight + sendWithin }

// sendRefund asks the provider to make a refund. It records first that the refund may be sent, with
// the key that makes a repetition harmless. If the provider may have forgotten the key, sendRefund
// asks whether the refund was made, instead of sending it.
func (s *Service) sendRefund(ctx context.Context, p Payment, r Refund) error {
	ctx, err := s.opts.AwaitRefund(ctx, p.Provider)
	if err != nil {
		return err
	}
	notAfter := s.opts.Now().Add(sendWithin) // starts before LastSent is recorded, to be safe
	var askedAt time.Time
	buyerDisputes, err := s.buyerDisputes(ctx, r)
	if err != nil {
		return err
	}
	decide := unlessDisputed(r.Lease, buyerDisputes, unlessByHand(r.Lease, sending(r.Lease, s.caps(p).KeyLife, s.callEndsAfter(p))))
	sent, recorded, err := s.store.ApplyRefund(ctx, r.ID, func(p Payment, r Refund, now time.Time) (*RefundChange, error) {
		askedAt = now
		return decide(p, r, now)
	})
	switch {
	case err != nil:
		return err
	case !recorded:
		return s.askForgotten(ctx, p, r, askedAt)
	case sent.Status != RefundPending: // the charge is disputed, or money by hand is unassigned
		s.logHeld(ctx, p, sent)
		return nil
	case sent.Send != r.Send: // the sweeper continues with what money by hand does not cover
		return nil
	}
	failpoint.Hit("payment.refund.before_send")
	callCtx, cancel := context.WithTimeout(ctx, s.caps(p).CallTime)
	defer cancel()
	answer, err := s.provider(p).Refund(callCtx, RefundCall{
		OrderID: p.OrderID, Currency: p.Currency, PaymentKey: p.PaymentKey, ChargeID: p.ChargeID, RefundID: r.ID, Key: fmt.Sprintf("%s#%d", r.ID, sent.KeyNumber),
		Amount: sent.Send, NotAfter: notAfter,
	})
	failpoint.Hit("payment.refund.after_provider")
	if err != nil { // it may have been made: DoubtAt has the time
		err = fmt.Errorf("refund order %s: %w", p.OrderID, err)
		if kept, ok := errors.AsType[*KeptError](err); ok {
			_, _, recordErr := s.store.ApplyRefund(ctx, r.ID, spent(r.Lease, s.caps(p).KeyLife, *kept))
			return errors.Join(err, recordErr)
		}
		return err
	}
	switch answer.State {
	case ProviderAccepted, ProviderDone:
		return s.finishRefund(ctx, r, ProviderRefund{ID: answer.ID, RefundID: r.ID, State: answer.State, PendingReason: answer.PendingReason})
	default:
		return s.refuseRefund(ctx, p, r, answer)
	}
}

// finishRefund records that the provider accepted or made a refund.
func (s *Service) finishRefund(ctx context.Context, r Refund, x ProviderRefund) error {
	ctx, cancel := forWrite(ctx)
	defer cancel()
	failpoint.Hit("payment.refund.before_publish")
	if _, _, err := s.store.ApplyRefund(ctx, r.ID, made(x)); err != nil {
		return err
	}
	failpoint.Hit("payment.refund.after_publish")
	s.opts.Published()
	return nil
}

// refuseRefund handles the provider's refusal of a refund. The refusal counts only when no earlier
// call can take effect any more, and after the provider was asked for the refunds that it has: an
// earlier call, or a person, may have refunded.
func (s *Service) refuseRefund(ctx context.Context, p Payment, r Refund, answer RefundAnswer) error {
	_, early, err := s.store.ApplyRefund(ctx, r.ID, tooEarly(r.Lease, r.DoubtAt, s.callEndsAfter(p)))
	if err != nil || early {
		return err
	}
	report, err := s.reconcileRefunds(ctx, p)
	if err != nil {
		return err
	}
	if report.Disputed && p.DisputedAt.IsZero() { // its webhook was lost
		if err := s.store.Hint(ctx, p.OrderID, true); err != nil {
			return err
		}
	}
	after, _, err := s.store.ApplyRefund(ctx, r.ID, refusedByProvider(r.Lease, answer, report))
	if err == nil {
		s.logHeld(ctx, p, after)
	}
	return err
}

// logHeld logs the refund if it is HELD, that is, waits for an operator's decision.
func (s *Service) logHeld(ctx context.Context, p Payment, r Refund) {
	if r.Status == RefundHeld {
		s.log.ErrorContext(ctx, "refund held for a person", "refund_id", r.ID, "payment_id", p.ID, "order_id", p.OrderID, "cause", r.Cause,
			"amount", r.Send, "reason", r.Reason)
	}
}

// askForgotten asks the provider about a refund whose key it may have forgotten. If the provider
// does not know the refund, it is sent under a new key, once no earlier call can take effect any
// more, unless the provider has refused it often enough. askedAt is the database's time before the
// provider was asked.
func (s *Service) askForgotten(ctx context.Context, p Payment, r Refund, askedAt time.Time) error {
	report, err := s.reconcileRefunds(ctx, p)
	if err != nil {
		return err
	}
	after, _, err := s.store.ApplyRefund(ctx, r.ID, absent(r.Lease, askedAt, s.callEndsAfter(p), report))
	if err == nil {
		s.logHeld(ctx, p, after)
	}
	return err
}

// askAccepted asks whether a refund that the provider has accepted is done or has failed.
func (s *Service) askAccepted(ctx context.Context, p Payment, r Refund) error {
	if _, err := s.reconcileRefunds(ctx, p); err != nil {
		return err
	}
	age := s.opts.Now().Sub(r.LastSent)
	return s.store.PostponeRefund(ctx, r, min(max(age, acceptedPoll), maxAcceptedPoll), nil)
}
