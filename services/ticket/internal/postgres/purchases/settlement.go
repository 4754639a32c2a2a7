package purchases

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/inbox"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/postgres/notices"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/settlement"
	"urr.guru/services/ticket/internal/ticket"
	"urr.guru/services/ticket/internal/transfer"
)

// Settlement applies payment events in transactions. It stores which events it has applied, and which
// payments have ended without paying for anything.
type Settlement struct {
	database     *postgres.Database
	maxExtension time.Duration
}

// NewSettlement makes a Settlement on the database d. Payments extend the time to pay by maxExtension
// at most.
func NewSettlement(d *postgres.Database, maxExtension time.Duration) *Settlement {
	return &Settlement{database: d, maxExtension: maxExtension}
}

// Settle applies payment events in one transaction. It skips events that the consumer group has
// applied before. Errors: those of settlement.Batch.Apply, which change nothing.
func (s *Settlement) Settle(ctx context.Context, group string, events []settlement.PaymentEvent) error {
	err := s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		keys := make([]string, len(events))
		for i, e := range events {
			keys[i] = e.Key
		}
		fresh, err := inbox.ClaimAll(ctx, tx, keys, group)
		if err != nil {
			return err
		}
		if err := s.settle(ctx, tx, firstDeliveries(events, fresh)); err != nil {
			return err
		}
		return failpoint.Err("ticket.confirm.before_commit")
	})
	if err != nil {
		return err
	}
	failpoint.Hit("ticket.confirm.after_commit")
	s.database.Published()
	return nil
}

// firstDeliveries returns the events that are new (their key is in fresh), each of them once.
func firstDeliveries(events []settlement.PaymentEvent, fresh map[string]bool) (first []settlement.PaymentEvent) {
	for _, e := range events {
		if fresh[e.Key] {
			delete(fresh, e.Key)
			first = append(first, e)
		}
	}
	return first
}

func (s *Settlement) settle(ctx context.Context, tx *postgres.Tx, events []settlement.PaymentEvent) error {
	if len(events) == 0 {
		return nil
	}
	l, err := lockBatch(ctx, tx, events)
	if err != nil {
		return err
	}
	closings, now, err := postgres.Closings(ctx, tx.Queries, l.eventIDs())
	if err != nil {
		return err
	}
	ended, err := endedPayments(ctx, tx.Queries, l.payments)
	if err != nil {
		return err
	}
	scarce, err := scarceSections(ctx, tx.Queries, l.tickets.All())
	if err != nil {
		return err
	}
	batch := settlement.Batch{
		Purchase: l.purchases(closings, now), Reservation: l.reservations.Find, Ticket: l.tickets.Find, Membership: l.memberships.Purchase,
		Claims: l.claims, Ended: ended, Closings: closings, Scarce: scarce, MaxExtension: s.maxExtension, Now: now,
	}
	if err := batch.Apply(events); err != nil {
		return err
	}
	return l.save(ctx, tx, &batch)
}

// locked has what payment events change: claims, reservations with their places, tickets,
// transfers, memberships. They were locked in this order.
type lockedBatch struct {
	payments     []uuid.UUID // confirmed payments
	claims       map[uuid.UUID]*refund.Claim
	reservations *LockedReservations
	tickets      *LockedTickets
	transfers    *LockedTransfers
	memberships  *LockedMemberships
	passed       []ticket.Ticket // new ones of users to whom tickets were passed on
}

// purchases returns the function that finds what a payment pays for.
func (l *lockedBatch) purchases(closings map[string]event.AfterSaleTerms, now time.Time) func(purchase.Type, uuid.UUID) purchase.Purchase {
	return func(t purchase.Type, id uuid.UUID) purchase.Purchase {
		switch t {
		case purchase.Reservation:
			if r := l.reservations.Find(id); r != nil {
				return &reservation.Purchase{Reservation: r, Event: closings[r.EventID].State}
			}
		case purchase.Transfer:
			if t := l.transfers.Find(id); t != nil {
				return &transfer.Purchase{
					Transfer: t, Ticket: l.tickets.Find(t.TicketID), Terms: transfer.Terms{AfterSaleTerms: closings[t.EventID], Now: now},
					Issue: func(tk ticket.Ticket) { l.passed = append(l.passed, tk) },
				}
			}
		case purchase.Membership:
			if p := l.memberships.Purchase(id); p != nil {
				return p
			}
		}
		return nil
	}
}

