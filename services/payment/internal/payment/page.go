package payment

import (
	"context"
	"crypto/subtle"
	"errors"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/failpoint"
)

// pagePolls are the ages of an open page at which the sweeper asks its provider whether the buyer
// has paid: a buyer who has paid may never come back, and a webhook may be lost.
var pagePolls = []time.Duration{ //nolint:gochecknoglobals // a constant
	20 * time.Second, time.Minute, 3 * time.Minute, 6 * time.Minute, 12 * time.Minute,
}

// openPage claims the reference of a prepared payment and opens its page. Each step is idempotent.
// The page's address is returned only after all steps; after a failure the payment is returned
// without a page, and the client repeats the request.
func (s *Service) openPage(ctx context.Context, p Payment, provider Provider) (Payment, Page, error) {
	if err := s.gateError(); err != nil {
		return p, Page{}, err
	}
	until, err := s.claimForPage(ctx, p)
	if refusal, definite := Refusal(err); definite {
		return s.refusePage(ctx, p, refusal.Reason, refusal)
	}
	if err != nil {
		s.log.WarnContext(ctx, "reference not claimed for a page", "payment_id", p.ID, "error", err)
		return s.withoutClaim(ctx, p)
	}
	failpoint.Hit("payment.prepare.after_claim")
	page, err := s.makePage(WithUrgency(ctx, ForOpening), p, provider)
	if err != nil {
		return s.notOpened(ctx, p, err)
	}
	failpoint.Hit("payment.prepare.after_page")
	writeCtx, cancel := forWrite(ctx)
	defer cancel()
	after, err := s.store.Apply(writeCtx, p.ID, opened(page, pageEnd(s.opts.Now(), until, provider.Capabilities())))
	if err != nil {
		return p, Page{}, err
	}
	failpoint.Hit("payment.prepare.after_open")
	if after.Status == Expired || after.Status == Declined { // ended meanwhile, maybe before the claim
		if after, err = s.store.Apply(writeCtx, p.ID, reclaimed); err == nil {
			s.tryRelease(writeCtx, after)
		}
		return after, Page{}, err
	}
	return after, s.pageOf(ctx, after), nil
}

// notOpened handles the error of opening a page. If the page can never be opened, the payment ends;
// after ErrKeySpent the next payment has another key.
func (s *Service) notOpened(ctx context.Context, p Payment, cause error) (Payment, Page, error) {
	s.log.WarnContext(ctx, "page not opened", "payment_id", p.ID, "error", cause)
	refusal, final := errors.AsType[*NotTakenError](cause)
	switch {
	case final:
		return s.endUnopened(ctx, p, notTaken(refusal.Code))
	case errors.Is(cause, ErrKeySpent):
		return s.endUnopened(ctx, p, unopened)
	case errors.Is(cause, ErrNotAdmitted):
		return p, Page{}, ErrProviderUnavailable.WithRetry(pausedRetry).Wrap(cause)
	default:
		return p, Page{}, nil
	}
}

// endUnopened ends a payment whose page can never be opened.
func (s *Service) endUnopened(ctx context.Context, p Payment, decide Decide) (Payment, Page, error) {
	ctx, cancel := forWrite(ctx)
	defer cancel()
	after, err := s.store.Apply(ctx, p.ID, decide)
	if err == nil && after.AbortDue {
		s.tryRelease(ctx, after)
	}
	return after, Page{}, err
}

// unopened ends a PREPARED payment for which the provider will never open a page.
func unopened(p Payment, _ time.Time) (*Change, error) {
	if p.Status != Prepared {
		return nil, nil //nolint:nilnil // opened by another request, or ended
	}
	return ended(p, "the provider opens no page for it"), nil
}

// withoutClaim returns a payment after the ticket service did not answer the claim. If the payment
// has ended meanwhile, the claim may still be granted: the sweeper releases it later.
func (s *Service) withoutClaim(ctx context.Context, p Payment) (Payment, Page, error) {
	ctx, cancel := forWrite(ctx)
	defer cancel()
	after, err := s.store.Apply(ctx, p.ID, reclaimed)
	if err != nil {
		return p, Page{}, err
	}
	return after, Page{}, nil
}

// pageEnd returns when an OPEN payment expires; until is the end of its claim.
func pageEnd(now, until time.Time, caps Capabilities) time.Time {
	last := until.Add(-caps.pageMargin())
	if end := now.Add(caps.PageTime); end.Before(last) {
		return end
	}
	return last
}

