package audit

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"urr.guru/scripts/platform"
)

// admittedAfterRefund returns the tickets of an event that a door admitted after their refund was
// decided. It includes only doors that were online. A scan before the decision, or after a refund
// that was abandoned, is no fault.
func (s *Stores) admittedAfterRefund(ctx context.Context, eventID string) ([]string, error) {
	// CollectRows returns the error of the query.
	rows, _ := s.ticket.Query(ctx, `
		SELECT DISTINCT s.ticket_id::text
		FROM refund_claims c CROSS JOIN unnest(c.ticket_ids) AS claimed (ticket_id) JOIN scans s USING (ticket_id)
		WHERE s.event_id = $1 AND s.result IN ('ADMITTED', 'UNDONE') AND c.status IN ('BEGUN', 'DONE') AND s.recorded_at > c.begun_at`, eventID)
	tickets, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("scans of %s: %w", eventID, unavailable(postgresStore(platform.Ticket), err))
	}
	return tickets, nil
}

// CancelledFaults finds the faults of a cancelled event, including refunds that were never made.
func (s *Stores) CancelledFaults(ctx context.Context, eventID string) (Faults, error) {
	f, err := s.Faults(ctx, eventID)
	if err == nil {
		f.NotGivenBack, err = s.leftAfterCancellation(ctx, eventID)
	}
	return f, err
}

// leftAfterCancellation describes what a cancellation should have removed: an event that has not
// ended, tickets that admit somebody, active holds, and payments of which the provider keeps money.
func (s *Stores) leftAfterCancellation(ctx context.Context, eventID string) ([]string, error) {
	var state string
	var holds, tickets int
	err := s.ticket.QueryRow(ctx, `
		SELECT coalesce((SELECT state FROM events WHERE event_id = $1), 'unknown'),
		       (SELECT count(*) FROM reservations WHERE event_id = $1 AND status IN ('HELD', 'PAYING')),
		       (SELECT count(*) FROM tickets WHERE event_id = $1 AND status NOT IN ('REFUNDED', 'TRANSFERRED', 'VOIDED'))`,
		eventID).Scan(&state, &holds, &tickets)
	if err != nil {
		return nil, fmt.Errorf("the end of %s: %w", eventID, unavailable(postgresStore(platform.Ticket), err))
	}
	records, err := s.readSaleRecords(ctx, eventID)
	if err != nil {
		return nil, err
	}
	var out []string
	if state != "ENDED" || holds+tickets > 0 {
		out = append(out, fmt.Sprintf("%s is %s, with %d holds and %d tickets", eventID, state, holds, tickets))
	}
	for _, p := range records.payments {
		if kept := records.chargedNet(p.OrderID); kept != 0 {
			out = append(out, fmt.Sprintf("order %s (%s), of which the provider keeps %d", p.OrderID, p.Status, kept))
		}
	}
	return out, nil
}
