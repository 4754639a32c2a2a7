package audit

import (
	"context"
	"fmt"
)

// DuplicateTicket issues one of the event's tickets twice, bypassing the services, to show that
// Sales detects it.
func (s *Stores) DuplicateTicket(ctx context.Context, eventID string) error {
	return s.damage(ctx, `
		INSERT INTO tickets (ticket_id, reservation_id, event_id, user_id, section, seat_id, price, currency, status)
		SELECT gen_random_uuid(), reservation_id, event_id, 'somebody-else', section, seat_id, price, currency, 'USED'
		FROM tickets WHERE event_id = $1 AND status = 'VALID' LIMIT 1`, eventID)
}

// LoseTicket deletes one of the event's tickets, to show that PaidWithoutTicket detects it.
func (s *Stores) LoseTicket(ctx context.Context, eventID string) error {
	return s.damage(ctx, `
		DELETE FROM tickets WHERE ticket_id = (SELECT ticket_id FROM tickets WHERE event_id = $1 AND status = 'VALID' LIMIT 1)`, eventID)
}

func (s *Stores) damage(ctx context.Context, sql, eventID string) error {
	tag, err := s.ticket.Exec(ctx, sql, eventID)
	if err != nil {
		return fmt.Errorf("damage %s: %w", eventID, err)
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("damage %s: there was no ticket to damage", eventID)
	}
	return nil
}
