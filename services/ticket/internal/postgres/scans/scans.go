// Package scans stores scans: the codes that doors have read, with their results.
package scans

import (
	"context"
	"errors"
	"math"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/errs"
	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/checkin"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/postgres/purchases"
	"urr.guru/services/ticket/internal/ticket"
)

var _ checkin.Store = (*Store)(nil)

// Store stores scans in PostgreSQL. Reads use the pool of connections for reads.
type Store struct{ database *postgres.Database }

// NewStore makes a Store on the database d.
func NewStore(d *postgres.Database) *Store { return &Store{database: d} }

// Record decides on the codes of a batch and stores the results. It locks the tickets in the order
// of their ids, so that it waits while another batch with one of these tickets is processed.
func (s *Store) Record(ctx context.Context, b checkin.Batch) (outcomes []checkin.Outcome, err error) {
	err = s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		e, err := lockEvent(ctx, tx, b.EventID)
		if err != nil {
			return err
		}
		locked, err := purchases.LockTickets(ctx, tx, ticketIDs(&b))
		if err != nil {
			return err
		}
		recorded, err := findScans(ctx, tx, &b)
		if err != nil {
			return err
		}
		outcomes = decide(&e, &b, locked, recorded)
		if err := locked.Save(ctx, tx.Queries); err != nil {
			return err
		}
		if err := purchases.EndOffersOf(ctx, tx, locked, e.Now); err != nil {
			return err
		}
		if err := insertScans(ctx, tx, &e, &b, outcomes, recorded); err != nil || !b.Online() {
			return err
		}
		return findEarlier(ctx, tx, &e, &outcomes[0])
	})
	return outcomes, err
}

// lockEvent locks and reads an event. It is called before tickets are locked, so that the event
// does not change while the transaction waits for them.
func lockEvent(ctx context.Context, tx *postgres.Tx, id string) (checkin.Event, error) {
	row, err := postgres.LockDoor.Take(ctx, tx, db.LockDoorParams{EventID: id, Now: tx.ClockTime()})
	if err != nil {
		return checkin.Event{}, postgres.OrNotFound(err, event.ErrNotFound)
	}
	return checkin.Event{
		ID: id, State: event.State(row.State), Epoch: int(row.Epoch), ClosesAt: row.ClosesAt.UTC(), Now: row.Now.UTC(),
	}, nil
}

func ticketIDs(b *checkin.Batch) (ids []uuid.UUID) {
	for _, r := range b.Reads {
		if r.Code != nil && r.Code.EventID == b.EventID {
			ids = append(ids, r.Code.TicketID)
		}
	}
	return ids
}

// findScans reads the scans of a batch that are already recorded, by id.
func findScans(ctx context.Context, tx *postgres.Tx, b *checkin.Batch) (map[uuid.UUID]checkin.Scan, error) {
	recorded := make(map[uuid.UUID]checkin.Scan)
	if b.Online() { // the scan has a new id
		return recorded, nil
	}
	arg := db.FindScansParams{EventID: b.EventID}
	for _, r := range b.Reads {
		arg.ScanIds = append(arg.ScanIds, r.ScanID)
	}
	rows, err := tx.FindScans(ctx, arg)
	for _, r := range rows {
		recorded[r.Scan.ScanID] = FromRow(r.Scan)
	}
	return recorded, err
}

// decide returns the outcomes of all codes of a batch, in their order. A scan that is recorded
// keeps its result. If codes have the same scan id, all get the result of the first one.
func decide(e *checkin.Event, b *checkin.Batch, locked *purchases.LockedTickets, recorded map[uuid.UUID]checkin.Scan) []checkin.Outcome {
	outcomes := make([]checkin.Outcome, len(b.Reads))
	decided := make(map[uuid.UUID]checkin.Scan)
	for i, r := range b.Reads {
		var t *ticket.Ticket
		scan := checkin.Scan{ID: r.ScanID, Epoch: b.Epoch, Device: b.Device, UserID: b.UserID, At: r.At, RecordedAt: e.Now}
		if r.Code != nil {
			t, scan.TicketID = locked.Find(r.Code.TicketID), r.Code.TicketID
		}
		if b.Online() {
			scan.Epoch, scan.At = e.Epoch, e.Now
		}
		if earlier, ok := recorded[r.ScanID]; ok {
			scan = earlier
		} else if earlier, ok := decided[r.ScanID]; ok {
			scan = earlier
		} else {
			scan.Result = e.Decide(b, r.Code, t)
			decided[r.ScanID] = scan
		}
		outcomes[i] = checkin.Outcome{Scan: scan, Ticket: t}
	}
	return outcomes
}

// insertScans stores the new scans, but not the refusals of an online door, which admitted nobody.
func insertScans(
	ctx context.Context, tx *postgres.Tx, e *checkin.Event, b *checkin.Batch, outcomes []checkin.Outcome, recorded map[uuid.UUID]checkin.Scan,
) error {
	arg := db.InsertScansParams{EventID: b.EventID, Epoch: int32(b.Epoch), Device: b.Device, UserID: b.UserID, RecordedAt: e.Now} //nolint:gosec // an int32
	if b.Online() {
		arg.Epoch = int32(e.Epoch) //nolint:gosec // an int32
	}
	added := make(map[uuid.UUID]bool)
	for _, o := range outcomes {
		if _, stored := recorded[o.Scan.ID]; stored || added[o.Scan.ID] || b.Online() && o.Scan.Result.Conflict() {
			continue
		}
		added[o.Scan.ID] = true
		arg.ScanIds, arg.TicketIds = append(arg.ScanIds, o.Scan.ID), append(arg.TicketIds, o.Scan.TicketID)
		arg.Results, arg.ScannedAt = append(arg.Results, string(o.Scan.Result)), append(arg.ScannedAt, o.Scan.At)
	}
	if len(arg.ScanIds) == 0 {
		return nil
	}
	n, err := tx.InsertScans(ctx, arg)
	if err == nil && n < int64(len(arg.ScanIds)) {
		return errConcurrent
	}
	return err
}

