package payment

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"urr.guru/pkg/failpoint"
)

// Webhook handles a provider's webhook. It only stores a warning of fraud, or a hint, which makes the
// sweeper ask the provider: so the webhook is answered at once, and repeated or reordered webhooks
// change nothing.
// An order that is not stored here is only counted: a provider's account may serve other shops, and
// providers turn off webhooks that are refused. Errors: ErrProviderUnknown, ErrWebhookSignature.
func (s *Service) Webhook(ctx context.Context, providerName string, headers map[string]string, body []byte) error {
	configured, ok := s.providers.Of(providerName)
	if !ok {
		return ErrProviderUnknown
	}
	notice, err := configured.ParseWebhook(headers, body, s.opts.Now())
	if err != nil || notice.OrderID == "" && notice.ChargeID == "" {
		return err
	}
	ctx, cancel := forWrite(ctx)
	defer cancel()
	if err = s.hint(ctx, providerName, notice); !errors.Is(err, ErrNotFound) {
		return err
	}
	s.opts.Observe.unknownOrder()
	if suppressed, ok := s.lines.Allow(""); ok {
		s.log.InfoContext(ctx, "webhook about an unknown order", "provider", providerName, "order_id", loggedOrder(notice.OrderID),
			"charge_id", notice.ChargeID, "suppressed", suppressed)
	}
	return nil
}

// hint stores the hint of a webhook, or its warning of fraud. If its order is not stored here, the error
// is ErrNotFound.
func (s *Service) hint(ctx context.Context, providerName string, n Notice) (err error) {
	if n.OrderID == "" {
		if n.OrderID, err = s.store.OrderOfCharge(ctx, providerName, n.ChargeID); err != nil {
			return err
		}
	}
	switch {
	case !IsOrderID(n.OrderID):
		return ErrNotFound
	case n.FraudType != "":
		return s.store.Warn(ctx, n.OrderID, n.FraudType)
	case n.Unsigned:
		return s.store.HintUnsigned(ctx, providerName, n.OrderID, n.Refund)
	default:
		return s.store.Hint(ctx, n.OrderID, n.Refund)
	}
}

// loggedOrder returns an order id that anybody may have sent, as it may be logged.
func loggedOrder(id string) string {
	if id == "" || IsOrderID(id) {
		return id
	}
	return "malformed"
}

// lookupAndApply asks the provider about a charge and applies the answer (see applyOutcome).
func (s *Service) lookupAndApply(ctx context.Context, p Payment) (out Outcome, known bool, err error) {
	if out, err = s.lookup(ctx, p); err == nil {
		known, err = s.applyOutcome(ctx, p, out)
	}
	return out, known, err
}

// applyOutcome applies the provider's answer about a charge. known is false when the outcome is
// still open.
func (s *Service) applyOutcome(ctx context.Context, p Payment, out Outcome) (known bool, err error) {
	switch out.State {
	case Captured:
		if out.Amount != p.Amount {
			return true, s.declineWrongAmount(ctx, p, out)
		}
		if out.Refunded > 0 {
			return true, s.captureAndReconcile(ctx, p, out)
		}
		return true, s.applyDecision(ctx, p, captured(out, Never))
	case Refused:
		return true, s.applyDecision(ctx, p, declined(out.DeclineCode, "declined by the provider"))
	case Void:
		return true, s.applyDecision(ctx, p, declined(declineNotCharged, "not charged"))
	default: // Absent, Pending
		return false, nil
	}
}

// declineWrongAmount ends a payment of which a wrong amount was captured, and refunds all of it. A
// CONFIRMED payment stays as it is: the provider reported the right amount before, the payer has
// what was paid for, and only an operator may decide about a refund.
func (s *Service) declineWrongAmount(ctx context.Context, p Payment, out Outcome) error {
	if p.Captured == 0 {
		s.opts.Observe.wrongAmount()
		s.log.ErrorContext(ctx, "wrong amount charged: it is refunded", "payment_id", p.ID, "order_id", p.OrderID, "charged", out.Amount,
			"asked", p.Amount)
	}
	err := s.applyDecision(ctx, p, wrongAmount(newID(), out))
	s.wakeSweeper(Compensations)
	return err
}

