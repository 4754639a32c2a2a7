package payment

import (
	"context"
	"errors"
	"strconv"
	"time"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/idempotency"
)

// ErrNotSent is returned by a Provider's Charge when the request was certainly not sent.
var ErrNotSent = errors.New("the provider could not be reached")

// ErrNotAdmitted is returned by a Provider's Charge while this process sends it no charges at all.
var ErrNotAdmitted = errors.New("charges are not sent at present")

// ErrChargeRejected is returned by a Provider's Charge when the provider rejected the request as
// invalid. Whether the payment was charged is unknown, since an earlier attempt may have been
// accepted.
var ErrChargeRejected = errors.New("the provider rejects the charge")

// ErrOtherCharge is returned by a Provider that finds a charge for another order, or in another
// currency, than the payment's.
var ErrOtherCharge = errors.New("the charge has another order or currency")

// declineUnreachable is the decline code of a charge that was not sent.
const declineUnreachable = "PROVIDER_UNREACHABLE"

// ConfirmRequest asks to charge a prepared payment.
type ConfirmRequest struct {
	OrderID, UserID string
	// PaymentKey is the key that the buyer brought back from the provider's page.
	PaymentKey string
	// Amount is the amount that the payer saw. It must equal the payment's amount.
	Amount int64
	// IdempotencyKey is required.
	IdempotencyKey string
}

// Confirm charges a prepared payment. The answer is UNKNOWN while the outcome is unknown: the
// sweeper then finds it out, and Get shows it. A charge continues after its request ends; the
// answer comes before the request's deadline.
//
// If the buyer brought a key back from the page, the payment is charged with that key. If the
// provider's pages return no keys, the key of the request is ignored, and the sweeper asks the provider
// whether the page was paid.
//
// Errors: those of idempotency, ErrNotFound, ErrAmountMismatch, ErrHoldExpired, the ticket
// service's, ErrSettlementDelayed, ErrProviderUnavailable, and ErrUnavailable (nothing was
// charged).
func (s *Service) Confirm(ctx context.Context, r ConfirmRequest) (Answer, error) {
	key, err := idempotency.Require(r.UserID, routeConfirm, r.IdempotencyKey, r.OrderID, r.PaymentKey, strconv.FormatInt(r.Amount, 10))
	if err != nil {
		return Answer{}, err
	}
	begun, err := s.store.Begin(ctx, r.OrderID, key, func(p Payment, now time.Time) (*Change, error) {
		if s.caps(p).NoKeys && p.Status == Open && p.UserID == r.UserID {
			return nil, s.refusesCharges(p) // only the provider knows whether it was paid on the page
		}
		return begin(r, s.caps(p).claimTime(), s.refusesCharges(p))(p, now)
	})
	switch {
	case err != nil:
		return Answer{}, err
	case begun.Replayed != nil:
		return *begun.Replayed, nil
	case !begun.MustCharge:
		if p := begun.Payment; p.Status == Open && s.caps(p).NoKeys {
			err = s.store.HintReturn(ctx, p.OrderID)
			signal(s.back)
		}
		a, refusal := answer(begun.Payment)
		return a, errors.Join(refusal, err)
	}
	type result struct {
		answer Answer
		err    error
	}
	done := make(chan result, 1)
	s.work.Go(func() {
		a, err := s.charge(context.WithoutCancel(ctx), begun.Payment, begun.Before, Outcome{})
		done <- result{a, err}
	})
	select {
	case r := <-done:
		return r.answer, r.err
	case <-beforeDeadline(ctx):
		return Answer{Status: Unknown, PaymentID: begun.Payment.ID}, nil
	}
}

// refusesCharges returns the reason why a payment cannot be charged at present, or nil.
func (s *Service) refusesCharges(p Payment) error {
	if _, ok := s.providers.For(p); !ok && p.Provider != NoProvider {
		return ErrProviderUnavailable.WithRetry(pausedRetry)
	}
	return s.gateError()
}

