package tickets

import (
	"context"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/notice"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/postgres/notices"
	"urr.guru/services/ticket/internal/ticket"
)

// Locked has tickets whose rows one transaction has locked.
type Locked struct{ changes []ticketChange }

// ticketChange is a locked ticket as it was read (before), and as it will be written (current).
type ticketChange struct {
	before  ticket.Ticket
	current *ticket.Ticket
	// stored is the status in the row. It differs from before.Status for a ticket that was used before
	// its event was postponed, and so counts as VALID.
	stored string
}

func (c *ticketChange) changed() bool {
	return c.before.Status != c.current.Status || c.before.GivenBack != c.current.GivenBack || c.before.RefundID != c.current.RefundID
}

// Lock locks and reads tickets. Missing tickets are left out.
func Lock(ctx context.Context, tx *postgres.Tx, ids []uuid.UUID) (*Locked, error) {
	if len(ids) == 0 {
		return &Locked{}, nil
	}
	rows, err := postgres.LockTickets.Take(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	l := &Locked{changes: make([]ticketChange, len(rows))}
	for i, r := range rows {
		t := FromRow(r.Ticket, r.Valid)
		t.Name = r.Name
		l.changes[i] = ticketChange{before: t, current: &t, stored: r.Ticket.Status}
	}
	return l, nil
}

// All returns the locked tickets.
func (l *Locked) All() []*ticket.Ticket {
	all := make([]*ticket.Ticket, len(l.changes))
	for i, c := range l.changes {
		all[i] = c.current
	}
	return all
}

// Find returns the ticket with this id, or nil if it is not locked.
func (l *Locked) Find(id uuid.UUID) *ticket.Ticket {
	for _, c := range l.changes {
		if c.before.ID == id {
			return c.current
		}
	}
	return nil
}

// LeftValid returns the tickets that were VALID when they were locked, and no longer are.
func (l *Locked) LeftValid() (left []*ticket.Ticket) {
	for _, c := range l.changes {
		if c.before.Status == ticket.Valid && c.current.Status != ticket.Valid {
			left = append(left, c.current)
		}
	}
	return left
}

// Save writes the changed tickets, and notices about those that were voided. The statement requires
// the status that each row had when it was read, and fails if a row has another one.
func (l *Locked) Save(ctx context.Context, q *postgres.Queries) error {
	var arg db.UpdateTicketsParams
	for _, c := range l.changes {
		if !c.changed() {
			continue
		}
		arg.TicketIds = append(arg.TicketIds, c.before.ID)
		arg.Was, arg.Statuses = append(arg.Was, c.stored), append(arg.Statuses, string(c.current.Status))
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
func (l *Locked) voided() (changed []*ticket.Ticket) {
	for _, c := range l.changes {
		if c.before.Status != ticket.Voided && c.current.Status == ticket.Voided {
			changed = append(changed, c.current)
		}
	}
	return changed
}
