package events

import (
	"context"
	"fmt"
	"time"

	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/notice"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/postgres/notices"
	"urr.guru/services/ticket/internal/postgres/purchases"
	"urr.guru/services/ticket/internal/transfer"
)

// actAttempts is how often an operator's act is tried while other acts change the state.
const actAttempts = 5

// Act changes the state of an event by one conditional statement. If another act has changed the
// state meanwhile, it changes nothing, and the new state decides what it returns.
func (s *Store) Act(ctx context.Context, id string, act event.Act, grace time.Duration) error {
	q := s.database.Queries()
	for range actAttempts {
		changed, err := s.applyAct(ctx, q, id, act, grace)
		if err != nil || changed == 1 {
			return pkgpostgres.Err(err)
		}
		row, err := q.FindEvent(ctx, db.FindEventParams{EventID: id})
		if err != nil {
			return postgres.OrNotFound(err, event.ErrNotFound)
		}
		if changes, answer := act.Answer(event.State(row.Event.State)); !changes {
			return answer
		}
	}
	return fmt.Errorf("the state of event %s is being changed", id)
}

func (s *Store) applyAct(ctx context.Context, q *postgres.Queries, id string, act event.Act, grace time.Duration) (int64, error) {
	switch act {
	case event.Pause:
		return q.MoveState(ctx, db.MoveStateParams{EventID: id, Was: string(event.Open), State: string(event.Paused)})
	case event.Resume:
		return q.MoveState(ctx, db.MoveStateParams{EventID: id, Was: string(event.Paused), State: string(event.Open)})
	case event.Cancel:
		seconds := int32(grace / time.Second) //nolint:gosec // at most a week
		return q.CancelEvent(ctx, db.CancelEventParams{EventID: id, GraceSeconds: seconds, Now: q.ClockTime()})
	case event.Undo:
		return q.UndoCancel(ctx, id)
	case event.Refund:
		return s.beginRefunds(ctx, id)
	default:
		return 0, fmt.Errorf("act %q is not known", act)
	}
}

// beginRefunds makes a cancellation final, so that tickets are refunded, and stores a notice of it.
func (s *Store) beginRefunds(ctx context.Context, id string) (changed int64, err error) {
	err = s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		ended, err := tx.BeginRefunds(ctx, db.BeginRefundsParams{EventID: id, Now: tx.ClockTime()})
		if changed = int64(len(ended)); err != nil || changed == 0 {
			return err
		}
		e := notice.Event{EventID: id, Title: ended[0].Title, StartsAt: ended[0].StartsAt.UTC()}
		return notices.Insert(ctx, tx.Queries, []notice.New{notice.ForEvent(notice.EventCancelled, e)})
	})
	return changed, err
}

func (s *Store) StateAndCounts(ctx context.Context, id string) (event.StateAndCounts, error) {
	r, err := s.database.ReadQueries().EventStanding(ctx, id)
	if err != nil {
		return event.StateAndCounts{}, postgres.OrNotFound(err, event.ErrNotFound)
	}
	return event.StateAndCounts{
		State: event.State(r.State), RefundsAt: postgres.TimeOrZero(r.RefundAfter), Holds: r.Holds, Orders: r.Orders, Tickets: r.Tickets, Refunds: r.Refunds,
	}, nil
}

// Postpone moves the date of an event. It does not update the tickets, of which there may be
// 100,000, but begins a new epoch: a ticket that was used in an earlier epoch counts as VALID.
func (s *Store) Postpone(ctx context.Context, id string, p event.Postponement) error {
	return s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		row, err := postgres.LockEvent.Take(ctx, tx, db.LockEventParams{EventID: id, Now: tx.AsOf})
		if err != nil {
			return postgres.OrNotFound(err, event.ErrNotFound)
		}
		e := toEvent(row.Event, nil)
		times, err := p.Plan(&e, postgres.TimeOrZero(row.Event.DoorsAt), row.Now)
		if err != nil || times == nil {
			return err
		}
		if err := postgres.KeepFormerTerms(ctx, tx.Queries, id, row.Now); err != nil {
			return err
		}
		err = tx.PostponeEvent(ctx, db.PostponeEventParams{
			EventID: id, StartsAt: times.StartsAt, DoorsAt: orNull(times.DoorsAt), ClosesAt: orNull(times.ClosesAt), SalesCloseAt: times.SalesCloseAt,
			FeesUntil: orNull(times.FeesUntil), Now: tx.ClockTime(),
		})
		if err != nil {
			return err
		}
		postponed := notice.Event{EventID: id, Title: e.Title, StartsAt: times.StartsAt, FormerStartsAt: &e.StartsAt, Delay: times.Delay()}
		if times.FeesUntil.After(row.Now) {
			postponed.FullRefundUntil = new(times.FeesUntil.UTC())
		}
		if err := notices.Insert(ctx, tx.Queries, []notice.New{notice.ForEvent(notice.EventPostponed, postponed)}); err != nil {
			return err
		}
		return purchases.EndOffersOfEvent(ctx, tx, id, transfer.ReasonPostponed, row.Now.UTC())
	})
}
