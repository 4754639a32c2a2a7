package draw

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/promotion"
)

// announceResult stores the seed, which makes the result public. If the seed is overdue, the draw
// is decided again with zeros in its place.
func (s *drawRun) announceResult(ctx context.Context) (advanced bool, err error) {
	overdue, err := s.seedOverdue()
	if err != nil {
		return false, err
	}
	if overdue {
		return s.decideByZeros(ctx)
	}
	seed, ok := s.seed()
	if !ok {
		return false, nil
	}
	// The same write marks the promotion as published.
	after := s.Lottery
	after.Draw.Seed, after.Draw.AnnouncedAt = seed.String(), s.now().UnixMilli()
	after.Draw = s.withDueAt(after.Draw)
	after.Promotion.PublishedAt = after.Draw.AnnouncedAt
	after.Promotion.Version++
	if err := retry(ctx, func() error { return s.store.ChangeLottery(ctx, s.Lottery, after) }); err != nil {
		return false, err
	}
	s.Lottery = after
	failpoint.Hit("worker.draw.announced")
	return true, nil
}

// settleAfter is the longest delay of results: a clock that is ahead then publishes none too early.
const settleAfter = 10 * time.Second

// settleDelay is the time from the announcement to the first result that is written: 10 s, but at
// most a twentieth of the time from cutoff to announcement, so that short test lotteries do not
// wait.
func (s *drawRun) settleDelay() time.Duration {
	return min(settleAfter, s.terms.Announced().Sub(s.terms.Cutoff())/20)
}

// writeResults writes the results, those of the winners first. It may be repeated: entries that
// have a result are left out.
func (s *drawRun) writeResults(ctx context.Context) (advanced bool, err error) {
	winners, err := retryRead(ctx, func() ([]uuid.UUID, error) { return s.store.Winners(ctx, &s.Draw) })
	if err != nil {
		return false, err
	}
	chunks := slices.Collect(slices.Chunk(winners, MaxSettled))
	failure := forEach(ctx, len(chunks), func(ctx context.Context, i int) error {
		err := s.endEntries(ctx, chunks[i], promotion.Succeeded, promotion.Success)
		failpoint.Hit("worker.draw.settling_winners")
		return err
	})
	if failure != nil && (!errors.Is(failure, ErrUnreadable) || errors.Is(failure, errs.ErrUnavailable) || ctx.Err() != nil) {
		return false, failure
	}
	if failure = errors.Join(failure, s.rejectAllExcept(ctx, sortedIDs(winners), promotion.RejectedLotteryLose)); failure != nil {
		return false, failure
	}
	if _, err := s.advance(ctx, "settled", func(d *promotion.Draw) {
		d.Phase, d.SettledAt = promotion.DrawSettled, s.now().UnixMilli()
	}); err != nil {
		return false, err
	}
	s.log.InfoContext(ctx, "draw settled", "event_id", s.Promotion.EventID, "winners", len(winners))
	return false, nil
}

// rejectEntries rejects all entries of a cancelled lottery. Requests that are not entries yet are
// rejected when their messages are received, since the groups are closed.
func (s *drawRun) rejectEntries(ctx context.Context) error {
	if s.Draw.SettledAt != 0 {
		return s.forget(ctx)
	}
	if err := s.closeGroups(ctx); err != nil {
		return err
	}
	if unsettled, err := s.unsettled(ctx); unsettled || err != nil {
		return err
	}
	if err := s.rejectAllExcept(ctx, nil, promotion.RejectedVoid); err != nil {
		return err
	}
	_, err := s.advance(ctx, "void_settled", func(d *promotion.Draw) { d.SettledAt = s.now().UnixMilli() })
	return err
}

// rejectAllExcept rejects all entries except the given ones, with a result code.
func (s *drawRun) rejectAllExcept(ctx context.Context, except fairdraw.Entries, code promotion.ResultCode) error {
	groups := promotion.LotteryGroups()
	return forEach(ctx, len(groups), func(ctx context.Context, i int) error {
		return s.readGroup(ctx, groups[i], func(page fairdraw.Entries) error {
			var ids []uuid.UUID
			for i := range page.Len() {
				if _, won := except.Find(page.At(i)); !won {
					ids = append(ids, page.At(i))
				}
			}
			var failures []error
			for chunk := range slices.Chunk(ids, MaxSettled) {
				failures = append(failures, s.endEntries(ctx, chunk, promotion.Rejected, code))
				failpoint.Hit("worker.draw.settling")
			}
			return errors.Join(failures...)
		})
	})
}

func (s *drawRun) endEntries(ctx context.Context, entries []uuid.UUID, status promotion.Status, code promotion.ResultCode) error {
	return retry(ctx, func() error { return s.store.SettleEntries(ctx, entries, endUndecided(status, code)) })
}

// endUndecided returns a function that gives a result to an entry unless it has one.
func endUndecided(status promotion.Status, code promotion.ResultCode) DecideEntry {
	return func(r *promotion.Request, now int64) *promotion.Change {
		if r.Status.Final() {
			return nil
		}
		c := r.Ended(now, status, code)
		return &c
	}
}

func (s *drawRun) forget(ctx context.Context) error {
	return retry(ctx, func() error { return s.store.Forget(ctx, s.Promotion.EventID, s.ListedAt) })
}

// sortedIDs returns the ids in ascending order, as bytes.
func sortedIDs(ids []uuid.UUID) fairdraw.Entries {
	ids = slices.SortedFunc(slices.Values(ids), func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	out := make(fairdraw.Entries, 0, len(ids)*len(uuid.UUID{}))
	for i := range ids {
		out = append(out, ids[i][:]...)
	}
	return out
}
