package audit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"urr.guru/scripts/platform"
)

// presale has figures from the ticket service's tables about a presale.
type presale struct {
	// GeneralAt is the end of the presale: the general sale begins, in which everybody may buy.
	GeneralAt time.Time
	// Without counts the reservations made before GeneralAt by users without an entitlement. Bought
	// counts the paid ones made before GeneralAt by users with an entitlement.
	Without, Bought int
}

// entitledSQL is the SQL condition that the user of reservation r could buy in the presale of event
// e, by a list or a membership, when the reservation was made. It ignores codes and claims, which
// the simulated crowd does not have.
const entitledSQL = `
	(EXISTS (SELECT 1 FROM jsonb_array_elements(e.presale_ways) w
	         JOIN entitlement_lists l ON l.event_id = e.event_id AND l.status = 'CURRENT' AND l.list = w ->> 'list'
	         JOIN entitlement_entries x ON x.upload_id = l.upload_id AND NOT x.is_email AND x.value = r.user_id)
	 OR EXISTS (SELECT 1 FROM jsonb_array_elements(e.presale_ways) w
	            JOIN memberships m ON m.plan_id = w ->> 'planId' AND m.user_id = r.user_id
	            WHERE m.activated_at <= r.created_at AND m.starts_at <= r.created_at AND m.ends_at > r.created_at))`

func (s *Stores) presaleOf(ctx context.Context, eventID string) (p presale, err error) {
	err = s.ticket.QueryRow(ctx, `
		SELECT e.sales_open_at, count(*) FILTER (WHERE early AND NOT entitled), count(*) FILTER (WHERE early AND entitled AND r.status IN ('CONFIRMED', 'REFUNDED', 'VOIDED'))
		FROM events e LEFT JOIN reservations r ON r.event_id = e.event_id AND r.origin = 'SALE'
		CROSS JOIN LATERAL (SELECT r.created_at < e.sales_open_at AS early, `+entitledSQL+` AS entitled) x
		WHERE e.event_id = $1
		GROUP BY e.sales_open_at`, eventID).Scan(&p.GeneralAt, &p.Without, &p.Bought)
	if err != nil {
		return p, fmt.Errorf("presale of %s: %w", eventID, unavailable(postgresStore(platform.Ticket), err))
	}
	return p, nil
}

// presentFromGeneralSale returns a copy of the admissions for Inversions. In the presale, entitled
// users may overtake others, so those admitted after it count as present only from its end.
func (p presale) presentFromGeneralSale(admissions []Admission) []Admission {
	out, general := slices.Clone(admissions), p.GeneralAt.UnixMilli()
	for i := range out {
		if a := &out[i]; a.At >= general {
			a.PresentSince = max(a.PresentSince, general)
		}
	}
	return out
}

// judgePresale counts the reservations that users without an entitlement made before the general
// sale. If no entitled user bought, it adds a fault, since the run did not test the presale.
func (i *SaleInStores) judgePresale(ctx context.Context, v *saleFindings) error {
	p, err := i.Stores.presaleOf(ctx, i.EventID)
	if err != nil {
		return err
	}
	v.PresaleIn, v.PresaleBought = &p.Without, p.Bought
	if p.Without > 0 {
		v.Add("%d reservations before the general sale by users without an entitlement", p.Without)
	}
	if p.Bought == 0 {
		v.Other++
		v.Add("nobody bought in the presale")
	}
	return nil
}

// LetInEarly moves a reservation of a user without an entitlement into the presale, to show that
// the judge counts it in PresaleIn.
func (s *Stores) LetInEarly(ctx context.Context, eventID string) error {
	return s.injectBySQL(ctx, `
		UPDATE reservations SET created_at = presale_opens_at + interval '1 second'
		FROM (SELECT r.reservation_id, e.presale_opens_at
		      FROM reservations r JOIN events e USING (event_id)
		      WHERE r.event_id = $1 AND r.origin = 'SALE' AND r.created_at >= e.sales_open_at AND NOT `+entitledSQL+` LIMIT 1) x
		WHERE reservations.reservation_id = x.reservation_id`, eventID)
}
