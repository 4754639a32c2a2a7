package purchases

import (
	"context"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/notice"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/postgres/notices"
	"urr.guru/services/ticket/internal/ticket"
)

// LockedTickets has tickets whose rows one transaction has locked.
type LockedTickets struct {
	locked[ticket.Ticket]

	// stored is the status in a ticket's row. It is USED, while the ticket counts as VALID, if the
	// ticket was used before its event was postponed.
	stored map[uuid.UUID]string
}

func ticketChanged(before, current *ticket.Ticket) bool {
	return before.Status != current.Status || before.GivenBack != current.GivenBack || before.RefundID != current.RefundID
}

// LockTickets locks and reads tickets. Missing tickets are left out.
func LockTickets(ctx context.Context, tx *postgres.Tx, ids []uuid.UUID) (*LockedTickets, error) {
	if len(ids) == 0 {
		return &LockedTickets{}, nil
	}
	rows, err := postgres.LockTickets.Take(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	l := &LockedTickets{stored: make(map[uuid.UUID]string, len(rows))}
	l.locked = lockedOf(rows, func(r db.LockTicketsRow) ticket.Ticket {
		t := TicketOfRow(r.Ticket, r.Valid)
		t.Name = r.Name
		l.stored[t.ID] = r.Ticket.Status
		return t
	}, func(t *ticket.Ticket) uuid.UUID { return t.ID })
	return l, nil
}

// LeftValid returns the tickets that were VALID when they were locked, and no longer are.
func (l *LockedTickets) LeftValid() (left []*ticket.Ticket) {
	for _, c := range l.locked {
		if c.before.Status == ticket.Valid && c.current.Status != ticket.Valid {
			left = append(left, c.current)
		}
	}
	return left
}

// Save writes the changed tickets, and notices about those that were voided. The statement requires
// the status that each row had when it was read, and fails if a row has another one.
func (l *LockedTickets) Save(ctx context.Context, q *postgres.Queries) error {
	var arg db.UpdateTicketsParams
	for _, c := range l.locked {
		if !ticketChanged(&c.before, c.current) {
			continue
		}
		arg.TicketIds = append(arg.TicketIds, c.before.ID)
		arg.Was, arg.Statuses = append(arg.Was, l.stored[c.id]), append(arg.Statuses, string(c.current.Status))
		arg.WasGiven, arg.Given = append(arg.WasGiven, c.before.GivenBack), append(arg.Given, c.current.GivenBack)
		arg.RefundIds = append(arg.RefundIds, c.current.RefundID)
	}
	if len(arg.TicketIds) == 0 {
		return nil
	}
	n, err := q.UpdateTickets(ctx, arg)
	if err := postgres.ExpectRows(n, len(arg.TicketIds), "tickets", err); err != nil {
		return err
	}
	return notices.Insert(ctx, q, notice.ForVoidedTickets(l.voided()))
}

// voided returns the tickets that were voided since they were locked.
func (l *LockedTickets) voided() (changed []*ticket.Ticket) {
	for _, c := range l.locked {
		if c.before.Status != ticket.Voided && c.current.Status == ticket.Voided {
			changed = append(changed, c.current)
		}
	}
	return changed
}
