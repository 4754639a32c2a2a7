package payment

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Webhook handles a provider's webhook. It is only a hint to ask the provider, whose answer counts,
// so that a replayed or reordered webhook changes nothing. Errors: ErrProviderUnknown,
// ErrWebhookSignature.
func (s *Service) Webhook(ctx context.Context, provider string, headers map[string]string, body []byte) error {
	if provider != s.opts.Provider {
		return ErrProviderUnknown
	}
	notice, err := s.checkout.Webhook(headers, body, s.opts.Now())
	if err != nil || notice.OrderID == "" {
		return err
	}
	p, err := s.store.Order(ctx, notice.OrderID)
	if err != nil {
		return err
	}
	switch p.Status {
	case Confirmed:
		if !notice.Refund {
			return nil // no webhook about a charge can change this
		}
		// The charge may have been refunded manually at the provider.
	case Refunding, Refunded:
		return nil // a refund of ours
	case Confirming, Unknown:
		// The charging request may be about to write the outcome: both get the same answer from the
		// provider, and the later one writes nothing.
	case Prepared, Declined, Expired:
		// A charge that becomes known late.
	}
	return s.recheck(ctx, p)
}

// recheck asks the provider about a payment and applies the answer. When the provider does not
// answer, the sweeper continues to ask.
func (s *Service) recheck(ctx context.Context, p Payment) error {
	out, err := s.lookup(ctx, p)
	if err == nil {
		_, err = s.applyOutcome(ctx, p, out)
	}
	if err != nil {
		s.log.WarnContext(ctx, "webhook not followed up yet", "payment_id", p.ID, "error", err)
		return s.store.MakeDue(ctx, p.ID)
	}
	return nil
}

// applyOutcome applies the provider's answer about a charge. known is false when the answer decides
// nothing yet.
func (s *Service) applyOutcome(ctx context.Context, p Payment, out Outcome) (known bool, err error) {
	switch out.State {
	case Captured:
		if out.Amount != p.Amount {
			return s.wrongAmount(ctx, p, out)
		}
		if out.Refunded > 0 {
			return true, s.captureWithManualRefund(ctx, p, out)
		}
		return true, s.applyDecision(ctx, p, captured(out.ChargeID, Never))
	case Refused:
		return true, s.applyDecision(ctx, p, declined(out.DeclineCode, "declined by the provider"))
	case Void:
		return true, s.applyDecision(ctx, p, declined(declineNotCharged, "not charged"))
	default: // Absent, Pending
		return false, nil
	}
}

// applyDecision writes the decision about a charge, and releases the reference if nothing was
// charged.
func (s *Service) applyDecision(ctx context.Context, p Payment, decide Decide) error {
	settled, err := s.store.Apply(ctx, p.ID, decide)
	if err != nil {
		return err
	}
	s.opts.Published()
	if settled.AbortDue {
		s.abort(ctx, settled)
	}
	return nil
}

// settle takes the next step of a due payment: PREPARED expires, a reference is released, an
// unknown charge is settled.
func (s *Service) settle(ctx context.Context, p Payment, now time.Time) error {
	switch {
	case p.Status == Prepared:
		_, err := s.store.Apply(ctx, p.ID, expired)
		return err
	case p.AbortDue:
		if err := s.release(ctx, p); err != nil {
			return errors.Join(err, s.store.Reschedule(ctx, p, backoff(p.Checks, maxPoll)))
		}
		// The payment stays due: a webhook that still has to be followed up must not be lost with
		// the release.
		return s.store.Released(ctx, p)
	case p.Status.Unsettled():
		return s.settleCharge(ctx, p, now)
	default:
		return s.settleLate(ctx, p)
	}
}

// settleLate asks the provider again about a payment that has ended: a webhook may have reported a
// charge.
func (s *Service) settleLate(ctx context.Context, p Payment) error {
	out, err := s.lookup(ctx, p)
	if err == nil {
		_, err = s.applyOutcome(ctx, p, out)
	}
	wait := Never
	if err != nil {
		wait = backoff(p.Checks, maxPoll)
	}
	return errors.Join(err, s.store.Reschedule(ctx, p, wait))
}

// settleCharge asks the provider about a charge whose outcome is unknown, applies the answer, and
// voids the order if the provider has left it undecided for too long.
func (s *Service) settleCharge(ctx context.Context, p Payment, now time.Time) error {
	if p.Amount == 0 { // its process died before confirming it; free payments have no provider
		_, err := s.applyOutcome(ctx, p, Outcome{State: Captured})
		return err
	}
	out, err := s.lookup(ctx, p)
	known := false
	if err == nil {
		known, err = s.applyOutcome(ctx, p, out)
	}
	if err == nil && !known {
		known, err = s.void(ctx, p, out, now)
	}
	if known {
		return err
	}
	// Also after an error: the next check must not wait for the end of the lease.
	if rerr := s.store.Reschedule(ctx, p, backoff(p.Checks, maxPoll)); rerr != nil {
		return rerr
	}
	return err
}

// void ends an order that the provider does not know, or has left undecided for too long. Until
// VoidAfter a charge in flight may still arrive and is accepted; then it is made impossible. If the
// provider cannot void, an order that it has not known for 15 min counts as not charged.
func (s *Service) void(ctx context.Context, p Payment, out Outcome, now time.Time) (known bool, err error) {
	age := now.Sub(p.ConfirmingAt)
	if out.State == Absent && age < s.opts.VoidAfter || out.State == Pending && age < abandonAfter {
		return false, nil
	}
	vctx, cancel := context.WithTimeout(ctx, s.opts.ProviderTimeout)
	defer cancel()
	voided, err := s.provider.Void(vctx, p.OrderID)
	switch {
	case err == nil && voided.State == Void, err != nil && out.State == Absent && age >= abandonAfter:
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
	ctx, cancel := context.WithTimeout(ctx, s.opts.ProviderTimeout)
	defer cancel()
	out, err := s.provider.Lookup(ctx, p.OrderID)
	if err != nil {
		return Outcome{}, fmt.Errorf("look up order %s: %w", p.OrderID, err)
	}
	return out, nil
}

// backoff is the pause after the nth attempt (from 1): 1, 2, 4 s … up to a limit, with a jitter of
// a quarter.
func backoff(n int, limit time.Duration) time.Duration {
	d := min(firstPoll<<min(max(n-1, 0), 20), limit)
	return d - d/8 + rand.N(d/4) //nolint:gosec // jitter
}
