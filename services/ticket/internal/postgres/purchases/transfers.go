package purchases

import (
	"context"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/idempotency/answers"
	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/ticket"
	"urr.guru/services/ticket/internal/transfer"
)

var _ transfer.Store = (*Transfers)(nil)

// Transfers stores transfers in PostgreSQL. Reads for users use a separate pool of connections.
type Transfers struct{ database *postgres.Database }

// NewTransfers makes a Transfers on the database d.
func NewTransfers(d *postgres.Database) *Transfers { return &Transfers{database: d} }

func (s *Transfers) Offer(
	ctx context.Context, req transfer.Request, key *idempotency.Key, claimHash []byte,
) (id uuid.UUID, renewed bool, err error) {
	err = s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		earlierID, err := answers.Claim(ctx, tx, key)
		if err != nil {
			return err
		}
		if earlierID != "" {
			if id, err = uuid.Parse(earlierID); err != nil {
				return err
			}
			n, err := tx.RenewTransferClaim(ctx, db.RenewTransferClaimParams{TransferID: id, ClaimHash: claimHash})
			renewed = n == 1
			return err
		}
		if id, err = insertTransfer(ctx, tx, req, claimHash); err != nil {
			return err
		}
		renewed = true
		return answers.Keep(ctx, tx, key, id.String())
	})
	return id, renewed, err
}

// insertTransfer makes and stores the offer of a ticket.
func insertTransfer(ctx context.Context, tx *postgres.Tx, req transfer.Request, claimHash []byte) (uuid.UUID, error) {
	locked, err := LockTickets(ctx, tx, []uuid.UUID{req.TicketID})
	if err != nil {
		return uuid.Nil, err
	}
	tk := locked.Find(req.TicketID)
	if tk == nil {
		return uuid.Nil, ticket.ErrNotFound
	}
	terms, err := transferTermsOf(ctx, tx.Queries, tk.EventID, "")
	if err != nil {
		return uuid.Nil, err
	}
	if terms.Takers, err = postgres.Takers(ctx, tx.Queries); err != nil {
		return uuid.Nil, err
	}
	t, err := transfer.Offer(req, tk, claimHash, terms)
	if err != nil {
		return uuid.Nil, err
	}
	n, err := tx.InsertTransfer(ctx, db.InsertTransferParams{
		TransferID: t.ID, TicketID: t.TicketID, EventID: t.EventID, Seller: t.Seller, ClaimHash: t.ClaimHash, ToUser: t.ToUser, Price: t.Price,
		Currency: t.Currency, Status: string(t.Status), Deadline: t.Deadline, Version: t.Version, CreatedAt: t.CreatedAt,
	})
	if err == nil && n == 0 {
		err = transfer.ErrNotTransferable.With("reason", transfer.Offered)
	}
	return t.ID, err
}

// transferTermsOf reads the terms of an event for a buyer; empty: for nobody yet.
func transferTermsOf(ctx context.Context, q *postgres.Queries, eventID, buyer string) (terms transfer.Terms, err error) {
	closings, now, err := postgres.Closings(ctx, q, []string{eventID})
	terms.AfterSaleTerms, terms.Now = closings[eventID], now
	if err == nil && buyer != "" {
		terms.BuyerBlocked, err = q.BlockedAt(ctx, db.BlockedAtParams{EventID: eventID, UserID: buyer})
	}
	return terms, err
}

func (s *Transfers) OfClaim(ctx context.Context, claimHash []byte) (uuid.UUID, error) {
	id, err := s.database.ReadQueries().TransferOfClaim(ctx, claimHash)
	if err != nil {
		return uuid.Nil, postgres.OrNotFound(err, transfer.ErrNotFound)
	}
	return id, nil
}

// Find uses the pool of writes, not that of reads, since it is called after a write.
func (s *Transfers) Find(ctx context.Context, id uuid.UUID) (*transfer.View, error) {
	q := s.database.Queries()
	row, err := q.FindTransfer(ctx, db.FindTransferParams{TransferID: id, Now: q.AsOf})
	if err != nil {
		return nil, postgres.OrNotFound(err, transfer.ErrNotFound)
	}
	t := toShownTransfer(db.ListTransfersRow(row))
	return &t, nil
}

func (s *Transfers) FindToPay(ctx context.Context, id uuid.UUID) (*transfer.Purchase, time.Time, error) {
	t, err := s.Find(ctx, id)
	if err != nil {
		return nil, time.Time{}, asReference(err, transfer.ErrNotFound)
	}
	terms, err := transferTermsOf(ctx, s.database.Queries(), t.EventID, t.Buyer)
	return &transfer.Purchase{
		Transfer: &t.Transfer, Ticket: &t.Ticket, Terms: terms, EventTitle: t.EventTitle, StatementSuffix: t.StatementSuffix,
	}, terms.Now, pkgpostgres.Err(err)
}