// beforeDeadline returns a channel that fires shortly before the request's deadline, or nil if the
// request has none.
func beforeDeadline(ctx context.Context) <-chan time.Time {
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	return time.After(max(0, time.Until(deadline)-answerMargin))
}

// charge takes a payment from CONFIRMING to its outcome. before is the payment before CONFIRMING.
// No lock and no transaction is held during calls to the ticket service or the provider. If the
// payment was UNKNOWN, an earlier charge may have been made, even if this one was not sent. seen is
// what a look-up has just returned; zero: there was none.
func (s *Service) charge(ctx context.Context, p, before Payment, seen Outcome) (Answer, error) {
	statusBefore := before.Status
	ctx, cancelCharge := context.WithTimeout(ctx, s.caps(p).claimTime())
	defer cancelCharge()
	failpoint.Hit("payment.confirm.after_confirming")
	if err := s.beginAtTicket(ctx, p); err != nil {
		return s.endNotBegun(ctx, p, before, err)
	}
	failpoint.Hit("payment.confirm.after_begin")
	out, err := s.chargeProvider(WithUrgency(ctx, ForCharge), p, seen)
	failpoint.Hit("payment.confirm.after_provider")

	decide := unsettled(p.Lease, "the provider did not answer")
	switch {
	case statusBefore.Unsettled() && (errors.Is(err, ErrNotAdmitted) || errors.Is(err, ErrNotSent)):
		decide = notAgain(p.Lease, before, "not charged again: the provider does not answer")
	case errors.Is(err, ErrNotAdmitted), errors.Is(err, ErrNoTurn), errors.Is(err, ErrNotSent) && statusBefore == Open:
		return s.putBack(ctx, p, before, "the provider does not answer", ErrProviderUnavailable.WithRetry(pausedRetry).Wrap(err))
	case errors.Is(err, ErrNotSent):
		decide = unreachable(p.Lease)
	case err != nil:
		s.log.WarnContext(ctx, "charge unknown", "payment_id", p.ID, "error", err)
		if kept, ok := errors.AsType[*KeptError](err); ok {
			decide = answered(p.Lease, before, kept.Code)
		}
	case out.State == Pending:
		decide = unsettled(p.Lease, "the provider is still deciding")
	case out.State == Captured && out.Amount != p.Amount:
		decide = unsettled(p.Lease, "another amount was charged: it is given back") // the sweeper refunds it
	case out.State == Captured:
		decide = captured(out, Never)
	case out.State == Refused, out.State == Void:
		decide = declined(out.DeclineCode, "declined by the provider")
	}
	ctx, cancel := forWrite(ctx)
	defer cancel()
	after, err := s.store.Apply(ctx, p.ID, decide)
	if err != nil {
		// The row is still CONFIRMING, so the sweeper will ask the provider.
		s.log.ErrorContext(ctx, "outcome of a charge not written", "payment_id", p.ID, "error", err)
		return Answer{Status: Unknown, PaymentID: p.ID}, nil
	}
	failpoint.Hit("payment.confirm.after_commit")
	s.opts.Published()
	if after.AbortDue {
		after.Lease = p.Lease
		s.tryRelease(ctx, after)
	}
	return answer(after)
}

// beginAtTicket claims the reference at the ticket service, or prolongs the claim, for the charge.
func (s *Service) beginAtTicket(ctx context.Context, p Payment) error {
	ctx, cancel := context.WithTimeout(ctx, ticketTimeout)
	defer cancel()
	least := s.caps(p).ChargeTime + afterCharge
	_, err := s.tickets.Begin(ctx, p, PayTime{Within: max(payWithin, least), AtLeast: least})
	return err
}

// free returns the outcome of a payment without a provider. Only one of amount 0 counts as
// captured: of any other nothing can have been charged.
func free(p Payment) Outcome {
	if p.Amount != 0 {
		return Outcome{State: Refused, DeclineCode: declineNotCharged}
	}
	return Outcome{State: Captured}
}

// chargeProvider has the provider take the money. A free payment counts as captured at once.
func (s *Service) chargeProvider(ctx context.Context, p Payment, seen Outcome) (Outcome, error) {
	if p.Provider == NoProvider {
		return free(p), nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.caps(p).ChargeTime)
	defer cancel()
	return s.provider(p).Charge(ctx, p, seen)
}

