package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/platform"
)

// watchInvariants starts periodic checks of the invariants that must hold at every instant.
func (r *run) watchInvariants() {
	r.Always("no seat is sold twice", 500*time.Millisecond, func(ctx context.Context) (string, error) {
		for _, s := range r.allSales() {
			sales, err := r.stores.Sales(ctx, s.EventID)
			if err != nil {
				return "", err
			}
			if sales.Oversold > 0 {
				return fmt.Sprintf("%s: %+v", s.EventID, sales), nil
			}
		}
		return "", nil
	})
	r.Always("no more inside than the threshold", 500*time.Millisecond, func(ctx context.Context) (string, error) {
		for _, s := range r.allSales() {
			sample, err := r.stores.ReadNumbers(ctx, s.EventID)
			if err != nil {
				return "", err
			}
			if sample.Active > int64(s.Threshold) {
				return fmt.Sprintf("%s: %d of %d", s.EventID, sample.Active, s.Threshold), nil
			}
		}
		return "", nil
	})
}

// requireInvariants waits until nothing is in progress, and then checks the invariants of each
// sale.
func (r *run) requireInvariants() {
	r.t.Helper()
	r.requireSettled()
	for _, s := range r.allSales() {
		r.requireConsistent(s)
	}
	if r.forger == nil {
		letters, err := r.stores.DeadLetters(r.t.Context())
		require.NoError(r.t, err)
		require.Empty(r.t, letters, "an outage is no reason to put an event aside")
	}
}

// requireSettled waits until no payment is open and no hold is overdue.
func (r *run) requireSettled() {
	r.t.Helper()
	ticket, payment := r.DB(platform.Ticket), r.DB(platform.Payment)
	r.Eventually(func(ctx context.Context) error { return checkIdle(ctx, ticket, payment) })
}

// checkIdle returns an error while a payment or a refund is open, or a hold is overdue.
func checkIdle(ctx context.Context, ticket, payment *pgxpool.Pool) error {
	var open, refunds, held int
	err := errors.Join(
		payment.QueryRow(ctx, `SELECT count(*) FROM payments WHERE status IN ('OPEN', 'CONFIRMING', 'UNKNOWN')`).Scan(&open),
		payment.QueryRow(ctx, `SELECT count(*) FROM refunds WHERE status IN ('REQUESTED', 'PENDING', 'ACCEPTED', 'HELD') OR abort_due`).Scan(&refunds),
		ticket.QueryRow(ctx, `SELECT count(*) FROM reservations
			WHERE status IN ('HELD', 'PAYING') AND expires_at < now() - interval '5 seconds'`).Scan(&held))
	if err == nil && open+refunds+held > 0 {
		err = fmt.Errorf("open: %d payments, %d refunds; %d holds overdue", open, refunds, held)
	}
	return err
}

// requireConsistent compares the stores and the provider's ledger for one sale.
func (r *run) requireConsistent(s *sale) {
	r.t.Helper()
	r.Eventually(func(ctx context.Context) error {
		// The last events may still be in transit.
		faults, err := r.stores.Faults(ctx, s.EventID)
		if all := faults.All(); err == nil && len(all) > 0 {
			err = fmt.Errorf("%s: %s", s.EventID, strings.Join(all, "\n"))
		}
		return err
	})
	sales, err := r.stores.Sales(r.t.Context(), s.EventID)
	require.NoError(r.t, err)
	r.t.Logf("%s: %+v, outcomes %v", s.EventID, sales, s.crowd.Tally().Outcomes())
	require.Equal(r.t, s.Seats, sales.Capacity)
	require.Zero(r.t, sales.Oversold)
	require.Zero(r.t, sales.Unbalanced)
	require.Positive(r.t, sales.Sold, "a sale in which nobody bought shows nothing")
	require.Zero(r.t, s.crowd.Tally().ForgedIn.Load(), "%v", s.crowd.Tally().ForgedPasses())
}
