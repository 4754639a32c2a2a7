package draw

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/pkg/promotion"
)

// drawRun is the work on one draw. Its Lottery is the state that this process has last read or
// written; it is not read again between two steps.
type drawRun struct {
	*Drawer
	Lottery

	terms terms
}

func (s *drawRun) now() time.Time { return s.opts.Now() }

// rankLead is how long before the announcement the entries are ranked; a million take less time.
// Until then no result is in the table or its backups, which some people can read.
const rankLead = 5 * time.Minute

// mustWait reports whether the next step is not due yet. It makes no calls.
func (s *drawRun) mustWait() bool {
	at := s.dueAt(&s.Draw)
	switch s.Draw.Phase {
	case promotion.DrawOpen:
		at = at.Add(s.opts.After)
	case promotion.DrawClosed:
		if _, timely := s.nextRound(); !timely && s.Draw.Statement == "" {
			return true
		}
	case promotion.DrawRoot, promotion.DrawDrawn, promotion.DrawSettled, promotion.DrawVoid:
	}
	return s.now().Before(at)
}

// dueAt returns the time before which a draw in state d cannot take its next step; zero: at once.
// It depends only on the draw and its terms, so that the list of open draws can be sorted by it.
func (s *drawRun) dueAt(d *promotion.Draw) time.Time {
	switch d.Phase {
	case promotion.DrawOpen:
		return s.terms.Cutoff()
	case promotion.DrawRoot:
		if s.terms.Beacon == nil || d.Beacon != nil {
			return s.terms.Announced().Add(-rankLead)
		}
		if round, err := d.DecidingRound(&s.terms.Commitment); err == nil {
			return s.terms.Beacon.TimeOf(round)
		}
	case promotion.DrawDrawn:
		if d.Announced() {
			return s.terms.Announced().Add(s.settleDelay())
		}
		return s.terms.Announced()
	case promotion.DrawClosed, promotion.DrawSettled, promotion.DrawVoid:
	}
	return time.Time{}
}

// withDueAt returns a changed draw with the time at which its next step is due.
func (s *drawRun) withDueAt(d promotion.Draw) promotion.Draw {
	if d.DueAt = 0; !s.dueAt(&d).IsZero() {
		d.DueAt = s.dueAt(&d).UnixMilli()
	}
	return d
}

// writesResults reports whether the next step writes the results of requests, which may take long.
func (s *drawRun) writesResults() bool {
	return s.Draw.Announced() || s.Draw.Phase == promotion.DrawSettled || s.Draw.Phase == promotion.DrawVoid
}

// takeStep takes the draw's next step; advanced is false when the draw has to wait, or is over.
func (s *drawRun) takeStep(ctx context.Context) (advanced bool, err error) {
	if s.mustWait() {
		return false, nil
	}
	switch s.Draw.Phase {
	case promotion.DrawOpen:
		return s.closeWhenSettled(ctx)
	case promotion.DrawClosed:
		if s.Draw.Statement == "" {
			return s.storeStatement(ctx)
		}
		return s.signStatement(ctx)
	case promotion.DrawRoot:
		return s.storeDecision(ctx)
	case promotion.DrawDrawn:
		if !s.Draw.Announced() {
			return s.announceResult(ctx)
		}
		return s.writeResults(ctx)
	case promotion.DrawVoid:
		return false, s.rejectEntries(ctx)
	case promotion.DrawSettled: // l was read before another process wrote the results
		return false, s.forget(ctx)
	}
	return false, fmt.Errorf("the phase %q is not known", s.Draw.Phase)
}

// advance writes a change of the draw, then hits the failpoint worker.draw.<point>.
func (s *drawRun) advance(ctx context.Context, point string, change func(d *promotion.Draw)) (advanced bool, err error) {
	after := s.Draw
	change(&after)
	after = s.withDueAt(after)
	err = retry(ctx, func() error { return s.store.Advance(ctx, s.Draw, after) })
	if err != nil {
		return false, err
	}
	s.Draw = after
	failpoint.Hit("worker.draw." + point)
	return true, nil
}

// closeWhenSettled closes the groups once all requests from before the cutoff are processed. A
// request that is processed meanwhile becomes an entry of an open group, or is rejected by a closed
// one. So the entries are final if no such request is left after the groups are closed.
func (s *drawRun) closeWhenSettled(ctx context.Context) (advanced bool, err error) {
	if unsettled, err := s.unsettled(ctx); unsettled || err != nil {
		return false, err
	}
	failpoint.Hit("worker.draw.waited")
	if err := s.closeGroups(ctx); err != nil {
		return false, err
	}
	if unsettled, err := s.unsettled(ctx); unsettled || err != nil {
		return false, err
	}
	return s.advance(ctx, "closed", func(d *promotion.Draw) { d.Phase, d.ClosedAt = promotion.DrawClosed, s.now().UnixMilli() })
}

