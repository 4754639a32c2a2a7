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

// step is the work on one draw, as it was read or as this process has written it last: it decides
// without reading the draw again.
type step struct {
	*Drawer
	Lottery

	terms terms
}

func (s *step) now() time.Time { return s.opts.Now() }

// waits reports, without any call, that there is nothing to do yet.
func (s *step) waits() bool {
	switch now := s.now(); s.Draw.Phase {
	case promotion.DrawOpen:
		return now.Before(s.terms.Cutoff().Add(s.opts.After))
	case promotion.DrawRoot:
		round, err := s.Draw.DecidingRound(&s.terms.Commitment)
		return err == nil && s.terms.Beacon != nil && now.Before(s.terms.Beacon.TimeOf(round))
	case promotion.DrawDrawn:
		at := s.terms.Announced()
		if s.Draw.Announced() {
			at = at.Add(s.settleDelay())
		}
		return now.Before(at)
	case promotion.DrawClosed:
		_, timely := s.round()
		return !timely && s.Draw.Statement == ""
	case promotion.DrawSettled, promotion.DrawVoid:
	}
	return false
}

// settling reports that all requests get their results next, which can take long.
func (s *step) settling() bool {
	return s.Draw.Announced() || s.Draw.Phase == promotion.DrawSettled || s.Draw.Phase == promotion.DrawVoid
}

// next takes one step; moved is false when the draw has to wait, or is over.
func (s *step) next(ctx context.Context) (moved bool, err error) {
	if s.waits() {
		return false, nil
	}
	switch s.Draw.Phase {
	case promotion.DrawOpen:
		return s.close(ctx)
	case promotion.DrawClosed:
		if s.Draw.Statement == "" {
			return s.state(ctx)
		}
		return s.sign(ctx)
	case promotion.DrawRoot:
		return s.decide(ctx)
	case promotion.DrawDrawn:
		if !s.Draw.Announced() {
			return s.announce(ctx)
		}
		return s.settle(ctx)
	case promotion.DrawVoid:
		return false, s.reject(ctx)
	case promotion.DrawSettled: // by a process that died before it took it off the list
		return false, s.forget(ctx)
	}
	return false, fmt.Errorf("the phase %q is not known", s.Draw.Phase)
}

// advance writes the next state of the draw.
func (s *step) advance(ctx context.Context, point string, change func(d *promotion.Draw)) (moved bool, err error) {
	after := s.Draw
	change(&after)
	err = retry(ctx, func() error { return s.store.Advance(ctx, s.Draw, after) })
	if err != nil {
		return false, err
	}
	s.Draw = after
	failpoint.Hit("worker.draw." + point)
	return true, nil
}

