package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/platform"
)

// watch checks from now on what must hold at every instant.
func (r *run) watch() {
	r.Always("no seat is sold twice", 500*time.Millisecond, func(ctx context.Context) (string, error) {
		for _, s := range r.all() {
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
		for _, s := range r.all() {
			sample, err := r.stores.Sample(ctx, s.EventID)
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

// requireSettled waits until nothing is under way any more: no event unpublished, no payment open, no
// hold beyond its time.
func (r *run) requireSettled() {
	r.t.Helper()
	ticket, payment := r.DB(platform.Ticket), r.DB(platform.Payment)
	r.Eventually(2*time.Minute, func(ctx context.Context) error {
		var open, refunds, paid, sold, held int
		err := errors.Join(
			payment.QueryRow(ctx, `SELECT count(*) FROM payments WHERE status IN ('CONFIRMING', 'UNKNOWN', 'REFUNDING')`).Scan(&open),
			payment.QueryRow(ctx, `SELECT count(*) FROM refunds WHERE status = 'PENDING'`).Scan(&refunds),
			payment.QueryRow(ctx, `SELECT count(*) FROM outbox`).Scan(&paid),
			ticket.QueryRow(ctx, `SELECT count(*) FROM outbox`).Scan(&sold),
			ticket.QueryRow(ctx, `SELECT count(*) FROM reservations
				WHERE status IN ('HELD', 'PAYING') AND expires_at < now() - interval '5 seconds'`).Scan(&held))
		if err == nil && open+refunds+paid+sold+held > 0 {
			err = fmt.Errorf("open: %d payments, %d refunds; unpublished: %d of payment, %d of ticket; %d holds overdue",
				open, refunds, paid, sold, held)
		}
		return err
	})
}

// requireNobodyHarmed compares the stores with each other and with the provider's ledger.
func (r *run) requireNobodyHarmed(s *sale) {
	r.t.Helper()
	r.Eventually(time.Minute, func(ctx context.Context) error {
		// The last confirmation may still be on its way from payment to ticket.
		paid, err := r.stores.PaidWithoutTicket(ctx, s.EventID)
		if err == nil && len(paid) > 0 {
			err = fmt.Errorf("paid without a ticket or a refund: %v", paid)
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

	// Every event counted once: the figures are those of the tables.
	r.Eventually(time.Minute, func(ctx context.Context) error {
		var figures struct{ SeatsSold int }
		a, err := r.Visitor().Call(ctx, http.MethodGet, "/api/v1/stats/events/"+s.EventID, nil)
		if err == nil {
			err = a.Decode(&figures)
		}
		if err == nil && figures.SeatsSold != sales.Sold {
			err = fmt.Errorf("the figures of %s say %d sold, the tickets %d", s.EventID, figures.SeatsSold, sales.Sold)
		}
		return err
	})
}