func (s *Transfers) ChangeToBegin(ctx context.Context, id uuid.UUID, change func(p *transfer.Purchase, now time.Time) error) error {
	err := s.Change(ctx, id, func(t *transfer.Transfer, tk *ticket.Ticket, terms transfer.Terms) error {
		return change(&transfer.Purchase{Transfer: t, Ticket: tk, Terms: terms}, terms.Now)
	})
	return asReference(err, transfer.ErrNotFound)
}

func (s *Transfers) ChangeClaims(
	ctx context.Context, payments []purchase.UnderWay, change func(p *transfer.Purchase, payment uuid.UUID, now time.Time),
) error {
	return changeEach(ctx, s, payments, change)
}

func (s *Transfers) List(ctx context.Context, userID string, limit int, before uuid.UUID) ([]transfer.View, error) {
	q := s.database.ReadQueries()
	rows, err := q.ListTransfers(ctx, db.ListTransfersParams{
		Now: q.AsOf, UserID: userID, Before: postgres.OrMaxUUID(before), Max: int32(limit), //nolint:gosec // at most 101
	})
	if err != nil {
		return nil, pkgpostgres.Err(err)
	}
	list := make([]transfer.View, len(rows))
	for i, r := range rows {
		list[i] = toShownTransfer(r)
	}
	return list, nil
}

func (s *Transfers) Change(ctx context.Context, id uuid.UUID, decide transfer.Decide) error {
	return s.change(ctx, id, nil, func(ctx context.Context, c *transferTx) (*ticket.Ticket, error) {
		if err := decide(c.transfer, c.ticket, c.terms); err != nil || c.transfer.GaveUp == "" {
			return nil, err
		}
		return nil, c.GiveUpTransfer(ctx, db.GiveUpTransferParams{TransferID: id, UserID: c.transfer.GaveUp})
	})
}

func (s *Transfers) Accept(ctx context.Context, id uuid.UUID, userID string, contact purchase.Contact, entitled bool) error {
	return s.change(ctx, id, []string{userID}, func(ctx context.Context, c *transferTx) (*ticket.Ticket, error) {
		b, err := c.buyer(ctx, userID)
		if err != nil {
			return nil, err
		}
		b.Entitled = entitled
		if b.GaveUp, err = c.HasGivenUp(ctx, db.HasGivenUpParams{TransferID: id, UserID: userID}); err != nil {
			return nil, err
		}
		version := c.transfer.Version
		newTicket, err := c.transfer.Accept(c.ticket, b, c.terms)
		if err != nil || c.transfer.Version == version { // accepted before, with a contact
			return nil, err
		}
		return newTicket, c.SetBuyerContact(ctx, db.SetBuyerContactParams{
			TransferID: id, UserID: userID, Email: contact.Email, Language: contact.Language,
		})
	})
}

// transferTx is a transaction that changes a transfer. It has locked the ticket and the transfer.
type transferTx struct {
	*postgres.Tx

	key      db.TransferKeysRow
	ticket   *ticket.Ticket
	transfer *transfer.Transfer
	terms    transfer.Terms
}

// change locks a transfer's ticket and the transfer, calls decide, and writes both. It inserts the
// ticket that decide returns. If users are given, it first locks them and the seller.
func (s *Transfers) change(
	ctx context.Context, id uuid.UUID, users []string, decide func(context.Context, *transferTx) (*ticket.Ticket, error),
) error {
	err := s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		keys, err := tx.TransferKeys(ctx, []uuid.UUID{id})
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			return transfer.ErrNotFound
		}
		c := &transferTx{Tx: tx, key: keys[0]}
		if users != nil {
			if err := c.lockUsers(ctx, append(users, c.key.Seller)); err != nil {
				return err
			}
		}
		lockedTickets, err := LockTickets(ctx, tx, []uuid.UUID{c.key.TicketID})
		if err != nil {
			return err
		}
		locked, err := LockTransfers(ctx, tx, []uuid.UUID{id})
		if err != nil {
			return err
		}
		c.ticket, c.transfer = lockedTickets.Find(c.key.TicketID), locked.Find(id)
		if c.terms, err = transferTermsOf(ctx, tx.Queries, c.key.EventID, c.transfer.Buyer); err != nil {
			return err
		}
		newTicket, err := decide(ctx, c)
		if err != nil {
			return err
		}
		if err := saveTransfer(ctx, tx, lockedTickets, locked, newTicket); err != nil {
			return err
		}
		return failpoint.Err("ticket.transfer.before_commit")
	})
	if err == nil {
		failpoint.Hit("ticket.transfer.after_commit")
		s.database.Published()
	}
	return err
}

func saveTransfer(ctx context.Context, tx *postgres.Tx, lockedTickets *LockedTickets, locked *LockedTransfers, newTicket *ticket.Ticket) error {
	if err := lockedTickets.Save(ctx, tx.Queries); err != nil {
		return err
	}
	if newTicket != nil {
		if err := InsertTickets(ctx, tx.Queries, []ticket.Ticket{*newTicket}); err != nil {
			return err
		}
	}
	return locked.Save(ctx, tx)
}