// captureAndReconcile confirms a payment of which the provider has already refunded a part or all.
// The sweeper checks the payment until the confirmation and the refunds are both stored, since the
// process may die between the two.
func (s *Service) captureAndReconcile(ctx context.Context, p Payment, out Outcome) error {
	confirmed, err := s.store.Apply(ctx, p.ID, captured(out, firstPoll))
	if err != nil {
		return err
	}
	confirmed.Lease = p.Lease
	s.opts.Published()
	failpoint.Hit("payment.settle.after_captured")
	return s.followRefundHint(ctx, confirmed)
}

// applyDecision applies decide, and releases the reference if nothing was charged.
func (s *Service) applyDecision(ctx context.Context, p Payment, decide Decide) error {
	settled, err := s.store.Apply(ctx, p.ID, decide)
	if err != nil {
		return err
	}
	s.opts.Published()
	settled.Lease = p.Lease // if a later hint took a new lease, the provider is asked again
	switch {
	case settled.AbortDue:
		s.tryRelease(ctx, settled)
	case p.Hinted:
		return s.store.Reschedule(ctx, settled, Never)
	}
	return nil
}

// advanceDue makes the next step of a due payment: it follows or ends one of which nothing was
// charged, releases a reference, or asks the provider about a charge.
func (s *Service) advanceDue(ctx context.Context, p Payment, now time.Time) error {
	switch {
	case p.Status == Open && (p.Ref != "" || p.PaymentKey != ""):
		return s.followPage(ctx, p, now)
	case p.Status.Uncharged() && (!p.Hinted || !now.Before(p.ExpiresAt)):
		return s.end(ctx, p, expired)
	case p.AbortDue:
		if err := s.releaseReference(ctx, p); err != nil {
			return errors.Join(err, s.store.Reschedule(ctx, p, backoff(p.Checks, maxPoll)))
		}
		// The payment stays due: a webhook may have made it due too, and must not be forgotten.
		return s.store.Released(ctx, p)
	case p.Status.Unsettled():
		return s.settleCharge(ctx, p, now)
	case p.CancelDue:
		return s.closePage(ctx, p)
	default:
		return s.followHint(ctx, p)
	}
}

// end applies a decision that ends a payment. The sweeper then releases its reference and closes
// its page, in other lanes.
func (s *Service) end(ctx context.Context, p Payment, decide Decide) error {
	_, err := s.store.Apply(ctx, p.ID, decide)
	return err
}

// followHint asks the provider about a payment that is not being charged: a webhook may have
// reported its charge or refund, or it may have been charged after it ended. If it is captured,
// only its refunds can be new.
func (s *Service) followHint(ctx context.Context, p Payment) error {
	if p.Provider == NoProvider || !p.Hinted && p.ChargedAt.IsZero() && p.Ref == "" {
		return s.store.Reschedule(ctx, p, Never)
	}
	if p.Captured > 0 {
		return s.followRefundHint(ctx, p)
	}
	out, known, err := s.lookupAndApply(ctx, p)
	switch {
	case err != nil:
		return s.retryHint(ctx, p, err)
	case !known && out.State == Authorized && !p.Status.Uncharged():
		return s.closePage(ctx, p) // the buyer authorised it after it had ended
	}
	return s.store.Reschedule(ctx, p, Never)
}

// retryHint makes a payment due again after asking the provider failed. It returns the cause.
func (s *Service) retryHint(ctx context.Context, p Payment, cause error) error {
	wait := backoff(p.Checks, maxPoll)
	if errors.Is(cause, ErrNoTurn) { // the provider is not asked more often because of this
		wait = firstPoll
	}
	return errors.Join(cause, s.store.Reschedule(ctx, p, wait))
}

// settleCharge asks the provider about a charge whose outcome is unknown, and applies the answer.
// If the provider has not charged, it charges again, or voids the charge after some time. now is
// the database's time before the look-up.
func (s *Service) settleCharge(ctx context.Context, p Payment, now time.Time) error {
	if p.Provider == NoProvider { // the process died before it confirmed this payment
		_, err := s.applyOutcome(ctx, p, free(p))
		return err
	}
	out, known, err := s.lookupAndApply(ctx, p)
	if err == nil && !known {
		p, known, err = s.pursueCharge(ctx, p, out, now)
	}
	if known {
		return err
	}
	// Reschedule even after an error, so that the next check does not wait for the lease's end.
	if rescheduleErr := s.store.Reschedule(ctx, p, backoff(p.Checks, maxPoll)); rescheduleErr != nil {
		return rescheduleErr
	}
	return err
}

