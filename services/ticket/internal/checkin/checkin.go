// Package checkin admits the bearers of tickets at the doors of an event.
package checkin

import (
	"context"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/ticket"
)

const (
	// UndoWithin is how long after its record a scan can be undone.
	UndoWithin = 10 * time.Minute
	// ListAfter is the time from the event's ClosesAt until doors get lists. It is longer than any
	// transaction lasts: a refund by a user or a transfer that began in time has ended by then.
	ListAfter = 10 * time.Second
	// listMargin is how much earlier than its reading the time of a list is: a ticket whose id is from
	// before that time was committed, and so is on the list, although ids are made before the commit, by
	// the clock of a replica.
	listMargin = 10 * time.Second
	// transferWait is when to ask again for a list that waits for a transfer.
	transferWait = 5 * time.Second
)

// Errors of check-ins.
var (
	ErrAlreadyUsed  = errs.ErrAlreadyUsed
	ErrNotValid     = errs.ErrNotValid
	ErrScanNotFound = errs.ErrScanNotFound
	ErrUndoTooLate  = errs.ErrUndoTooLate
	ErrListNotReady = errs.ErrListNotReady
)

// Result says what came of a scan: ADMITTED, UNDONE, or why nobody should have been admitted: one of
// those below, or the status of the ticket.
type Result string

// The results that are no status of a ticket.
const (
	Admitted       Result = "ADMITTED"
	Undone         Result = "UNDONE"
	AlreadyUsed    Result = "ALREADY_USED"
	UnknownCode    Result = "UNKNOWN_CODE" // not genuine, or of a ticket that does not exist
	WrongEvent     Result = "WRONG_EVENT"
	OldCode        Result = "OLD_CODE" // the ticket has a newer code
	EventCancelled Result = "EVENT_CANCELLED"
	EventPostponed Result = "EVENT_POSTPONED"
)

// Conflict reports whether a scan without a network should have admitted nobody.
func (r Result) Conflict() bool { return r != Admitted && r != Undone }

// Event has the facts about an event that matter at its doors.
type Event struct {
	ID    string
	State event.State
	// Epoch grows when the event is postponed.
	Epoch int
	// ClosesAt ends refunds by users, and transfers.
	ClosesAt time.Time
	// Transferring says that a ticket may yet get another holder. Only lists need it.
	Transferring bool
	Now          time.Time
}

// Scan is the record of a code that a door has read.
type Scan struct {
	ID, TicketID uuid.UUID
	// N orders scans by their record.
	N      int64
	Epoch  int
	Device string
	// UserID is who checked in, or uploaded.
	UserID string
	Result Result
	// At is when the door read the code, RecordedAt when the platform heard of it.
	At, RecordedAt time.Time
}

// Read is a code that a door has read.
type Read struct {
	ScanID uuid.UUID
	// Code is nil when it is not genuine.
	Code *ticket.Code
	At   time.Time
}

// Batch has what one door has read.
type Batch struct {
	EventID, Device, UserID string
	// Epoch is that of the door's list; 0: the door has a network, and nobody is admitted yet.
	Epoch int
	Reads []Read
}

// Online reports whether the door asks before it admits.
func (b *Batch) Online() bool { return b.Epoch == 0 }

// Outcome is a scan with its ticket (nil: there is none).
type Outcome struct {
	Scan   Scan
	Ticket *ticket.Ticket
	// Earlier is the scan by which the ticket is used, at a door with a network only.
	Earlier *Scan
}

// Decide returns what comes of a code, and uses the ticket if it admits. The ticket is that of the
// code, locked; nil: there is none.
func (e *Event) Decide(b *Batch, code *ticket.Code, t *ticket.Ticket) Result {
	switch {
	case code == nil:
		return UnknownCode
	case code.EventID != e.ID:
		return WrongEvent
	case e.cancelledFor(b):
		return EventCancelled
	case e.postponedFor(b):
		return EventPostponed
	case t == nil:
		return UnknownCode
	case t.Status == ticket.Used:
		return AlreadyUsed
	case t.Status != ticket.Valid:
		return Result(t.Status)
	case uint64(code.Serial) != uint64(t.Serial): //nolint:gosec // counts from 1
		return OldCode
	}
	t.Status = ticket.Used
	return Admitted
}

