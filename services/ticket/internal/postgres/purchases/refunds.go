package purchases

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/loop"
	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/ticket"
)

var _ refund.Store = (*Refunds)(nil)

// Refunds stores claims in PostgreSQL.
type Refunds struct{ database *postgres.Database }

// NewRefunds makes a Refunds on the database d.
func NewRefunds(d *postgres.Database) *Refunds { return &Refunds{database: d} }

// Begin claims tickets or a membership for a refund, or returns the decision of an earlier call. It
// inserts the claim first, so that a concurrent call for the same refund waits for the decision.
func (s *Refunds) Begin(ctx context.Context, req refund.Request) (claim *refund.Claim, err error) {
	err = s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		earlier, err := insertClaim(ctx, tx, refund.Claim{ID: req.ID, PaymentID: req.PaymentID, Cause: req.Cause, Status: refund.Begun})
		if claim = earlier; claim != nil || err != nil {
			return err
		}
		if claim, err = beginRefund(ctx, tx, req); err != nil {
			return err
		}
		return failpoint.Err("ticket.claim.before_commit")
	})
	if err != nil {
		return nil, err
	}
	failpoint.Hit("ticket.claim.after_commit")
	return claim, nil
}

// insertClaim stores a new claim and returns nil. If the id is stored already, it locks that claim
// and returns it.
func insertClaim(ctx context.Context, tx *postgres.Tx, c refund.Claim) (earlier *refund.Claim, err error) {
	n, err := tx.InsertClaim(ctx, db.InsertClaimParams{
		RefundID: c.ID, PaymentID: uuid.NullUUID{UUID: c.PaymentID, Valid: c.PaymentID != uuid.Nil}, Cause: string(c.Cause),
		Status: string(c.Status), Now: tx.ClockTime(),
	})
	if err != nil || n == 1 {
		return nil, err
	}
	claims, err := LockClaims(ctx, tx, []uuid.UUID{c.ID})
	return claims[c.ID], err
}

// beginRefund decides which tickets or membership a new claim ends, and stores the decision.
func beginRefund(ctx context.Context, tx *postgres.Tx, req refund.Request) (*refund.Claim, error) {
	if err := tx.LockPayments(ctx, []uuid.UUID{req.PaymentID}); err != nil {
		return nil, err
	}
	if req.Membership {
		return beginMembership(ctx, tx, req)
	}
	ids := req.TicketIDs
	if len(ids) == 0 {
		var err error
		if ids, err = tx.TicketsOfPayment(ctx, req.PaymentID); err != nil {
			return nil, err
		}
	}
	locked, err := LockTickets(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	terms, err := refundTermsOf(ctx, tx, &req, locked.All())
	if err != nil {
		return nil, err
	}
	if err := handleUnknownPayment(ctx, tx, &req, len(ids)); err != nil {
		return nil, err
	}
	claim := refund.Decide(req, locked.All(), terms)
	if err := locked.Save(ctx, tx.Queries); err != nil {
		return nil, err
	}
	if err := EndOffersOf(ctx, tx, locked, terms.Now); err != nil {
		return nil, err
	}
	return &claim, storeAnswer(ctx, tx.Queries, &claim)
}

// handleUnknownPayment handles a payment that has bought nothing yet. If all of it was refunded,
// its end is stored, so that it never buys anything. For an ended payment no tickets are awaited.
func handleUnknownPayment(ctx context.Context, tx *postgres.Tx, req *refund.Request, paidFor int) error {
	if req.EndsUnknownPayment(paidFor) {
		ended := db.EndPaymentsParams{PaymentIds: []uuid.UUID{req.PaymentID}, Reasons: []string{purchase.ReasonRefunded}}
		if err := tx.EndPayments(ctx, ended); err != nil {
			return err
		}
	}
	if paidFor > 0 || !req.AwaitsTickets {
		return nil
	}
	ended, err := tx.EndedPayments(ctx, []uuid.UUID{req.PaymentID})
	req.AwaitsTickets = len(ended) == 0
	return err
}

// refundTermsOf reads the terms of refunds of the first ticket's event. All tickets of a payment are of
// one event, and a ticket of another payment is refused whatever its event's terms are.
func refundTermsOf(ctx context.Context, tx *postgres.Tx, req *refund.Request, list []*ticket.Ticket) (refund.Terms, error) {
	var ids []string
	if len(list) > 0 {
		ids = []string{list[0].EventID}
	}
	closings, now, err := postgres.Closings(ctx, tx.Queries, ids)
	terms := refund.Terms{Now: now}
	if err != nil || len(ids) == 0 {
		return terms, err
	}
	terms.AfterSaleTerms = closings[ids[0]]
	// Read after the present terms, so that terms that are replaced meanwhile are one or the other.
	terms.Former, err = postgres.FormerTerms(ctx, tx, ids[0], req.AskedAt)
	return terms, err
}

// InsertBegunClaim stores a claim that has begun. Its id must be new.
func InsertBegunClaim(ctx context.Context, q *postgres.Queries, c *refund.Claim) error {
	arg := db.InsertBegunClaimParams{
		RefundID: c.ID, PaymentID: uuid.NullUUID{UUID: c.PaymentID, Valid: true}, Cause: string(c.Cause), BegunAt: c.BegunAt,
		TicketIds: c.TicketIDs(), Amounts: c.Amounts(),
	}
	return q.InsertBegunClaim(ctx, arg)
}

// storeAnswer writes the decision on a claim into its row, which must be locked.
func storeAnswer(ctx context.Context, q *postgres.Queries, c *refund.Claim) error {
	arg := db.AnswerClaimParams{
		RefundID: c.ID, Status: string(c.Status), Reason: c.Reason, BegunAt: c.BegunAt, TicketIds: c.TicketIDs(), Amounts: c.Amounts(),
		MembershipID: c.MembershipID, MembershipAmount: c.MembershipAmount, ProblemIds: []uuid.UUID{}, ProblemReasons: []string{},
		PresentAmount: c.PresentAmount,
	}
	for _, p := range c.Excluded {
		arg.ProblemIds, arg.ProblemReasons = append(arg.ProblemIds, p.TicketID), append(arg.ProblemReasons, p.Reason)
	}
	n, err := q.AnswerClaim(ctx, arg)
	return postgres.ExpectRows(n, 1, "claims", err)
}

// Abort ends the claim of a refund that was not made. If no claim is stored yet, it stores an
// aborted one, so that a late call of Begin claims nothing.
func (s *Refunds) Abort(ctx context.Context, id uuid.UUID) error {
	err := s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		earlier, err := insertClaim(ctx, tx, refund.Claim{ID: id, Status: refund.Aborted})
		if err != nil || earlier == nil {
			return err
		}
		switch {
		case earlier.Status == refund.Aborted, earlier.Status == refund.Refused:
			return nil
		case earlier.Status == refund.Done, earlier.Cause != refund.User && earlier.Cause != refund.Operator:
			return fmt.Errorf("claim %s of cause %s is %s and cannot be aborted: %w", id, earlier.Cause, earlier.Status, postgres.ErrContradiction)
		}
		if err := abortRefund(ctx, tx, earlier); err != nil {
			return err
		}
		return failpoint.Err("ticket.abort.before_commit")
	})
	if err != nil {
		return err
	}
	failpoint.Hit("ticket.abort.after_commit")
	return nil
}