func (s *drawRun) unsettled(ctx context.Context) (bool, error) {
	return retryRead(ctx, func() (bool, error) { return s.store.Unsettled(ctx, s.Promotion.EventID, s.terms.CutoffAt) })
}

func (s *drawRun) closeGroups(ctx context.Context) error {
	err := retry(ctx, func() error { return s.store.CloseGroups(ctx, s.Promotion.EventID) })
	failpoint.Hit("worker.draw.closing")
	return err
}

// storeStatement lists the entries and the exclusions, and stores the statement about them, dated
// now.
func (s *drawRun) storeStatement(ctx context.Context) (advanced bool, err error) {
	entries, err := s.listEntries(ctx)
	if err != nil {
		return false, err
	}
	excluded, err := retryRead(ctx, func() ([]fairdraw.Exclusion, error) { return s.store.Exclusions(ctx, s.Promotion.EventID) })
	if err != nil {
		return false, err
	}
	failpoint.Hit("worker.draw.listed")
	root := entries.Root()
	if err := s.putEntries(ctx, root, entries); err != nil {
		return false, err
	}
	if _, timely := s.nextRound(); !timely { // the listing took too long
		return false, nil
	}
	statement, err := fairdraw.NewStatement(&s.terms.Commitment, s.terms.hash, root, int64(entries.Len()), excluded, s.now())
	if err != nil {
		return false, err
	}
	text, err := statement.Text()
	if err != nil {
		return false, err
	}
	return s.advance(ctx, "stated", func(d *promotion.Draw) { d.Statement = string(text) })
}

// signMargin is the least time from the start of the signing write to the latest time at which the
// root may become public. The write may take half of it; the rest is for differing clocks.
const signMargin = 10 * time.Second

// publicationMargin is signMargin, or less for delays below fairdraw.MinDelay (development only).
// There, rounds follow each other so fast that no root would be in time with signMargin.
func (s *drawRun) publicationMargin() time.Duration {
	delay := time.Duration(s.terms.Beacon.DelaySeconds) * time.Second
	return min(signMargin, max(delay/12, min(delay/2, 2*time.Second)))
}

// nextRound returns the beacon round that decides the draw if its root is signed now. timely is
// false when the root may become public too late for that round. The draw then waits until the
// round is over, and the statement lists it as missed.
func (s *drawRun) nextRound() (round uint64, timely bool) {
	if s.terms.Beacon == nil {
		return 0, true
	}
	now := s.now()
	round, _ = s.terms.RoundFor(now)
	later, _ := s.terms.RoundFor(now.Add(s.publicationMargin()))
	return round, later == round
}

// signStatement publishes the stored statement. A statement that would be public too late for its
// round is not signed but dropped, and another is made for a later round.
func (s *drawRun) signStatement(ctx context.Context) (advanced bool, err error) {
	statement, err := fairdraw.ParseStatement([]byte(s.Draw.Statement))
	if err != nil {
		return false, err
	}
	signed, err := fairdraw.SignStatement(s.keys.Keys().Statements, &s.terms.Commitment, []byte(s.Draw.Statement))
	if err != nil {
		return false, err
	}
	after := s.Draw
	after.Phase, after.Signature = promotion.DrawRoot, signed.Signature
	if s.terms.Beacon != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.publicationMargin()/2)
		defer cancel()
	}
	// The deadline begins before the clock is read, and the write is tried once: a later try would
	// have to look at the clock again, as the next pass does.
	if round, timely := s.nextRound(); !timely || round != statement.Round {
		return s.advance(ctx, "dropped", func(d *promotion.Draw) { d.Statement = "" })
	}
	after.RootAt = s.now().UnixMilli()
	after = s.withDueAt(after)
	if err := s.store.Advance(ctx, s.Draw, after); err != nil {
		return false, err
	}
	s.Draw = after
	failpoint.Hit("worker.draw.signed")
	s.log.InfoContext(ctx, "the root of a draw is public", "event_id", s.Promotion.EventID, "entries", statement.Count,
		"excluded", statement.ExcludedCount, "round", statement.Round, "missed_rounds", statement.MissedRounds)
	return true, nil
}

