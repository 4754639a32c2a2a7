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
	// UndoWithin is how long a scan can be undone after it was recorded.
	UndoWithin = 10 * time.Minute
	// ListAfter is how long after the event's ClosesAt doors can first get their list of valid
	// tickets. It is longer than any transaction: whatever takes a ticket from its holder before
	// ClosesAt has done so by then.
	ListAfter = 10 * time.Second
	// listMargin is subtracted from the time at which a list is read; the result is the list's
	// time. A ticket's id contains a time, by a replica's clock, shortly before the commit. So
	// every ticket whose id is older than the list's time was committed, and is on the list.
	listMargin = 10 * time.Second
)

// Errors of check-ins.
var (
	ErrAlreadyUsed  = errs.ErrAlreadyUsed
	ErrNotValid     = errs.ErrNotValid
	ErrScanNotFound = errs.ErrScanNotFound
	ErrUndoTooLate  = errs.ErrUndoTooLate
	ErrListNotReady = errs.ErrListNotReady
)

// Result is the result of a scan: ADMITTED, UNDONE, or why nobody should have been admitted. The
// reason is one of the constants below, or the status of the ticket.
type Result string

// The results other than the statuses of a ticket.
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

// Conflict reports whether a door without a network has admitted somebody by mistake.
func (r Result) Conflict() bool { return r != Admitted && r != Undone }

// Event has the facts about an event that matter at its doors.
type Event struct {
	ID    string
	State event.State
	// Epoch grows when the event is postponed.
	Epoch int
	// ClosesAt is the end of refunds by users and of transfers.
	ClosesAt time.Time
	// Transferring is the number of tickets of which a transfer to another user is under way. It is
	// read for lists only.
	Transferring int64
	Now          time.Time
}

// Scan is the stored record of a code that a door has read.
type Scan struct {
	ID, TicketID uuid.UUID
	// N numbers scans in the order in which they were recorded.
	N      int64
	Epoch  int
	Device string
	// UserID is the user at the door who checked the ticket in or uploaded the scan.
	UserID string
	Result Result
	// At is when the door read the code, RecordedAt when the platform received it.
	At, RecordedAt time.Time
}

// ReadCode is a code that a door has read.
type ReadCode struct {
	ScanID uuid.UUID
	// Code is nil when it is not genuine.
	Code *ticket.Code
	At   time.Time
}

// Batch has codes that one door has read.
type Batch struct {
	EventID, Device, UserID string
	// Epoch is the epoch of the list that the door used; 0: the door has a network and needs no list.
	Epoch int
	Reads []ReadCode
}

// Online reports whether the door asks the platform before it admits anybody.
func (b *Batch) Online() bool { return b.Epoch == 0 }

// Outcome is a recorded scan with its ticket (nil: no ticket has the code).
type Outcome struct {
	Scan   Scan
	Ticket *ticket.Ticket
	// Earlier is the earlier scan that used the ticket. It is set at doors with a network only.
	Earlier *Scan
}

// Decide returns the result of a code that was read, and marks the ticket as used if the result is
// ADMITTED. t is the ticket of the code, whose row is locked; nil: there is none.
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

// cancelledFor reports whether this door counts the event as cancelled. A door without a network
// cannot know of a cancellation that may yet be undone, so whoever it admitted stays admitted.
func (e *Event) cancelledFor(b *Batch) bool {
	return e.State == event.Ended || b.Online() && !e.State.TakesPlace()
}

// postponedFor reports whether the door still admits for the date before a postponement. For a door
// with a network that is so until ClosesAt, when the refunds before the new date end.
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

// Position says where a page of a door's list begins.
type Position struct {
	Epoch int
	Time  time.Time
	Page  int
	// TicketID is the last ticket of the page before, zero for the first page. Lists are sorted by
	// user and ticket.
	TicketID uuid.UUID
	// Unclaimed: this last ticket had no holder when it was listed. A ticket that gets a holder
	// while the list is read appears twice.
	Unclaimed bool
}

// startOfPage returns the position of a list's first page if from is nil, and otherwise checks
// from.
func (e *Event) startOfPage(from *Position) (Position, error) {
	if !e.State.TakesPlace() {
		return Position{}, event.ErrCancelled
	}
	if from != nil && from.Epoch != e.Epoch {
		return Position{}, errs.ErrInvalidCursor
	}
	if wait := e.ClosesAt.Add(ListAfter).Sub(e.Now); wait > 0 {
		return Position{}, ErrListNotReady.WithRetry(wait)
	}
	latest := e.Now.Add(-listMargin).Truncate(time.Millisecond)
	switch {
	case from == nil:
		return Position{Epoch: e.Epoch, Time: latest}, nil
	case from.Time.After(latest), from.Time.Before(e.ClosesAt.Truncate(time.Millisecond)): // no list has this time
		return Position{}, errs.ErrInvalidCursor
	default:
		return *from, nil
	}
}

// Counts are the numbers of an event's tickets that were sold and used, and of conflicting scans.
type Counts struct{ Sold, CheckedIn, Conflicts int64 }

// Store stores scans, and reads the data that doors need.
type Store interface {
	// Record applies Event.Decide to each code of the batch and stores the results. It stores every
	// scan of a door without a network, and the scans of other doors that admitted somebody. For a
	// scan that is stored already it returns the earlier outcome.
	Record(ctx context.Context, b Batch) ([]Outcome, error)
	// Undo makes the ticket of a scan valid again.
	Undo(ctx context.Context, eventID string, scan uuid.UUID) (*Outcome, error)
	// Event reads what Service.List must know about an event.
	Event(ctx context.Context, eventID string) (Event, error)
	// ListTickets returns up to limit valid tickets after a position, and the position after these.
	ListTickets(ctx context.Context, eventID string, from Position, limit int) (list []ticket.DoorTicket, end Position, err error)
	Counts(ctx context.Context, eventID string) (Counts, error)
	// ListConflicts returns up to limit conflicts whose N is below before (0: all), the latest first.
	ListConflicts(ctx context.Context, eventID string, limit int, before int64) ([]Scan, error)
}
