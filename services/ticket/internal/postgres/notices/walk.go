package notices

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/loop"
	"urr.guru/services/ticket/internal/notice"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
)

const (
	// walkBatch is the most notices for which one transaction writes deliveries.
	walkBatch = 200
	// A transaction writes e-mails to up to orderBatch orders of each of up to eventsAtOnce events.
	orderBatch, eventsAtOnce = 500, 4
)

// Walker returns a worker that writes the deliveries of new notices.
func (s *Store) Walker(every time.Duration, log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		return loop.Try(ctx, every, log, "deliveries of notices not written", s.Walk)
	}
}

// Walk writes the deliveries of all new notices, in their order. One replica at a time does so.
func (s *Store) Walk(ctx context.Context) error {
	for more := true; more; {
		err := s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) (err error) {
			more = false
			locked, err := tx.LockWalk(ctx)
			if err != nil || !locked {
				return err
			}
			if s.mails {
				if err := insertCodesDue(ctx, tx); err != nil {
					return err
				}
			}
			more, err = s.walk(ctx, tx)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// insertCodesDue inserts a notice for each event whose ticket codes are due.
func insertCodesDue(ctx context.Context, tx *postgres.Tx) error {
	rows, err := tx.CodesDue(ctx, tx.AsOf)
	codesDue := make([]notice.New, len(rows))
	for i, r := range rows {
		codesDue[i] = notice.ForEvent(notice.CodesDue, notice.Event{EventID: r.EventID, Title: r.Title, StartsAt: r.StartsAt.UTC()})
	}
	if err != nil {
		return err
	}
	return Insert(ctx, tx.Queries, codesDue)
}

// walk writes the deliveries of the oldest new notices. For a notice about an event it writes
// e-mails to one page of the event's orders. more reports that deliveries are left.
func (s *Store) walk(ctx context.Context, tx *postgres.Tx) (more bool, err error) {
	rows, err := tx.NoticesToWalk(ctx, db.NoticesToWalkParams{Mails: s.mails, Max: walkBatch})
	if err != nil || len(rows) == 0 {
		return false, err
	}
	var all, done, ofOrders []uuid.UUID
	events, unfinished := 0, make(map[string]bool)
	for i := range rows {
		r := &rows[i]
		ended := true
		switch {
		case !s.mails:
		case !notice.Type(r.Type).AboutEvent():
			ofOrders = append(ofOrders, r.NoticeID)
		case events == s.eventsAtOnce || unfinished[r.Entity]:
			more = true
			unfinished[r.Entity] = true
			continue
		default:
			events++
			if ended, err = s.queueMailPage(ctx, tx, r); err != nil {
				return false, err
			}
		}
		all = append(all, r.NoticeID)
		if ended {
			done = append(done, r.NoticeID)
		}
		more = more || !ended
		unfinished[r.Entity] = !ended
	}
	if err := tx.QueueForWebhooks(ctx, db.QueueForWebhooksParams{NoticeIds: all, Now: tx.AsOf}); err != nil {
		return false, err
	}
	if len(ofOrders) > 0 {
		if err := tx.QueueMails(ctx, db.QueueMailsParams{
			NoticeIds: ofOrders, OfOrders: notice.MailsOfOrders, ToAll: notice.MailsToAll, Now: tx.AsOf,
		}); err != nil {
			return false, err
		}
	}
	return more || len(rows) == walkBatch, tx.MarkWalked(ctx, done)
}

// queueMailPage writes the e-mails about an event to the next page of its orders. ended reports
// that this was the last page.
func (s *Store) queueMailPage(ctx context.Context, tx *postgres.Tx, r *db.Notice) (ended bool, err error) {
	ids, err := tx.OrdersToTell(ctx, db.OrdersToTellParams{EventID: r.EventID, After: r.WalkedTo.UUID, Max: s.orderBatch})
	if err != nil || len(ids) == 0 {
		return true, err
	}
	err = tx.QueueMailsOfOrders(ctx, db.QueueMailsOfOrdersParams{
		NoticeID: r.NoticeID, EventID: r.EventID, ReservationIds: ids, ToAll: notice.MailsToAll, Now: tx.AsOf,
	})
	if err != nil || len(ids) < int(s.orderBatch) {
		return true, err
	}
	return false, tx.MoveWalk(ctx, db.MoveWalkParams{NoticeID: r.NoticeID, WalkedTo: uuid.NullUUID{UUID: ids[len(ids)-1], Valid: true}})
}