// close ends the taking of entries once every request from before the cutoff is settled. A request that
// enters meanwhile is in a group that is still open; one that finds its group closed is rejected. So
// after the second wait the lists are final.
func (s *step) close(ctx context.Context) (moved bool, err error) {
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

func (s *step) unsettled(ctx context.Context) (unsettled bool, err error) {
	err = retry(ctx, func() (err error) {
		unsettled, err = s.store.Unsettled(ctx, s.Promotion.EventID, s.terms.CutoffAt)
		return err
	})
	return unsettled, err
}

func (s *step) closeGroups(ctx context.Context) error {
	err := retry(ctx, func() error { return s.store.CloseGroups(ctx, s.Promotion.EventID) })
	failpoint.Hit("worker.draw.closing")
	return err
}

// state lists the entries and the exclusions and stores the statement, which fixes its time.
func (s *step) state(ctx context.Context) (moved bool, err error) {
	entries, err := s.entries(ctx)
	if err != nil {
		return false, err
	}
	var excluded []fairdraw.Exclusion
	if err := retry(ctx, func() (err error) {
		excluded, err = s.store.Exclusions(ctx, s.Promotion.EventID)
		return err
	}); err != nil {
		return false, err
	}
	failpoint.Hit("worker.draw.listed")
	if _, timely := s.round(); !timely { // the listing took too long
		return false, nil
	}
	statement, err := fairdraw.NewStatement(&s.terms.Commitment, s.terms.hash, entries.Root(), int64(entries.Len()), excluded, s.now())
	if err != nil {
		return false, err
	}
	text, err := statement.Text()
	if err != nil {
		return false, err
	}
	return s.advance(ctx, "stated", func(d *promotion.Draw) { d.Statement = string(text) })
}

// signMargin is the time from the latest begin of the signing write to the latest time at which the root
// may become public. The write is bounded by half of it; the rest is for clocks that differ.
const signMargin = 10 * time.Second

// margin is signMargin, or less for delays below fairdraw.MinDelay, which are for development only: their
// rounds follow each other so fast that no root would be in time for one.
func (s *step) margin() time.Duration {
	delay := time.Duration(s.terms.Beacon.DelaySeconds) * time.Second
	return min(signMargin, max(delay/12, min(delay/2, 2*time.Second)))
}

// round is the round that a root of now names. timely is false when it cannot be sure to be public in
// time for it: the draw waits then until the round is missed, so that the statement lists it.
func (s *step) round() (round uint64, timely bool) {
	if s.terms.Beacon == nil {
		return 0, true
	}
	now := s.now()
	round, _ = s.terms.RoundFor(now)
	later, _ := s.terms.RoundFor(now.Add(s.margin()))
	return round, later == round
}

// sign publishes the stored statement. One that would be public too late for its round is dropped
// before it is signed, and made anew for a later round.
func (s *step) sign(ctx context.Context) (moved bool, err error) {
	statement, err := fairdraw.ParseStatement([]byte(s.Draw.Statement))
	if err != nil {
		return false, err
	}
	signed, err := fairdraw.SignStatement(s.keys.Keys().Signing, &s.terms.Commitment, []byte(s.Draw.Statement))
	if err != nil {
		return false, err
	}
	after := s.Draw
	after.Phase, after.Signature = promotion.DrawRoot, signed.Signature
	if s.terms.Beacon != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.margin()/2)
		defer cancel()
	}
	// The deadline begins before the clock is read, and the write is tried once: a later try would have
	// to look at the clock again, as the next pass does.
	if round, timely := s.round(); !timely || round != statement.Round {
		return s.advance(ctx, "dropped", func(d *promotion.Draw) { d.Statement = "" })
	}
	after.RootAt = s.now().UnixMilli()
	if err := s.store.Advance(ctx, s.Draw, after); err != nil {
		return false, err
	}
	s.Draw = after
	failpoint.Hit("worker.draw.signed")
	s.log.InfoContext(ctx, "the root of a draw is public", "event_id", s.Promotion.EventID, "entries", statement.Count,
		"excluded", statement.ExcludedCount, "round", statement.Round, "missed_rounds", statement.MissedRounds)
	return true, nil
}

// decide stores the value of the beacon, and then the winners.
func (s *step) decide(ctx context.Context) (moved bool, err error) {
	if overdue, err := s.overdue(); err != nil || overdue {
		if err != nil {
			return false, err
		}
		return s.withoutSeed(ctx)
	}
	if s.terms.Beacon != nil && s.Draw.Beacon == nil {
		return s.fetch(ctx)
	}
	seed, ok := s.seed()
	if !ok {
		return false, nil // the metric of missing keys says so
	}
	return s.rank(ctx, seed)
}

// overdue reports that the seed was not revealed in time, so that zeros and a later round decide.
func (s *step) overdue() (bool, error) {
	if s.terms.Beacon == nil || s.Draw.ZeroSeed {
		return false, nil
	}
	statement, err := fairdraw.ParseStatement([]byte(s.Draw.Statement))
	if err != nil {
		return false, err
	}
	return !s.now().Before(s.terms.Beacon.TimeOf(s.terms.ZeroSeedRound(statement.Round))), nil
}