// abortRefund ends a locked claim, and makes its tickets VALID again, or its membership ACTIVE.
func abortRefund(ctx context.Context, tx *postgres.Tx, c *refund.Claim) error {
	if c.MembershipID != uuid.Nil {
		return abortMembership(ctx, tx, c)
	}
	locked, err := LockTickets(ctx, tx, c.TicketIDs())
	if err != nil {
		return err
	}
	for _, item := range c.Items {
		t := locked.Find(item.TicketID)
		if t == nil {
			return fmt.Errorf("ticket %s of claim %s: %w", item.TicketID, c.ID, ticket.ErrNotFound)
		}
		if err := t.Unclaim(c.ID, item.Amount); err != nil {
			return err
		}
	}
	if err := locked.Save(ctx, tx.Queries); err != nil {
		return err
	}
	return EndClaims(ctx, tx.Queries, refund.Aborted, []uuid.UUID{c.ID})
}

// LockClaims locks and reads claims. A transaction must do so before it locks payments, users and places.
func LockClaims(ctx context.Context, tx *postgres.Tx, ids []uuid.UUID) (map[uuid.UUID]*refund.Claim, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := postgres.LockClaims.Take(ctx, tx, ids)
	claims := make(map[uuid.UUID]*refund.Claim, len(rows))
	for _, r := range rows {
		claims[r.RefundClaim.RefundID] = toClaim(r.RefundClaim)
	}
	return claims, err
}

// EndClaims sets the final status of claims that have begun, whose rows must be locked.
func EndClaims(ctx context.Context, q *postgres.Queries, status refund.Status, ids []uuid.UUID) error {
	if len(ids) == 0 {
		return nil
	}
	n, err := q.EndClaims(ctx, db.EndClaimsParams{RefundIds: ids, Status: string(status)})
	return postgres.ExpectRows(n, len(ids), "claims", err)
}

func toClaim(r db.RefundClaim) *refund.Claim {
	c := &refund.Claim{
		ID: r.RefundID, PaymentID: r.PaymentID.UUID, Cause: refund.Cause(r.Cause), Status: refund.Status(r.Status), Reason: r.Reason,
		BegunAt: r.BegunAt.UTC(), MembershipID: r.MembershipID.UUID, MembershipAmount: r.MembershipAmount,
		PresentAmount: r.PresentAmount,
	}
	for i, id := range r.TicketIds {
		c.Items = append(c.Items, refund.Item{TicketID: id, Amount: r.Amounts[i]})
	}
	for i, id := range r.ProblemIds {
		c.Excluded = append(c.Excluded, refund.ExcludedTicket{TicketID: id, Reason: r.ProblemReasons[i]})
	}
	return c
}

const (
	pruneEvery = 10 * time.Minute
	pruneRows  = 1000
)

// Prune deletes old claims that claim no tickets. Any number of replicas may call it at once.
func (s *Refunds) Prune(ctx context.Context) error {
	q := s.database.Queries()
	_, err := loop.Batches(ctx, pruneRows, func(ctx context.Context, size int32) (int64, error) {
		return q.PruneClaims(ctx, db.PruneClaimsParams{Now: q.AsOf, Max: size})
	})
	return pkgpostgres.Err(err)
}

// Pruner returns a worker that deletes old claims without tickets, until its context ends.
func (s *Refunds) Pruner(log *slog.Logger) func(context.Context) error {
	return loop.Pruner(pruneEvery, log, "claims of refunds not pruned", s.Prune)
}
