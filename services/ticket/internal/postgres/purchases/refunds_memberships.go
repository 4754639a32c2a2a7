package purchases

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/membership"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/refund"
)

// beginMembership decides whether a new claim ends the membership that its payment bought, and
// stores the decision. The payment must be locked.
func beginMembership(ctx context.Context, tx *postgres.Tx, req refund.Request) (*refund.Claim, error) {
	locked, err := LockMembershipsOfPayment(ctx, tx, req.PaymentID)
	if err != nil {
		return nil, err
	}
	paidFor := locked.All()
	if err := handleUnknownPayment(ctx, tx, &req, len(paidFor)); err != nil {
		return nil, err
	}
	_, now, err := postgres.Closings(ctx, tx.Queries, nil)
	if err != nil {
		return nil, err
	}
	var m *membership.Membership
	if len(paidFor) > 0 {
		m = paidFor[0]
	}
	claim := membership.DecideRefund(req, m, now)
	if err := locked.Save(ctx, tx); err != nil {
		return nil, err
	}
	return &claim, storeAnswer(ctx, tx.Queries, &claim)
}

// abortMembership ends a claim whose row is locked, and makes its membership ACTIVE again.
func abortMembership(ctx context.Context, tx *postgres.Tx, c *refund.Claim) error {
	locked, err := LockMemberships(ctx, tx, c.MembershipID)
	if err != nil {
		return err
	}
	m := locked.Find(c.MembershipID)
	if m == nil {
		return fmt.Errorf("membership %s of claim %s: %w", c.MembershipID, c.ID, membership.ErrNotFound)
	}
	if err := m.Unclaim(c.ID, c.MembershipAmount); err != nil {
		return err
	}
	if err := locked.Save(ctx, tx); err != nil {
		return err
	}
	return EndClaims(ctx, tx.Queries, refund.Aborted, []uuid.UUID{c.ID})
}
