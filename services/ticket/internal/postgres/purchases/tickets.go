package purchases

import (
	"context"

	"github.com/google/uuid"

	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/notice"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/postgres/notices"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/ticket"
)

var _ ticket.Store = (*Tickets)(nil)

// Tickets reads tickets from PostgreSQL. It uses the pool of connections for reads.
type Tickets struct{ database *postgres.Database }

// NewTickets makes a Tickets on the database d.
func NewTickets(d *postgres.Database) *Tickets { return &Tickets{database: d} }

func (s *Tickets) FindTicket(ctx context.Context, id uuid.UUID) (*ticket.View, error) {
	q := s.database.ReadQueries()
	row, err := q.FindTicket(ctx, db.FindTicketParams{TicketID: id, Now: q.AsOf})
	if err != nil {
		return nil, postgres.OrNotFound(err, ticket.ErrNotFound)
	}
	t := toShownTicket(db.ListTicketsRow(row))
	return &t, nil
}

func (s *Tickets) ListTickets(ctx context.Context, userID string, limit int, before uuid.UUID) ([]ticket.View, error) {
	q := s.database.ReadQueries()
	rows, err := q.ListTickets(ctx, db.ListTicketsParams{
		Now: q.AsOf, UserID: userID, Before: postgres.OrMaxUUID(before), Max: int32(limit), //nolint:gosec // at most 101
	})
	if err != nil {
		return nil, pkgpostgres.Err(err)
	}
	list := make([]ticket.View, len(rows))
	for i, r := range rows {
		list[i] = toShownTicket(r)
	}
	return list, nil
}

func toShownTicket(r db.ListTicketsRow) ticket.View {
	return ticket.View{Ticket: TicketOfRow(r.Ticket, r.Valid), Now: r.Now.UTC(), Offer: r.Offer, Closing: event.AfterSaleTerms{
		State: event.State(r.State), ClosesAt: r.ClosesAt.UTC(), RefundUntil: r.RefundUntil.UTC(), UserRefunds: r.UserRefunds,
		FeesUntil: r.FeesUntil.UTC(), PostponedAt: postgres.TimeOrZero(r.PostponedAt), Transferable: event.Transferable(r.Transferable),
		CancellationFees: postgres.CancellationFees(r.CancellationUntil, r.CancellationPercents),
	}}
}

// TicketOfRow returns the ticket of a row; valid is its valid_now.
func TicketOfRow(r db.Ticket, valid bool) ticket.Ticket {
	t := ticket.Ticket{
		ID: r.TicketID, ReservationID: r.ReservationID, N: int(r.N), EventID: r.EventID, UserID: r.UserID, Section: r.Section,
		Price: r.Price, Paid: r.Paid, Fee: r.Fee, GivenBack: r.Given, Currency: r.Currency, PaymentID: r.PaymentID.UUID,
		Status: ticket.Status(r.Status), RefundID: r.RefundID.UUID, Serial: int(r.Serial), IssuedAt: r.IssuedAt.UTC(), ChosenAt: r.ChosenAt.UTC(),
		Disputed: r.Disputed, OnlyWhole: r.OnlyWhole,
	}
	if r.SeatID != nil {
		seat := reservation.NewSeat(*r.SeatID, r.Price)
		seat.Fee = r.Fee
		t.Seat = &seat
	}
	if valid {
		t.Status = ticket.Valid
	}
	return t
}

// IssueTickets inserts the tickets of confirmed reservations, whose rows must be locked.
func IssueTickets(ctx context.Context, q *postgres.Queries, confirmed []*reservation.Reservation) error {
	var issued []ticket.Ticket
	for _, r := range confirmed {
		issued = append(issued, ticket.Issue(r)...)
	}
	return InsertTickets(ctx, q, issued)
}

// InsertTickets inserts new tickets, for general admission also their places, and notices about them. If
// they replace transferred tickets, these must have been saved.
func InsertTickets(ctx context.Context, q *postgres.Queries, issued []ticket.Ticket) error {
	if len(issued) == 0 {
		return nil
	}
	arg := db.InsertTicketsParams{Now: q.AsOf}
	for _, t := range issued {
		appendTicket(&arg, t)
	}
	if err := q.InsertTickets(ctx, arg); err != nil {
		return err
	}
	return notices.Insert(ctx, q, notice.ForNewTickets(issued))
}

func appendTicket(arg *db.InsertTicketsParams, t ticket.Ticket) {
	seat := ""
	if t.Seat != nil {
		seat = t.Seat.ID
	}
	arg.TicketIds = append(arg.TicketIds, t.ID)
	arg.ReservationIds = append(arg.ReservationIds, t.ReservationID)
	arg.Ns = append(arg.Ns, int32(t.N)) //nolint:gosec // ≤ the quantity
	arg.EventIds = append(arg.EventIds, t.EventID)
	arg.UserIds = append(arg.UserIds, t.UserID)
	arg.Sections = append(arg.Sections, t.Section)
	arg.SeatIds = append(arg.SeatIds, seat)
	arg.Prices, arg.Fees, arg.Paid = append(arg.Prices, t.Price), append(arg.Fees, t.Fee), append(arg.Paid, t.Paid)
	arg.Currencies = append(arg.Currencies, t.Currency)
	arg.PaymentIds, arg.Prevs = append(arg.PaymentIds, t.PaymentID), append(arg.Prevs, t.Previous)
	arg.ChosenAt, arg.OnlyWhole = append(arg.ChosenAt, t.ChosenAt), append(arg.OnlyWhole, t.OnlyWhole)
}
