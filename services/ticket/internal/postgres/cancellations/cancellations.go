// Package cancellations ends cancelled events in PostgreSQL, and refunds their tickets.
package cancellations

import (
	"context"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/failpoint"
	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/cancellation"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/notice"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/postgres/notices"
	"urr.guru/services/ticket/internal/postgres/purchases"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/ticket"
	"urr.guru/services/ticket/internal/transfer"
)

var _ cancellation.Store = (*Store)(nil)

// Store ends cancelled events, and refunds their tickets.
type Store struct{ database *postgres.Database }

// NewStore makes a Store on the database d.
func NewStore(d *postgres.Database) *Store { return &Store{database: d} }

func (s *Store) EndCancelled(ctx context.Context) (ids []string, err error) {
	err = s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		ended, err := tx.EndCancelled(ctx, tx.AsOf)
		if err != nil {
			return err
		}
		ids = make([]string, len(ended))
		newNotices := make([]notice.New, len(ended))
		for i, e := range ended {
			ids[i], newNotices[i] = e.EventID, notice.ForEvent(notice.EventCancelled, notice.Event{EventID: e.EventID, Title: e.Title, StartsAt: e.StartsAt.UTC()})
		}
		return notices.Insert(ctx, tx.Queries, newNotices)
	})
	return ids, err
}

func (s *Store) Lease(ctx context.Context, lease time.Duration) (at cancellation.Position, ok bool, err error) {
	q := s.database.Queries()
	rows, err := q.LeaseEnded(ctx, db.LeaseEndedParams{Now: q.AsOf, LeaseSeconds: int32(lease / time.Second)}) //nolint:gosec // short
	if err != nil || len(rows) == 0 {
		return at, false, pkgpostgres.Err(err)
	}
	return cancellation.Position{EventID: rows[0].EventID, FromUser: rows[0].WalkAfter}, true, nil
}

func (s *Store) EndLease(ctx context.Context, next cancellation.Position, moreLeft bool) error {
	q := s.database.Queries()
	return pkgpostgres.Err(q.ReturnEnded(ctx, db.ReturnEndedParams{EventID: next.EventID, After: next.FromUser, Now: q.AsOf, LeftOver: moreLeft}))
}

func (s *Store) CancelOffers(ctx context.Context, eventID string) error {
	err := s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		_, now, err := postgres.Closings(ctx, tx.Queries, nil)
		if err != nil {
			return err
		}
		return purchases.EndOffersOfEvent(ctx, tx, eventID, transfer.ReasonEventCancelled, now)
	})
	if err == nil {
		s.database.Published()
	}
	return err
}

// Orders returns orders of an event, sorted by user, with the tickets to refund. If it has read max
// tickets, it leaves out the last of several orders, as more of its tickets may follow and all of a
// payment are refunded together. The next call begins with nextUser; "" if no order is left.
func (s *Store) Orders(ctx context.Context, at cancellation.Position, max int) (orders []cancellation.OwedOrder, nextUser string, err error) {
	rows, err := s.database.Queries().OwedTickets(ctx, db.OwedTicketsParams{EventID: at.EventID, After: at.FromUser, Max: int32(max)}) //nolint:gosec // a batch
	if err != nil {
		return nil, at.FromUser, pkgpostgres.Err(err)
	}
	index := make(map[uuid.UUID]int)
	for _, r := range rows {
		i, found := index[r.ReservationID]
		if !found {
			i = len(orders)
			index[r.ReservationID] = i
			orders = append(orders, cancellation.OwedOrder{ReservationID: r.ReservationID})
		}
		orders[i].TicketIDs = append(orders[i].TicketIDs, r.TicketID)
	}
	if len(rows) < max {
		return orders, "", nil
	}
	if len(orders) > 1 {
		orders = orders[:len(orders)-1]
	}
	return orders, rows[max-1].UserID, nil
}

// Refund refunds the tickets of an order. It takes locks in the order of all transactions, except
// that it inserts the claims last. Since their rows are new, nobody waits for them.
func (s *Store) Refund(ctx context.Context, order cancellation.OwedOrder) error {
	err := s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		locked, err := purchases.LockReservations(ctx, tx, []uuid.UUID{order.ReservationID})
		if err != nil {
			return err
		}
		owed, err := purchases.LockTickets(ctx, tx, order.TicketIDs)
		if err != nil {
			return err
		}
		closings, now, err := postgres.Closings(ctx, tx.Queries, locked.EventIDs())
		r := locked.Find(order.ReservationID)
		if err != nil || r == nil || closings[r.EventID].State != event.Ended {
			return err
		}
		claims, free := refund.ClaimForEndedEvent(owed.All(), now)
		applyRefund(r, claims, free, closings[r.EventID], now)
		if err := saveRefundClaims(ctx, tx, claims, owed, locked); err != nil {
			return err
		}
		return failpoint.Err("ticket.walk.before_commit")
	})
	if err == nil {
		failpoint.Hit("ticket.walk.after_commit")
		s.database.Published()
	}
	return err
}

// applyRefund adds the Kafka events that ask the payment service for the claimed refunds. It gives
// back the places of the tickets in free, for which nothing must be refunded.
func applyRefund(r *reservation.Reservation, claims []refund.Claim, free []*ticket.Ticket, closing event.AfterSaleTerms, now time.Time) {
	for _, c := range claims {
		due := reservation.DueRefund{ClaimID: c.ID, PaymentID: c.PaymentID, Cause: string(c.Cause)}
		for _, item := range c.Items {
			due.Items = append(due.Items, reservation.DueItem(item))
		}
		r.OweRefund(due, now)
	}
	var places []reservation.ReturnedPlace
	for _, t := range free {
		places = append(places, reservation.ReturnedPlace{N: t.N, House: !now.Before(closing.ClosesAt)})
	}
	r.GiveBack(places, now)
}

func saveRefundClaims(ctx context.Context, tx *postgres.Tx, claims []refund.Claim, owed *purchases.LockedTickets, locked *purchases.LockedReservations) error {
	for i := range claims {
		if err := purchases.InsertBegunClaim(ctx, tx.Queries, &claims[i]); err != nil {
			return err
		}
	}
	if err := owed.Save(ctx, tx.Queries); err != nil {
		return err
	}
	events, err := locked.Save(ctx, tx)
	if err != nil {
		return err
	}
	return purchases.InsertReservationEvents(ctx, tx, events)
}

func (s *Store) CountRemaining(ctx context.Context) (cancellation.Remaining, error) {
	row, err := s.database.Queries().CountRemaining(ctx)
	return cancellation.Remaining{Holds: row.Holds, Orders: row.Orders}, pkgpostgres.Err(err)
}
