package payment

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Webhook takes a provider's call. It is a hint and no more: what counts is what the provider
// answers when it is asked, so that a replayed or reordered call changes nothing. Errors:
// ErrProviderUnknown, ErrWebhookSignature.
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
			return nil // nothing that is said of a charge can change this
		}
		// Somebody may have given the money back at the provider.
	case Refunding, Refunded:
		return nil // a refund of ours
	case Confirming, Unknown:
		// Whoever charges may be about to write the outcome: two who ask the provider come to the
		// same end, the later one writes nothing.
	case Prepared, Declined, Expired:
		// A charge that shows up late.
	}
	return s.recheck(ctx, p)
}

// recheck asks the provider about a payment and writes what it says; when the provider does not
// answer, the sweeper goes on asking.
func (s *Service) recheck(ctx context.Context, p Payment) error {
	out, err := s.lookup(ctx, p)
	if err == nil {
		_, err = s.learn(ctx, p, out)
	}
	if err != nil {
		s.log.WarnContext(ctx, "webhook not followed up yet", "payment_id", p.ID, "error", err)
		return s.store.Hurry(ctx, p.ID)
	}
	return nil
}

// learn writes what the provider says about a charge. known is false when that decides nothing yet.
func (s *Service) learn(ctx context.Context, p Payment, out Outcome) (known bool, err error) {
	switch out.State {
	case Captured:
		if out.Amount != p.Amount {
			return s.wrongAmount(ctx, p, out)
		}
		if out.Refunded > 0 {
			return true, s.capturedAndGivenBack(ctx, p, out)
		}
		return true, s.write(ctx, p, captured(out.ChargeID, Never))
	case Refused:
		return true, s.write(ctx, p, declined(out.DeclineCode, "declined by the provider"))
	case Void:
		return true, s.write(ctx, p, declined(declineNotCharged, "not charged"))
	default: // Absent, Pending
		return false, nil
	}
}

// write writes what is known of a charge, and releases the reference of one that was not made.
func (s *Service) write(ctx context.Context, p Payment, decide Decide) error {
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

// settle brings a payment that is due one step further: PREPARED expires, a reference is released,
// an unknown charge is settled.
func (s *Service) settle(ctx context.Context, p Payment, now time.Time) error {
	switch {
	case p.Status == Prepared:
		_, err := s.store.Apply(ctx, p.ID, expired)
		return err
	case p.AbortDue:
		if err := s.release(ctx, p); err != nil {
			return errors.Join(err, s.store.Reschedule(ctx, p, backoff(p.Checks, maxLook)))
		}
		// Not forgotten yet: the provider is asked once more, since a webhook's word that was to be
		// followed up must not go with the release.
		return s.store.Released(ctx, p)
	case p.Status.Unsettled():
		return s.settleCharge(ctx, p, now)
	default:
		return s.settleLate(ctx, p)
	}
}

// settleLate asks once more about a payment that was given up: a webhook may have spoken of it.
func (s *Service) settleLate(ctx context.Context, p Payment) error {
	out, err := s.lookup(ctx, p)
	if err == nil {
		_, err = s.learn(ctx, p, out)
	}
	wait := Never
	if err != nil {
		wait = backoff(p.Checks, maxLook)
	}
	return errors.Join(err, s.store.Reschedule(ctx, p, wait))
}

func (s *Service) settleCharge(ctx context.Context, p Payment, now time.Time) error {
	if p.Amount == 0 { // its process died before it could be confirmed, and there is nobody to ask
		_, err := s.learn(ctx, p, Outcome{State: Captured})
		return err
	}
	out, err := s.lookup(ctx, p)
	known := false
	if err == nil {
		known, err = s.learn(ctx, p, out)
	}
	if err == nil && !known {
		known, err = s.void(ctx, p, out, now)
	}
	if known {
		return err
	}
	// Also after an error: the next look must not wait for the lease's end.
	if rerr := s.store.Reschedule(ctx, p, backoff(p.Checks, maxLook)); rerr != nil {
		return rerr
	}
	return err
}

// void ends an order that the provider does not know, or has left undecided for too long. Until
// VoidAfter a charge on its way may still arrive and is let through; then it is made impossible.
// When the provider will not void, not having heard of it for 15 min is enough.
func (s *Service) void(ctx context.Context, p Payment, out Outcome, now time.Time) (known bool, err error) {
	age := now.Sub(p.ConfirmingAt)
	if out.State == Absent && age < s.opts.VoidAfter || out.State == Pending && age < giveUp {
		return false, nil
	}
	vctx, cancel := context.WithTimeout(ctx, s.opts.ProviderTimeout)
	defer cancel()
	voided, err := s.provider.Void(vctx, p.OrderID)
	switch {
	case err == nil && voided.State == Void, err != nil && out.State == Absent && age >= giveUp:
		return s.learn(ctx, p, Outcome{State: Void})
	case err != nil:
		return false, fmt.Errorf("void order %s: %w", p.OrderID, err)
	default:
		return false, nil // captured just now: the next look sees it
	}
}

// declineNotCharged is the decline code of a charge that never arrived.
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

// backoff is the wait after the nth attempt (from 1): 1, 2, 4 s … up to a limit, with jitter of a
// quarter.
func backoff(n int, limit time.Duration) time.Duration {
	d := min(firstLook<<min(max(n-1, 0), 20), limit)
	return d - d/8 + rand.N(d/4) //nolint:gosec // jitter
}