func (s *step) withoutSeed(ctx context.Context) (moved bool, err error) {
	s.log.ErrorContext(ctx, "the seed of a draw was not revealed in time, zeros decide", "event_id", s.Promotion.EventID)
	return s.advance(ctx, "overdue", func(d *promotion.Draw) {
		d.Phase, d.ZeroSeed, d.Beacon, d.WinnersCount, d.DrawnAt = promotion.DrawRoot, true, nil, 0, 0
	})
}

// seed is the operator's, or zeros; ok is false when its key is missing.
func (s *step) seed() (seed fairdraw.Hash, ok bool) {
	if s.Draw.ZeroSeed {
		return fairdraw.Hash{}, true
	}
	return s.keys.Keys().Seed(&s.terms.Commitment, s.terms.nonce)
}

func (s *step) fetch(ctx context.Context) (moved bool, err error) {
	number, err := s.Draw.DecidingRound(&s.terms.Commitment)
	if err != nil {
		return false, err
	}
	round, err := s.beacons.Round(ctx, s.terms.Beacon.Chain, number)
	if errors.Is(err, beacon.ErrNotPublished) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return s.advance(ctx, "fetched", func(d *promotion.Draw) { d.Beacon = &round })
}

// rank stores the winners. They follow from what is stored and from the seed, so any process that does
// it stores the same.
func (s *step) rank(ctx context.Context, seed fairdraw.Hash) (moved bool, err error) {
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
	entries, err := s.entries(ctx)
	if err != nil {
		return false, err
	}
	if entries.Root() != statement.Root {
		return false, errors.New("the entries are not those of the signed root")
	}
	winners := fairdraw.Winners(fairdraw.Key(seed, s.terms.hash, statement.Root, value), entries, s.terms.Winners)
	failpoint.Hit("worker.draw.ranked")
	if err := retry(ctx, func() error { return s.store.PutWinners(ctx, s.Draw, winners, s.Promotion.EndsAt()) }); err != nil {
		return false, err
	}
	return s.advance(ctx, "drawn", func(d *promotion.Draw) {
		d.Phase, d.WinnersCount, d.DrawnAt = promotion.DrawDrawn, int64(len(winners)), s.now().UnixMilli()
	})
}

// entries lists the entries and compares their number with the counters.
func (s *step) entries(ctx context.Context) (fairdraw.Entries, error) {
	var counted map[string]int64
	if err := retry(ctx, func() (err error) {
		counted, err = s.store.Counted(ctx, s.Promotion.EventID)
		return err
	}); err != nil {
		return nil, err
	}
	groups := promotion.LotteryGroups()
	lists := make([]fairdraw.Entries, len(groups))
	if err := each(ctx, len(groups), func(ctx context.Context, i int) error {
		err := s.group(ctx, groups[i], func(page fairdraw.Entries) error {
			lists[i] = append(lists[i], page...)
			return nil
		})
		if err == nil && int64(lists[i].Len()) != counted[groups[i]] {
			return fmt.Errorf("group %s has %d entries, but %d were counted", groups[i], lists[i].Len(), counted[groups[i]])
		}
		return err
	}); err != nil {
		return nil, err
	}
	size := 0
	parts := make([]fairdraw.Pages, len(lists))
	for i, list := range lists {
		size += len(list)
		parts[i] = func() (fairdraw.Entries, error) {
			page := list
			list = nil
			return page, nil
		}
	}
	all := make(fairdraw.Entries, 0, size)
	err := fairdraw.Merge(parts, func(id uuid.UUID) error {
		all = append(all, id[:]...)
		return nil
	})
	return all, err
}

// group reads the entries of a group page by page.
func (s *step) group(ctx context.Context, group string, take func(page fairdraw.Entries) error) error {
	for after := ""; ; {
		var page fairdraw.Entries
		var next string
		if err := retry(ctx, func() (err error) {
			page, next, err = s.store.Entries(ctx, s.Promotion.EventID, group, after)
			return err
		}); err != nil {
			return err
		}
		if err := take(page); err != nil {
			return err
		}
		if after = next; after == "" {
			return nil
		}
	}
}