// claimForPage claims the reference for the time that the buyer has on the page. If the claim of an
// ended payment prevents that, it is released, and the call is repeated.
func (s *Service) claimForPage(ctx context.Context, p Payment) (time.Time, error) {
	pageTime := s.caps(p).PageTime
	t := PayTime{Within: pageTime, AtLeast: min(leastPage, pageTime), Opens: true}
	claim := func() (time.Time, error) {
		ctx, cancel := context.WithTimeout(ctx, ticketTimeout)
		defer cancel()
		return s.tickets.Begin(ctx, p, t)
	}
	until, err := claim()
	if !errors.Is(err, ErrInProgress) || !s.releaseEnded(ctx, p.Reference) {
		return until, err
	}
	return claim()
}

// releaseEnded releases a reference from its ended payments, and reports whether there were any. It
// includes payments that were released before: since then a process that has died may have claimed
// the reference for a page.
func (s *Service) releaseEnded(ctx context.Context, ref Reference) (released bool) {
	ids, err := s.store.PaymentIDsByReference(ctx, ref)
	for _, id := range ids {
		var p Payment
		p, err = s.store.Get(ctx, id)
		switch ended := p.Status == Expired || p.Status == Declined; {
		case err != nil:
		case p.AbortDue:
			s.tryRelease(ctx, p)
			released = true
		case ended && p.Captured == 0 && p.HasPage():
			if err = s.releaseReference(ctx, p); err == nil {
				released = true
			}
		}
	}
	if err != nil {
		s.log.WarnContext(ctx, "ended payments of a reference not read", "reference_id", ref.ID, "error", err)
	}
	return released
}

// refusePage ends a payment whose claim the ticket service has refused. If the reason is another
// payment in progress, this one stays PREPARED, and the client repeats the request.
func (s *Service) refusePage(ctx context.Context, p Payment, reason string, refusal error) (Payment, Page, error) {
	if errors.Is(refusal, ErrInProgress) {
		return p, Page{}, refusal
	}
	ctx, cancel := forWrite(ctx)
	defer cancel()
	after, err := s.store.Apply(ctx, p.ID, refusedPage(reason))
	if err == nil && after.AbortDue {
		s.tryRelease(ctx, after)
	}
	return after, Page{}, errors.Join(refusal, err)
}

func (s *Service) makePage(ctx context.Context, p Payment, provider Provider) (Page, error) {
	ctx, cancel := context.WithTimeout(ctx, provider.Capabilities().CallTime)
	defer cancel()
	return provider.Open(ctx, p)
}

// pageOf returns the page on which the buyer may pay; empty: there is none.
func (s *Service) pageOf(ctx context.Context, p Payment) Page {
	provider, ok := s.providers.For(p)
	switch {
	case !ok || !p.Status.Uncharged() || p.Status == Prepared && p.HasPage():
		return Page{}
	case p.PageURL != "":
		return Page{URL: p.PageURL}
	}
	page, err := s.makePage(ctx, p, provider)
	if err != nil {
		s.log.WarnContext(ctx, "page not made", "payment_id", p.ID, "error", err)
	}
	return page
}

// Return handles a buyer who comes back from a provider's page, perhaps in another browser: the
// token authenticates the buyer. If the page returned a key, it is stored, and the sweeper charges
// with it; otherwise the sweeper asks the provider. With readOnly nothing changes. Errors:
// ErrProviderUnknown, ErrNotFound, ErrAmountMismatch (another amount was paid on the page).
func (s *Service) Return(ctx context.Context, providerName string, params map[string]string, readOnly bool) (Payment, error) {
	auth, err := s.providers.auth(providerName, params)
	if err != nil {
		return Payment{}, err
	}
	id, err := s.store.PaymentIDByOrderID(ctx, auth.OrderID)
	if err != nil {
		return Payment{}, err
	}
	p, err := s.store.Get(ctx, id)
	switch {
	case err != nil:
		return Payment{}, err
	case p.Provider != providerName || !p.HasPage() || subtle.ConstantTimeCompare([]byte(p.TokenSHA256), []byte(TokenDigest(auth.Token))) != 1:
		return Payment{}, ErrNotFound
	case readOnly || p.Status != Open: // nothing to do: the caller shows the payment as it is
		return p, nil
	case auth.Amount != 0 && auth.Amount != p.Amount:
		return Payment{}, ErrAmountMismatch // nothing is charged
	case auth.Key == "":
		after, err := s.noteDecline(ctx, p, auth.DeclineCode)
		if err == nil {
			err = s.store.HintReturn(ctx, p.OrderID)
		}
		signal(s.back)
		return after, err
	}
	after, err := s.store.Apply(ctx, p.ID, returned(auth.Key))
	signal(s.back)
	return after, err
}

