package draw

import (
	"context"
	"errors"
	"time"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/pkg/promotion"
)

const (
	// voidLead is how long before the deciding round cancelling a draw ends, since a clock may be slow
	// by some seconds, and the write takes up to voidTimeout.
	voidLead = 10 * time.Second
	// voidTimeout is the time limit of the write that cancels a draw: the round must come later.
	voidTimeout = 2 * time.Second
	// operatorTries is how many times an operator's change is tried while processes change the draw.
	operatorTries = 5
)

// SubmitBeacon stores the beacon's value for the round that decides a draw. It fails with
// errs.ErrPromotionNotFound, errs.ErrInvalidRequest for a value that the beacon did not sign, and
// errs.ErrConflict when the draw does not wait for a value.
func (d *Drawer) SubmitBeacon(ctx context.Context, event, value, signature string) (promotion.Draw, error) {
	return d.changeLottery(ctx, event, func(s *drawRun) (Lottery, error) {
		after := s.Lottery
		if s.terms.Beacon == nil || !s.Draw.Public() {
			return after, errs.ErrConflict
		}
		if overdue, err := s.seedOverdue(); err != nil || overdue {
			return after, errors.Join(err, errs.ErrConflict) // the next pass makes a later round decide
		}
		number, err := s.Draw.DecidingRound(&s.terms.Commitment)
		if err != nil {
			return after, err
		}
		round := beacon.Round{Round: number, Randomness: value, Signature: signature}
		switch {
		case s.Draw.Phase == promotion.DrawVoid, s.now().Before(s.terms.Beacon.TimeOf(number)):
			return after, errs.ErrConflict
		case s.terms.Beacon.Verify(round) != nil:
			return after, errs.ErrInvalidRequest.WithFields(errs.Field{Path: "signature", Message: "is not the beacon's for this round and value"})
		case s.Draw.Beacon == nil:
			after.Draw.Beacon = &round
			after.Draw = s.withDueAt(after.Draw)
		}
		return after, nil
	}, d.store.ChangeLottery)
}

// Void cancels a draw and its promotion. It fails with errs.ErrPromotionNotFound, errs.ErrConflict
// when there is no draw, and errs.ErrDrawFixed when the result may be known. A draw that cannot
// end, since its key is lost, may be cancelled at any time; the reason is stored.
func (d *Drawer) Void(ctx context.Context, event string) (promotion.Draw, error) {
	return d.changeLottery(ctx, event, func(s *drawRun) (Lottery, error) {
		after := s.Lottery
		if s.Draw.Phase == promotion.DrawVoid {
			return after, nil
		}
		now := s.now()
		voidable, err := s.voidable(now)
		if err != nil {
			return after, err
		}
		if !voidable {
			if after.Draw.VoidReason = s.lostKey(); after.Draw.VoidReason == "" {
				return after, errs.ErrDrawFixed
			}
			s.log.WarnContext(ctx, "draw cancelled, since it cannot go on without its key", "event_id", event, "reason", after.Draw.VoidReason)
		}
		after.markVoid(now)
		return after, nil
	}, func(ctx context.Context, before, after Lottery) error {
		ctx, cancel := context.WithTimeout(ctx, voidTimeout)
		defer cancel()
		return d.store.ChangeLottery(ctx, before, after)
	})
}

func (l *Lottery) markVoid(now time.Time) {
	l.Draw.Phase, l.Draw.VoidedAt, l.Draw.DueAt = promotion.DrawVoid, now.UnixMilli(), 0
	l.Promotion.VoidedAt = now.UnixMilli()
	l.Promotion.Version++
}

// voidForLostBeacon cancels a draw whose beacon has not published the deciding round in time, as a
// call has just shown. Nothing else can end such a draw.
func (s *drawRun) voidForLostBeacon(ctx context.Context) (advanced bool, err error) {
	after := s.Lottery
	after.markVoid(s.now())
	after.Draw.VoidReason = promotion.BeaconLost
	if err := s.store.ChangeLottery(ctx, s.Lottery, after); err != nil {
		return false, err
	}
	s.log.ErrorContext(ctx, "draw cancelled, since its beacon has ended", "event_id", s.Promotion.EventID)
	s.Lottery = after
	return true, nil
}

// lostKey returns which missing key keeps the draw from ending; empty: none. Without the signing
// key no root becomes public. Without the seed's key there is no result, except in a lottery with a
// beacon, which zeros and a later round decide.
func (s *drawRun) lostKey() promotion.VoidReason {
	if !canSign(s.keys.Keys(), &s.Lottery, &s.terms) {
		return promotion.SigningKeyLost
	}
	if _, seeded := s.seed(); !seeded && s.terms.Beacon == nil && !s.Draw.Announced() {
		return promotion.SeedKeyLost
	}
	return ""
}

// voidable reports whether the draw may be cancelled now even if no key is missing: until the time
// of the deciding beacon round, which verifiers know. Without a beacon it may be cancelled until
// the root is public, since the operator can compute the result from then on.
func (s *drawRun) voidable(now time.Time) (bool, error) {
	until := s.terms.Announced()
	switch {
	case s.Draw.Phase == promotion.DrawDrawn, s.Draw.Phase == promotion.DrawSettled, s.terms.Beacon == nil && s.Draw.Public():
		return false, nil
	case s.terms.Beacon != nil:
		round := s.terms.Round
		if s.Draw.Public() {
			statement, err := fairdraw.ParseStatement([]byte(s.Draw.Statement))
			if err != nil {
				return false, err
			}
			round = statement.Round
		}
		until = s.terms.Beacon.TimeOf(round)
	}
	return now.Add(voidLead).Before(until), nil
}

// changeLottery reads a lottery, has decide change it, and writes the change. It begins again when
// the lottery was changed meanwhile.
func (d *Drawer) changeLottery(
	ctx context.Context, event string, decide func(s *drawRun) (Lottery, error), write func(ctx context.Context, before, after Lottery) error,
) (promotion.Draw, error) {
	if d.opts.Skew() != 0 {
		return promotion.Draw{}, errs.ErrUnavailable.Wrap(errClock)
	}
	for range operatorTries {
		l, found, err := d.store.Lottery(ctx, event)
		if err != nil {
			return l.Draw, err
		}
		if !found {
			return l.Draw, errs.ErrPromotionNotFound
		}
		if l.Promotion.EventType != promotion.Lottery {
			return l.Draw, errs.ErrConflict
		}
		t, err := d.terms.termsOf(&l.Promotion)
		if err != nil {
			return l.Draw, err
		}
		after, err := decide(&drawRun{Drawer: d, Lottery: l, terms: t})
		if err != nil || after == l {
			return after.Draw, err
		}
		err = write(ctx, l, after)
		if !errors.Is(err, ErrChanged) {
			return after.Draw, err
		}
	}
	return promotion.Draw{}, errs.ErrConflict
}