// storeDecision stores the beacon's value when it is published and, shortly before the
// announcement, the winners.
func (s *drawRun) storeDecision(ctx context.Context) (advanced bool, err error) {
	if overdue, err := s.seedOverdue(); err != nil || overdue {
		if err != nil {
			return false, err
		}
		return s.decideByZeros(ctx)
	}
	if s.terms.Beacon != nil && s.Draw.Beacon == nil {
		return s.fetchRound(ctx)
	}
	seed, ok := s.seed()
	if !ok {
		return false, nil // Figures.KeyMissing counts this draw
	}
	return s.storeWinners(ctx, seed)
}

// seedOverdue reports whether the seed was not revealed in time, so that zeros in its place and a
// later beacon round decide.
func (s *drawRun) seedOverdue() (bool, error) {
	if s.terms.Beacon == nil || s.Draw.ZeroSeed {
		return false, nil
	}
	statement, err := fairdraw.ParseStatement([]byte(s.Draw.Statement))
	if err != nil {
		return false, err
	}
	return !s.now().Before(s.terms.Beacon.TimeOf(s.terms.ZeroSeedRound(statement.Round))), nil
}

func (s *drawRun) decideByZeros(ctx context.Context) (advanced bool, err error) {
	s.log.ErrorContext(ctx, "the seed of a draw was not revealed in time, zeros decide", "event_id", s.Promotion.EventID)
	return s.advance(ctx, "overdue", func(d *promotion.Draw) {
		d.Phase, d.ZeroSeed, d.Beacon, d.WinnersCount, d.DrawnAt = promotion.DrawRoot, true, nil, 0, 0
	})
}

// seed returns the draw's seed, or zeros if it is overdue; ok is false when its key is missing.
func (s *drawRun) seed() (seed fairdraw.Hash, ok bool) {
	if s.Draw.ZeroSeed {
		return fairdraw.Hash{}, true
	}
	return s.keys.Keys().Seed(&s.terms.Commitment, s.terms.nonce)
}

func (s *drawRun) fetchRound(ctx context.Context) (advanced bool, err error) {
	number, err := s.Draw.DecidingRound(&s.terms.Commitment)
	if err != nil {
		return false, err
	}
	round, err := s.beacons.Get(ctx, s.terms.Beacon.Chain, number)
	if err != nil && ctx.Err() == nil {
		if lost, bad := s.beaconLost(); lost || bad != nil {
			if bad != nil {
				return false, bad
			}
			return s.voidForLostBeacon(ctx)
		}
	}
	if errors.Is(err, beacon.ErrNotPublished) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return s.advance(ctx, "fetched", func(d *promotion.Draw) { d.Beacon = &round })
}

// beaconLost reports whether the beacon's time to publish the deciding round is over.
func (s *drawRun) beaconLost() (bool, error) {
	statement, err := fairdraw.ParseStatement([]byte(s.Draw.Statement))
	return err == nil && !s.now().Before(s.terms.BeaconLostAt(statement.Round)), err
}

// storeWinners ranks the entries and stores the winners. Every process computes the same result.
func (s *drawRun) storeWinners(ctx context.Context, seed fairdraw.Hash) (advanced bool, err error) {
	statement, err := fairdraw.ParseStatement([]byte(s.Draw.Statement))
	if err != nil {
		return false, err
	}
	var value []byte
	if s.Draw.Beacon != nil {
		hash, err := fairdraw.ParseHash(s.Draw.Beacon.Randomness)
		if err != nil {
			return false, err
		}
		value = hash[:]
	}
	entries, err := s.listEntries(ctx)
	if err != nil {
		return false, err
	}
	if entries.Root() != statement.Root {
		return false, errors.New("the entries are not those of the signed root")
	}
	order := fairdraw.Order(fairdraw.Key(seed, s.terms.hash, statement.Root, value), entries)
	failpoint.Hit("worker.draw.ranked")
	winners := make([]uuid.UUID, min(s.terms.Winners, len(order)))
	for i := range winners {
		winners[i] = entries.At(int(order[i]))
	}
	if err := s.putRanks(ctx, order); err != nil {
		return false, err
	}
	if err := retry(ctx, func() error { return s.store.PutWinners(ctx, s.Draw, winners, s.Promotion.EndsAt()) }); err != nil {
		return false, err
	}
	return s.advance(ctx, "drawn", func(d *promotion.Draw) {
		d.Phase, d.WinnersCount, d.DrawnAt = promotion.DrawDrawn, int64(len(winners)), s.now().UnixMilli()
	})
}