// errConcurrent means that another call has recorded one of the scans meanwhile. The calls had no
// ticket in common, so neither waited for the other. A repeated call finds the recorded scan.
var errConcurrent = errs.ErrUnavailable.Wrap(errors.New("a scan was recorded by another call"))

// findEarlier adds to an outcome ALREADY_USED the earlier scan by which the ticket was used.
func findEarlier(ctx context.Context, tx *postgres.Tx, e *checkin.Event, o *checkin.Outcome) error {
	if o.Scan.Result != checkin.AlreadyUsed {
		return nil
	}
	row, err := tx.FindAdmission(ctx, db.FindAdmissionParams{EventID: e.ID, Epoch: int32(e.Epoch), TicketID: o.Scan.TicketID}) //nolint:gosec // an int32
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	earlier := FromRow(row.Scan)
	o.Earlier = &earlier
	return err
}

func (s *Store) Undo(ctx context.Context, eventID string, id uuid.UUID) (outcome *checkin.Outcome, err error) {
	err = s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		e, err := lockEvent(ctx, tx, eventID)
		if err != nil {
			return err
		}
		find := db.FindScansParams{EventID: eventID, ScanIds: []uuid.UUID{id}}
		rows, err := tx.FindScans(ctx, find) // a scan's ticket never changes
		if err != nil {
			return err
		}
		if len(rows) == 0 || checkin.Result(rows[0].Scan.Result).Conflict() {
			return checkin.ErrScanNotFound
		}
		locked, err := purchases.LockTickets(ctx, tx, []uuid.UUID{rows[0].Scan.TicketID.UUID})
		if err != nil {
			return err
		}
		if rows, err = tx.FindScans(ctx, find); err != nil {
			return err
		}
		outcome = &checkin.Outcome{Scan: FromRow(rows[0].Scan), Ticket: locked.Find(rows[0].Scan.TicketID.UUID)}
		if outcome.Scan.Result == checkin.Undone {
			return nil
		}
		if err := outcome.Undo(&e); err != nil {
			return err
		}
		if err := locked.Save(ctx, tx.Queries); err != nil {
			return err
		}
		n, err := tx.UndoScan(ctx, db.UndoScanParams{
			EventID: eventID, ScanID: id, Was: string(checkin.Admitted), Result: string(outcome.Scan.Result),
		})
		return postgres.ExpectRows(n, 1, "scans", err)
	})
	return outcome, err
}

func (s *Store) Event(ctx context.Context, id string) (checkin.Event, error) {
	q := s.database.ReadQueries()
	row, err := q.Door(ctx, db.DoorParams{EventID: id, Now: q.AsOf})
	if err != nil {
		return checkin.Event{}, postgres.OrNotFound(err, event.ErrNotFound)
	}
	return checkin.Event{
		ID: id, State: event.State(row.State), Epoch: int(row.Epoch), ClosesAt: row.ClosesAt.UTC(), Now: row.Now.UTC(),
		Transferring: row.Transferring,
	}, nil
}

func (s *Store) ListTickets(
	ctx context.Context, eventID string, from checkin.Position, limit int,
) ([]ticket.DoorTicket, checkin.Position, error) {
	rows, err := s.database.ReadQueries().DoorTickets(ctx, db.DoorTicketsParams{
		EventID: eventID, Epoch: int32(from.Epoch), After: from.TicketID, Unclaimed: from.Unclaimed, Max: int32(limit), //nolint:gosec // an int32, and ≤ 5000
	})
	list, end := make([]ticket.DoorTicket, len(rows)), from
	for i, r := range rows {
		list[i] = ticket.DoorTicket{ID: r.TicketID, Serial: int(r.Serial)}
		end.TicketID, end.Unclaimed = r.TicketID, r.Unclaimed
	}
	return list, end, pkgpostgres.Err(err)
}

func (s *Store) Counts(ctx context.Context, eventID string) (checkin.Counts, error) {
	row, err := s.database.ReadQueries().DoorCounts(ctx, eventID)
	return checkin.Counts(row), postgres.OrNotFound(err, event.ErrNotFound)
}

func (s *Store) ListConflicts(ctx context.Context, eventID string, limit int, before int64) ([]checkin.Scan, error) {
	if before == 0 {
		before = math.MaxInt64
	}
	rows, err := s.database.ReadQueries().ListConflicts(ctx, db.ListConflictsParams{
		EventID: eventID, Before: before, Max: int32(limit), //nolint:gosec // at most 101
	})
	list := make([]checkin.Scan, len(rows))
	for i, r := range rows {
		list[i] = FromRow(r.Scan)
	}
	return list, pkgpostgres.Err(err)
}

// FromRow converts a row to a scan.
func FromRow(r db.Scan) checkin.Scan {
	return checkin.Scan{
		ID: r.ScanID, N: r.N, TicketID: r.TicketID.UUID, Epoch: int(r.Epoch), Device: r.Device, UserID: r.UserID,
		Result: checkin.Result(r.Result), At: r.ScannedAt.UTC(), RecordedAt: r.RecordedAt.UTC(),
	}
}