// cancelledFor reports whether the door should have admitted nobody. One without a network has not heard
// of a cancellation that may yet be undone: whoever it has admitted is in.
func (e *Event) cancelledFor(b *Batch) bool {
	return e.State == event.Ended || b.Online() && !e.State.TakesPlace()
}

// postponedFor reports whether the door is that of a date to which the event is no longer. With a
// network it is, before the end of refunds for the new date.
func (e *Event) postponedFor(b *Batch) bool {
	if b.Online() {
		return e.Epoch > 1 && e.Now.Before(e.ClosesAt)
	}
	return b.Epoch != e.Epoch
}

// Undo makes the ticket of an ADMITTED scan valid again.
func (o *Outcome) Undo(e *Event) error {
	switch {
	case o.Scan.Epoch != e.Epoch:
		return ErrNotValid.With("why", string(EventPostponed))
	case o.Ticket.Status != ticket.Used:
		return ErrNotValid.With("why", string(o.Ticket.Status))
	case e.Now.Sub(o.Scan.RecordedAt) > UndoWithin:
		return ErrUndoTooLate
	}
	o.Ticket.Status, o.Scan.Result = ticket.Valid, Undone
	return nil
}

// Position is where the next page of a door's list begins.
type Position struct {
	Epoch int
	Time  time.Time
	Page  int
	// TicketID is the last ticket before it, zero on the first page. Lists are in the order of users and
	// tickets.
	TicketID uuid.UUID
	// Unclaimed says that it had no holder yet when it was listed. One that gets a holder meanwhile is
	// listed twice.
	Unclaimed bool
}

// begin returns the position of a list's first page, or checks that of a later one.
func (e *Event) begin(from *Position) (Position, error) {
	if !e.State.TakesPlace() {
		return Position{}, event.ErrCancelled
	}
	if from != nil && from.Epoch != e.Epoch {
		return Position{}, errs.ErrInvalidCursor
	}
	if wait := e.ClosesAt.Add(ListAfter).Sub(e.Now); wait > 0 {
		return Position{}, ErrListNotReady.WithRetry(wait)
	}
	if e.Transferring {
		return Position{}, ErrListNotReady.WithRetry(transferWait)
	}
	latest := e.Now.Add(-listMargin).Truncate(time.Millisecond)
	switch {
	case from == nil:
		return Position{Epoch: e.Epoch, Time: latest}, nil
	case from.Time.After(latest), from.Time.Before(e.ClosesAt.Truncate(time.Millisecond)): // no first page had it
		return Position{}, errs.ErrInvalidCursor
	default:
		return *from, nil
	}
}

// Counts are the figures of an event's doors.
type Counts struct{ Sold, CheckedIn, Conflicts int64 }

// Store keeps scans.
type Store interface {
	// Record decides on what a door has read, and uses the tickets that it admits. It keeps every scan
	// of a door without a network, and of others those that admitted; a scan that it has already is
	// returned as it was decided.
	Record(ctx context.Context, b Batch) ([]Outcome, error)
	// Undo makes the ticket of a scan valid again.
	Undo(ctx context.Context, eventID string, scan uuid.UUID) (*Outcome, error)
	// Event reads an event for a list.
	Event(ctx context.Context, eventID string) (Event, error)
	// ListTickets returns up to limit valid tickets after the position, and where they end.
	ListTickets(ctx context.Context, eventID string, from Position, limit int) (list []ticket.DoorTicket, end Position, err error)
	Counts(ctx context.Context, eventID string) (Counts, error)
	// ListConflicts returns conflicts that were recorded before (0: all), the latest first.
	ListConflicts(ctx context.Context, eventID string, limit int, before int64) ([]Scan, error)
}
