package audit

import (
	"context"
	"fmt"

	"urr.guru/scripts/platform"
)

// withheldGrace is how late, in seconds, a place may be for sale again after its time, and
// longestHoldReturn how long the place of a cancelled or expired hold may take.
const withheldGrace, longestHoldReturn = 5, 10

// Withheld counts the places of an event that are out of sale although nobody has them: those in the
// house, those that should be for sale again or will be only after the event's returnWithin, and
// those of which nothing says when. The house counts whole, since no operator of a demo keeps places.
func (s *Stores) Withheld(ctx context.Context, eventID string) (int, error) {
	var n int
	err := s.ticket.QueryRow(ctx, `
		WITH late AS (SELECT r.section, r.seat_id, r.unpaid
		              FROM returns r JOIN events e USING (event_id)
		              WHERE r.event_id = $1
		                AND r.release_at NOT BETWEEN clock_timestamp() - make_interval(secs => $2)
		                                         AND clock_timestamp() + make_interval(secs => CASE WHEN r.unpaid THEN $3 ELSE greatest(e.return_within, $3) END))
		SELECT ((SELECT count(*) FROM seats s
		         WHERE s.event_id = $1 AND (s.status = 'HOUSE' OR s.status IN ('RETURNED', 'DELAYED')
		                                    AND NOT EXISTS (SELECT 1 FROM returns r WHERE r.event_id = $1 AND r.seat_id = s.seat_id)))
		        + (SELECT count(*) FROM late)
		        + (SELECT coalesce(sum(x.house + x.returns - (SELECT count(*) FROM returns r WHERE r.event_id = $1 AND r.section = x.section AND NOT r.unpaid)), 0)
		           FROM sections x WHERE x.event_id = $1 AND NOT x.seated))::int`,
		eventID, withheldGrace, longestHoldReturn).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("withheld places of %s: %w", eventID, unavailable(postgresStore(platform.Ticket), err))
	}
	return n, nil
}

// judgeWithheld counts the places that the sales withhold. The cancelled sale sells nothing.
func (i *SaleInStores) judgeWithheld(ctx context.Context, v *saleFindings) error {
	var withheld int
	for _, id := range []string{i.EventID, i.CheatsID} {
		n, err := i.Stores.Withheld(ctx, id)
		if err != nil {
			return err
		}
		if n > 0 {
			v.Add("%d places of %s are out of sale, and nobody has them", n, id)
		}
		withheld += n
	}
	v.Withheld = &withheld
	return nil
}