// pursueCharge continues a charge that the provider has not made. While the ticket service keeps
// the reference, it charges again with the same key. After that it voids the charge.
func (s *Service) pursueCharge(ctx context.Context, p Payment, out Outcome, now time.Time) (after Payment, known bool, err error) {
	if p.Status == Confirming && now.Sub(p.ChargedAt) < s.caps(p).claimTime() {
		return p, false, nil // due early by a hint: the charge may still be under way
	}
	if s.chargesAgain(p, out) {
		charged, err := s.chargeBySweeper(ctx, p, out)
		switch {
		case err != nil:
			return p, false, err
		case !charged.NoCharge:
			return charged, true, nil // the store has the time of the next check
		}
		p = charged
	}
	known, err = s.voidOverdue(ctx, p, out, now)
	return p, known, err
}

// maxAttempts is the most charges of a payment at a provider that can void charges.
const maxAttempts = 2

// chargesAgain reports whether a charge is sent again: the buyer's authorisation is still there, or
// the provider never got the charge. One that cannot be voided is repeated without limit.
func (s *Service) chargesAgain(p Payment, out Outcome) bool {
	switch {
	case p.NoCharge:
		return false
	case out.State == Authorized:
		return true
	default:
		return (out.State == Absent || out.State == Waiting) && (!s.caps(p).Void || p.Attempt < maxAttempts)
	}
}

// chargeBySweeper charges a payment that no request waits for, of which a look-up has just returned
// seen, and returns its new state. If another process is charging the payment, it sends nothing.
func (s *Service) chargeBySweeper(ctx context.Context, p Payment, seen Outcome) (Payment, error) {
	decide, begins := chargedBySweeper(p, seen.Key, s.caps(p)), false
	begun, err := s.store.Apply(ctx, p.ID, func(locked Payment, now time.Time) (*Change, error) {
		c, err := decide(locked, now)
		begins = c != nil
		return c, err
	})
	if err != nil || !begins {
		return begun, err
	}
	p.Hinted = p.Hinted || seen.State == Authorized // if it cannot be sent now, it is not given up
	if _, err := s.charge(ctx, begun, p, seen); err != nil && !p.Status.Unsettled() {
		s.log.InfoContext(ctx, "payment not charged after its page", "payment_id", p.ID, "error", err)
	}
	return s.store.Get(ctx, p.ID)
}

// voidOverdue voids an order that the provider does not know after Finality, or has left pending
// for abandonAfter. A charge that arrives earlier is accepted. If the provider cannot void, or does
// not answer, an order that it does not know counts as not charged once its latest charge is too
// old to be made any more.
func (s *Service) voidOverdue(ctx context.Context, p Payment, out Outcome, now time.Time) (known bool, err error) {
	caps, age, latest := s.caps(p), now.Sub(p.ConfirmingAt), now.Sub(p.ChargedAt)
	if !caps.Void {
		age = latest
	}
	if out.State != Pending && age < caps.Finality || out.State == Pending && age < abandonAfter {
		return false, nil
	}
	voidCtx, cancel := context.WithTimeout(ctx, caps.CallTime)
	defer cancel()
	voided, err := s.provider(p).Cancel(voidCtx, p)
	impossible := err == nil && (voided.State == Void || voided.State == NotPossible && out.State != Pending)
	switch {
	case impossible, err != nil && out.State == Absent && latest >= max(abandonAfter, caps.Finality):
		return s.applyOutcome(ctx, p, Outcome{State: Void})
	case err != nil:
		return false, fmt.Errorf("void order %s: %w", p.OrderID, err)
	default:
		return false, nil // captured in the meantime: the next check applies it
	}
}

// declineNotCharged is the decline code of a charge that never reached the provider.
const declineNotCharged = "NOT_CHARGED"

func (s *Service) lookup(ctx context.Context, p Payment) (Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, s.caps(p).CallTime)
	defer cancel()
	out, err := s.provider(p).Ask(ctx, p)
	if err != nil {
		return Outcome{}, fmt.Errorf("look up order %s: %w", p.OrderID, err)
	}
	return out, nil
}

// backoff returns the pause after the nth attempt (from 1): 1, 2, 4 s … up to a limit, varied at
// random by up to an eighth.
func backoff(n int, limit time.Duration) time.Duration {
	d := min(firstPoll<<min(max(n-1, 0), 20), limit)
	return d - d/8 + rand.N(d/4) //nolint:gosec // jitter
}