// lockUsers locks users of the transfer's event or series.
func (c *transferTx) lockUsers(ctx context.Context, ids []string) error {
	users := make([]postgres.User, len(ids))
	for i, id := range ids {
		users[i] = postgres.User{EventID: c.key.EventID, SeriesID: c.key.SeriesID, UserID: id}
	}
	return c.LockPaymentsAndUsers(ctx, nil, users)
}

// buyer reads the facts that decide whether a user may get the ticket. The user must be locked.
func (c *transferTx) buyer(ctx context.Context, userID string) (transfer.Buyer, error) {
	row, err := c.SaleOf(ctx, db.SaleOfParams{Now: c.AsOf, EventID: c.key.EventID})
	if err != nil {
		return transfer.Buyer{}, err
	}
	b := transfer.Buyer{UserID: userID, CheckLimit: func() error { return nil }, Sale: postgres.Sale(&row)}
	if b.Blocked, err = c.BlockedAt(ctx, db.BlockedAtParams{EventID: c.key.EventID, UserID: userID}); err != nil {
		return b, err
	}
	counts, err := c.CountsForLimit(ctx, db.CountsForLimitParams{UserID: userID, TicketID: c.key.TicketID})
	if err != nil || !counts {
		return b, err
	}
	record, err := postgres.RecordOf(ctx, c.Queries, postgres.User{EventID: c.key.EventID, SeriesID: row.SeriesID, UserID: userID})
	b.CheckLimit = func() error { return record.CheckLimits(&b.Sale, c.terms.Now, 1) }
	return b, err
}

// Block ends the purchases of offers that a user has accepted who was blocked at the event, unless
// the user may have been charged. Others can accept these offers.
func (s *Transfers) Block(ctx context.Context, eventID, userID string) error {
	ids, err := s.database.Queries().AcceptedBy(ctx, db.AcceptedByParams{EventID: eventID, UserID: userID})
	for i := 0; i < len(ids) && err == nil; i++ {
		err = s.Change(ctx, ids[i], func(t *transfer.Transfer, tk *ticket.Ticket, terms transfer.Terms) error {
			t.Block(tk, userID, terms.Now)
			return nil
		})
	}
	return err
}

func (s *Transfers) Paying(ctx context.Context, payments []purchase.UnderWay, left time.Duration) (all, short []purchase.UnderWay, err error) {
	q := s.database.Queries()
	return paying(ctx, q, payments, left, func(ctx context.Context, arg db.PayingReservationsParams) ([]db.PayingTransfersRow, error) {
		return q.PayingTransfers(ctx, db.PayingTransfersParams(arg))
	})
}

func (s *Transfers) Due(ctx context.Context, max int) ([]uuid.UUID, error) {
	q := s.database.Queries()
	ids, err := q.DueTransfers(ctx, db.DueTransfersParams{Now: q.AsOf, Max: int32(max)}) //nolint:gosec // a batch
	return ids, pkgpostgres.Err(err)
}

// Count counts the offers that may still be completed.
func (s *Transfers) Count(ctx context.Context) (transfer.Counts, error) {
	q := s.database.Queries()
	row, err := q.CountOffers(ctx, q.AsOf)
	return transfer.Counts{Open: row.Open, Awaited: row.Awaited, Overdue: row.Overdue}, pkgpostgres.Err(err)
}

func toTransfer(r db.Transfer) transfer.Transfer {
	return transfer.Transfer{
		ID: r.TransferID, TicketID: r.TicketID, EventID: r.EventID, Seller: r.Seller, ToUser: postgres.OrEmpty(r.ToUser), ClaimHash: r.ClaimHash,
		Price: r.Price, Currency: r.Currency, Status: transfer.Status(r.Status), Reason: r.Reason, Deadline: r.Deadline.UTC(),
		Buyer: postgres.OrEmpty(r.Buyer), UnpaidBuyers: int(r.Unpaid), NewTicket: r.NewTicket.UUID, Version: r.Version, CreatedAt: r.CreatedAt.UTC(),
		Claim: purchase.Claim{
			PaymentID: r.PaymentID.UUID, Until: postgres.TimeOrZero(r.PayUntil), OriginalEnd: postgres.TimeOrZero(r.PayEndsAt), Opens: int(r.Opens),
			Charging: r.Charging, Begun: r.Begun,
		},
	}
}

func toShownTransfer(r db.ListTransfersRow) transfer.View {
	return transfer.View{
		Transfer: toTransfer(r.Transfer), Ticket: TicketOfRow(r.Ticket, false), EventTitle: r.Title, StatementSuffix: r.StatementSuffix, StartsAt: r.StartsAt.UTC(),
		TimeZone: r.TimeZone, Now: r.Now.UTC(),
	}
}