// putBack returns a payment whose charge was not sent to its earlier status, so that its payer can
// try again. The returned error is cause. An OPEN payment keeps its claim, and the sweeper tries
// again. The claim of a PREPARED one is released first, while nobody else can begin this payment.
// If the ticket service is silent, the claim lasts until the payment is tried again or expires.
func (s *Service) putBack(ctx context.Context, p Payment, before Payment, why string, cause *errs.Error) (Answer, error) {
	if before.Status != Open {
		if err := s.releaseHeld(ctx, p); err != nil {
			s.log.WarnContext(ctx, "reference not released", "payment_id", p.ID, "error", err)
		}
	}
	failpoint.Hit("payment.confirm.after_release")
	ctx, cancel := forWrite(ctx)
	defer cancel()
	after, err := s.store.Apply(ctx, p.ID, postponed(p.Lease, before, "not charged: "+why))
	switch {
	case err != nil:
		return Answer{}, errors.Join(cause, err)
	case !after.Status.Uncharged():
		return answer(after) // meanwhile the sweeper has recorded an outcome
	default:
		return Answer{}, cause
	}
}

// releaseHeld releases the reference of a payment that this process still charges. It first
// postpones the sweeper's check, and stops if another process may be charging the payment by now.
// The call's timeout starts before that, so that a process suspended after it makes no late call.
func (s *Service) releaseHeld(ctx context.Context, p Payment) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ticketTimeout)
	defer cancel()
	held, err := s.store.Apply(ctx, p.ID, whileLeaseHeld(p.Lease, Change{Status: Confirming, Check: leaseTime}))
	if err != nil || held.Status != Confirming || held.Lease != p.Lease {
		return err
	}
	return s.releaseReference(ctx, p)
}

// endNotBegun ends a charge that was not sent, because the reference could not be claimed. If the
// ticket service did not answer, it is unknown whether the reference is claimed.
func (s *Service) endNotBegun(ctx context.Context, p, before Payment, cause error) (Answer, error) {
	statusBefore := before.Status
	refusal, definite := Refusal(cause)
	decide := lost(p.Lease, before)
	switch {
	case statusBefore.Unsettled() && !definite:
		decide = notAgain(p.Lease, before, "not charged again: ticket did not answer")
	case !definite:
		return s.putBack(ctx, p, before, "ticket did not answer", errs.ErrUnavailable.Wrap(cause))
	case !statusBefore.Unsettled():
		decide = refused(p.Lease, refusal.Reason)
	}
	ctx, cancel := forWrite(ctx)
	defer cancel()
	after, err := s.store.Apply(ctx, p.ID, decide)
	if err == nil && after.AbortDue {
		after.Lease = p.Lease
		s.tryRelease(ctx, after)
	}
	switch {
	case err != nil:
		return Answer{}, errors.Join(cause, err)
	case after.Status.Unsettled(), after.Status == Confirmed:
		return answer(after) // meanwhile the sweeper has recorded an outcome
	default:
		return Answer{}, refusal
	}
}

// tryRelease releases the reference. After a failure the sweeper retries; it also closes the page.
func (s *Service) tryRelease(ctx context.Context, p Payment) {
	err := s.releaseReference(ctx, p)
	switch {
	case err != nil:
	case p.CancelDue:
		err = s.store.Released(ctx, p)
	default:
		err = s.store.Reschedule(ctx, p, Never)
	}
	if err != nil {
		s.log.WarnContext(ctx, "reference not released, trying again", "payment_id", p.ID, "error", err)
	}
}

// releaseReference asks the ticket service to release the reference. A refusal is no error: it
// means that the reference was not claimed for this payment.
func (s *Service) releaseReference(ctx context.Context, p Payment) error {
	err := s.tickets.Abort(ctx, p)
	if _, refused := Refusal(err); refused || err == nil {
		failpoint.Hit("payment.end.after_abort")
		return nil
	}
	return err
}