func lockBatch(ctx context.Context, tx *postgres.Tx, events []settlement.PaymentEvent) (l lockedBatch, err error) {
	var refundIDs, ticketIDs, disputed []uuid.UUID
	paidFor := make(map[purchase.Type][]uuid.UUID)
	for _, e := range events {
		switch {
		case e.Dispute != nil:
			disputed = append(disputed, e.Payment.ID)
		case e.Confirms():
			l.payments, paidFor[e.Type] = append(l.payments, e.Payment.ID), append(paidFor[e.Type], e.ReferenceID)
		case e.EndsTickets():
			refundIDs = append(refundIDs, e.RefundID)
		}
	}
	ids, transferIDs, membershipIDs := paidFor[purchase.Reservation], paidFor[purchase.Transfer], paidFor[purchase.Membership]
	if l.claims, err = LockClaims(ctx, tx, refundIDs); err != nil {
		return l, err
	}
	if len(disputed) > 0 {
		if ticketIDs, err = tx.TicketsOfPayments(ctx, disputed); err != nil {
			return l, err
		}
	}
	for _, c := range l.claims {
		ticketIDs = append(ticketIDs, c.TicketIDs()...)
		if c.MembershipID != uuid.Nil {
			membershipIDs = append(membershipIDs, c.MembershipID)
		}
	}
	var keys []db.TransferKeysRow // read without a lock: they never change
	if len(transferIDs) > 0 {
		if keys, err = tx.TransferKeys(ctx, transferIDs); err != nil {
			return l, err
		}
	}
	if len(ticketIDs) > 0 { // needs no locks: a ticket's reservation never changes
		reservationIDs, err := tx.ReservationsOf(ctx, ticketIDs)
		if err != nil {
			return l, err
		}
		ids = append(ids, reservationIDs...)
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	if l.reservations, err = LockReservations(ctx, tx, slices.Compact(ids), l.payments...); err != nil {
		return l, err
	}
	for _, k := range keys {
		ticketIDs = append(ticketIDs, k.TicketID)
	}
	if l.tickets, err = LockTickets(ctx, tx, ticketIDs); err != nil {
		return l, err
	}
	if l.transfers, err = LockTransfers(ctx, tx, transferIDs); err != nil {
		return l, err
	}
	l.memberships, err = LockMembershipsWithOthers(ctx, tx, membershipIDs)
	return l, err
}

// eventIDs returns the ids of the events of the locked reservations and tickets.
func (l *lockedBatch) eventIDs() []string {
	ids := l.reservations.EventIDs()
	for _, t := range l.tickets.All() {
		ids = append(ids, t.EventID)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// save writes what the batch has changed.
func (l *lockedBatch) save(ctx context.Context, tx *postgres.Tx, b *settlement.Batch) error {
	if err := endPayments(ctx, tx.Queries, b.NewlyEnded); err != nil {
		return err
	}
	if err := EndClaims(ctx, tx.Queries, refund.Done, b.Done); err != nil {
		return err
	}
	if err := l.tickets.Save(ctx, tx.Queries); err != nil {
		return err
	}
	if err := InsertTickets(ctx, tx.Queries, l.passed); err != nil {
		return err
	}
	if err := l.transfers.Save(ctx, tx); err != nil {
		return err
	}
	if err := l.memberships.Save(ctx, tx); err != nil {
		return err
	}
	saved, err := l.reservations.Save(ctx, tx)
	if err != nil {
		return err
	}
	if err := markDisputed(ctx, tx.Queries, b.Disputes); err != nil {
		return err
	}
	if err := notices.Insert(ctx, tx.Queries, b.Notices); err != nil {
		return err
	}
	return InsertReservationEvents(ctx, tx, saved)
}

// markDisputed stores whether the tickets of payments, including those just issued, are disputed.
func markDisputed(ctx context.Context, q *postgres.Queries, disputes map[uuid.UUID]settlement.Dispute) error {
	if len(disputes) == 0 {
		return nil
	}
	var arg db.MarkDisputedParams
	for payment, d := range disputes {
		arg.PaymentIds, arg.Disputed = append(arg.PaymentIds, payment), append(arg.Disputed, d.Open)
		arg.Versions = append(arg.Versions, d.Version)
	}
	return q.MarkDisputed(ctx, arg)
}

// endedPayments reads which payments have ended without paying for anything, and returns the
// reasons by payment id. The locks of the payments must be held.
func endedPayments(ctx context.Context, q *postgres.Queries, payments []uuid.UUID) (map[uuid.UUID]string, error) {
	ended := make(map[uuid.UUID]string)
	if len(payments) == 0 {
		return ended, nil
	}
	rows, err := q.EndedPayments(ctx, payments)
	for _, r := range rows {
		ended[r.PaymentID] = r.Why
	}
	return ended, err
}

func endPayments(ctx context.Context, q *postgres.Queries, ended map[uuid.UUID]string) error {
	if len(ended) == 0 {
		return nil
	}
	var arg db.EndPaymentsParams
	for id, reason := range ended {
		arg.PaymentIds, arg.Reasons = append(arg.PaymentIds, id), append(arg.Reasons, reason)
	}
	return q.EndPayments(ctx, arg)
}

// scarceSections returns those of the tickets' sections in which less than 5 % of places are free.
func scarceSections(ctx context.Context, q *postgres.Queries, list []*ticket.Ticket) (map[settlement.Section]bool, error) {
	scarce := make(map[settlement.Section]bool)
	if len(list) == 0 {
		return scarce, nil
	}
	arg := db.ScarceSectionsParams{WithReturns: true}
	added := make(map[settlement.Section]bool)
	for _, t := range list {
		if key := (settlement.Section{EventID: t.EventID, Name: t.Section}); !added[key] {
			added[key] = true
			arg.EventIds, arg.Sections = append(arg.EventIds, t.EventID), append(arg.Sections, t.Section)
		}
	}
	rows, err := q.ScarceSections(ctx, arg)
	for _, r := range rows {
		scarce[settlement.Section{EventID: r.EventID, Name: r.Section}] = true
	}
	return scarce, err
}