// Cancel ends a user's payment of which nothing was charged, and releases its reference. Errors:
// ErrNotFound, ErrInProgress (it is being charged), ErrAlreadyPaid.
func (s *Service) Cancel(ctx context.Context, id uuid.UUID, userID string) (View, error) {
	after, err := s.store.Apply(ctx, id, givenUp(userID))
	if err != nil {
		return View{}, err
	}
	if after.AbortDue {
		s.tryRelease(ctx, after)
	}
	return s.Get(ctx, id, userID, false)
}

// EndGivenUp ends a payment whose payer gave up the seats while the provider's page was open. The
// ticket service accepts no claim of these seats any more, so it cannot be charged. eventKey
// identifies the Kafka event that reports this; it is processed once. Errors: ErrNotFound.
func (s *Service) EndGivenUp(ctx context.Context, eventKey string, id uuid.UUID) error {
	return s.store.ApplyOnce(ctx, eventKey, id, func(p Payment, _ EarlierRefunds, _ time.Time) (*Change, error) {
		if !p.Status.Uncharged() {
			return nil, nil //nolint:nilnil // it has ended, or the ticket service will refuse its charge
		}
		return ended(p, "the payer gave up the places"), nil
	})
}

// Providers returns the configured providers that take an amount of a currency, the default one
// first, with their limits for it. With an empty currency it returns all.
func (s *Service) Providers(amount int64, currency string) []ProviderLimits {
	if currency == "" {
		return s.providers.Limits()
	}
	list := s.providers.taking(amount, currency)
	for i, l := range list {
		if l.Currencies != nil {
			list[i].Currencies = map[string]Limits{currency: l.Currencies[currency]}
		}
	}
	return list
}

// followPage continues an OPEN payment: it charges when the buyer has paid on the page, and ends
// the payment when its time is over. Before it does, it asks the provider once more: the claim
// lasts a little longer, and the ticket service decides whether a charge is still in time. The claim
// of an Awaited payment is kept until the provider has answered.
func (s *Service) followPage(ctx context.Context, p Payment, now time.Time) error {
	over := !now.Before(p.ExpiresAt)
	last := !now.Before(p.ExpiresAt.Add(s.caps(p).pageMargin())) && !p.Awaited()
	out := Outcome{State: Authorized} // the buyer brought the key back
	if p.PaymentKey == "" {
		var err error
		if out, err = s.lookup(ctx, p); err != nil {
			if last {
				return errors.Join(err, s.end(ctx, p, expired))
			}
			return s.retryHint(ctx, p, err)
		}
		noted, err := s.noteDecline(ctx, p, out.DeclineCode)
		if err != nil {
			return err
		}
		p.Version = noted.Version // the end of this look is written on it
	}
	switch {
	case out.State == Captured: // not by a charge of this service, but it counts
		_, err := s.applyOutcome(ctx, p, out)
		return err
	case out.State == Refused || out.State == Void:
		return s.end(ctx, p, closed)
	case over && (out.State != Authorized || last):
		return s.end(ctx, p, expired)
	case out.State == Authorized && s.refusesCharges(p) != nil:
		return s.store.Reschedule(ctx, p, pausedRetry) // until it is charged, its hold is not extended
	case out.State == Authorized:
		_, err := s.chargeBySweeper(ctx, p, out)
		return err
	}
	next := min(max(p.Checks, 1), len(pagePolls)-1)
	return s.store.Poll(ctx, p, pagePolls[next]-pagePolls[next-1])
}

// noteDecline stores the code of an attempt that was declined on the page, if there is a new one. Most
// looks at a page find none, and write nothing.
func (s *Service) noteDecline(ctx context.Context, p Payment, code string) (Payment, error) {
	if code == "" || code == p.DeclineCode {
		return p, nil
	}
	return s.store.Apply(ctx, p.ID, declinedOnPage(code))
}

// errNotClosed says that the provider cannot close a page or cancel an authorisation yet.
var errNotClosed = errors.New("the provider cannot close the page yet")

// closePage makes the provider close the page or authorisation of an ended payment, so that the
// buyer's funds are free again.
func (s *Service) closePage(ctx context.Context, p Payment) error {
	callCtx, cancel := context.WithTimeout(ctx, s.caps(p).CallTime)
	defer cancel()
	out, err := s.provider(p).Cancel(callCtx, p)
	failpoint.Hit("payment.end.after_cancel")
	if err == nil && out.State == NotPossible && s.caps(p).Void {
		err = errNotClosed
	}
	if err != nil {
		return s.retryHint(ctx, p, err)
	}
	if out.State == Captured { // Ask returns the captured amount
		if _, _, err := s.lookupAndApply(ctx, p); err != nil {
			return s.retryHint(ctx, p, err)
		}
	}
	return s.store.Reschedule(ctx, p, Never)
}
