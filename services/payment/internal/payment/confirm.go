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

// ErrNotSent is what a Provider's Charge returns when the request certainly did not leave.
var ErrNotSent = errors.New("the provider could not be reached")

// ErrNotAdmitted is what a Provider's Charge returns when it would not send the request at present:
// nothing is wrong with the payment.
var ErrNotAdmitted = errors.New("charges are not sent at present")

// ErrChargeRejected is what a Provider's Charge returns when the provider answered that it does not
// take this request, as one that it cannot read. The charge is unknown all the same, since an
// earlier attempt may have been taken; the provider works.
var ErrChargeRejected = errors.New("the provider rejects the charge")

// declineUnreachable is the decline code of a charge that was not sent.
const declineUnreachable = "PROVIDER_UNREACHABLE"

// ConfirmRequest asks to charge.
type ConfirmRequest struct {
	OrderID, UserID string
	// PaymentKey is what the provider's page gave.
	PaymentKey string
	// Amount that the payer saw; it must be the payment's.
	Amount int64
	// IdempotencyKey is required.
	IdempotencyKey string
}

// Confirm charges a prepared payment. The answer is UNKNOWN while the provider's is: the sweeper
// then settles it, and Get shows it. A charge goes on when its request ends; nobody waits longer
// than the request's deadline.
//
// Errors: those of idempotency, ErrNotFound, ErrAmountMismatch, ErrHoldExpired, ticket's refusals,
// ErrSettlementDelayed, ErrProviderUnavailable and Unavailable (nothing was charged; repeat).
func (s *Service) Confirm(ctx context.Context, r ConfirmRequest) (Answer, error) {
	key, err := idempotency.Require(r.UserID, routeConfirm, r.IdempotencyKey, r.OrderID, r.PaymentKey, strconv.FormatInt(r.Amount, 10))
	if err != nil {
		return Answer{}, err
	}
	begun, err := s.store.Begin(ctx, r.OrderID, key, begin(r, s.chargeTime(), s.admission()))
	switch {
	case err != nil:
		return Answer{}, err
	case begun.Replayed != nil:
		return *begun.Replayed, nil
	case !begun.Mine:
		return answer(begun.Payment)
	}
	type result struct {
		answer Answer
		err    error
	}
	done := make(chan result, 1)
	s.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.chargeTime())
		defer cancel()
		a, err := s.charge(ctx, begun.Payment)
		done <- result{a, err}
	})
	select {
	case r := <-done:
		return r.answer, r.err
	case <-patience(ctx):
		return Answer{Status: Unknown, PaymentID: begun.Payment.ID}, nil
	}
}

// chargeTime is what a confirmation may take in all; the sweeper does not touch the payment before.
func (s *Service) chargeTime() time.Duration { return s.opts.ProviderTimeout + 7*time.Second }

// patience ends shortly before the request's time does.
func patience(ctx context.Context) <-chan time.Time {
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	return time.After(max(0, time.Until(deadline)-answerMargin))
}

// charge takes a payment from CONFIRMING to its end. No lock and no transaction is open while
// ticket or the provider is asked.
func (s *Service) charge(ctx context.Context, p Payment) (Answer, error) {
	failpoint.Hit("payment.confirm.after_confirming")
	if err := s.tickets.Begin(ctx, p); err != nil {
		return s.notBegun(ctx, p, err)
	}
	out, err := s.ask(ctx, p)
	failpoint.Hit("payment.confirm.after_provider")

	decide := unsettled(p.Lease, "the provider did not answer")
	switch {
	case errors.Is(err, ErrNotAdmitted):
		return s.notCharged(ctx, p, err)
	case errors.Is(err, ErrNotSent):
		decide = declined(declineUnreachable, "the provider could not be reached")
	case err != nil:
		s.log.WarnContext(ctx, "charge unknown", "payment_id", p.ID, "error", err)
	case out.State == Pending:
		decide = unsettled(p.Lease, "the provider is still deciding")
	case out.State == Captured && out.Amount != p.Amount:
		decide = unsettled(p.Lease, "another amount was charged: it is given back") // by the sweeper
	case out.State == Captured:
		decide = captured(out.ChargeID, Never)
	case out.State == Refused, out.State == Void:
		decide = declined(out.DeclineCode, "declined by the provider")
	}
	settled, err := s.store.Apply(ctx, p.ID, decide)
	if err != nil {
		// The row still says CONFIRMING, so the sweeper will ask the provider.
		s.log.ErrorContext(ctx, "outcome of a charge not written", "payment_id", p.ID, "error", err)
		return Answer{Status: Unknown, PaymentID: p.ID}, nil
	}
	failpoint.Hit("payment.confirm.after_commit")
	s.opts.Published()
	if settled.AbortDue {
		s.abort(ctx, settled)
	}
	return answer(settled)
}

// ask charges at the provider; what costs nothing needs none.
func (s *Service) ask(ctx context.Context, p Payment) (Outcome, error) {
	if p.Amount == 0 {
		return Outcome{State: Captured, Amount: p.Amount}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.ProviderTimeout)
	defer cancel()
	return s.provider.Charge(ctx, p)
}

// notCharged puts a payment back whose charge was not sent, for its payer to try again. The
// reference is given up first, while nobody else can begin with this payment: it is then held as
// before. When ticket does not answer it stays claimed until the payment is tried again or expires.
func (s *Service) notCharged(ctx context.Context, p Payment, cause error) (Answer, error) {
	if err := s.release(ctx, p); err != nil {
		s.log.WarnContext(ctx, "reference not released", "payment_id", p.ID, "error", err)
	}
	failpoint.Hit("payment.confirm.after_release")
	settled, err := s.store.Apply(ctx, p.ID, postponed(p.Lease, "not charged: the provider does not answer"))
	switch {
	case err != nil:
		return Answer{}, errors.Join(cause, err)
	case settled.Status != Prepared:
		return answer(settled) // the sweeper was here in the meantime
	default:
		return Answer{}, ErrProviderUnavailable.WithRetry(pausedRetry).Wrap(cause)
	}
}

// notBegun ends a confirmation whose reference could not be claimed; nothing was charged.
func (s *Service) notBegun(ctx context.Context, p Payment, cause error) (Answer, error) {
	no, definite := Refusal(cause)
	decide := postponed(p.Lease, "not charged: ticket did not answer")
	if definite {
		decide = refused(p.Lease, no.Reason)
	}
	settled, err := s.store.Apply(ctx, p.ID, decide)
	switch {
	case err != nil:
		return Answer{}, errors.Join(cause, err)
	case settled.Status.Unsettled(), settled.Status == Confirmed:
		return answer(settled) // the sweeper was here in the meantime
	case definite:
		return Answer{}, no
	default:
		return Answer{}, errs.ErrUnavailable.Wrap(cause)
	}
}

// abort tells ticket that nothing was paid; the sweeper repeats it until it is heard.
func (s *Service) abort(ctx context.Context, p Payment) {
	err := s.release(ctx, p)
	if err == nil {
		err = s.store.Reschedule(ctx, p, Never)
	}
	if err != nil {
		s.log.WarnContext(ctx, "reference not released, trying again", "payment_id", p.ID, "error", err)
	}
}

// release gives up the reference; nil when it was not claimed for this payment any more, too.
func (s *Service) release(ctx context.Context, p Payment) error {
	err := s.tickets.Abort(ctx, p)
	if _, refused := Refusal(err); refused {
		return nil
	}
	return err
}
