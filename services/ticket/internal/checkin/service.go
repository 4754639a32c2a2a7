package checkin

import (
	"cmp"
	"context"
	"time"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/ticket"
)

// countsAge is the maximum age of counts. They are cached, since every door asks for them often.
const countsAge = time.Second

// Codes verifies the codes of tickets, and signs the ticket lists of doors.
type Codes interface {
	Verify(code string) (ticket.Code, error)
	SignDoorList(l *ticket.DoorList) string
}

var _ Codes = (*ticket.Service)(nil)

// Service checks tickets in at the doors of events, with or without a network.
type Service struct {
	store  Store
	codes  Codes
	counts func(context.Context, string) (Counts, error)
}

// NewService makes a Service that keeps scans in store.
func NewService(store Store, codes Codes) *Service {
	return &Service{store: store, codes: codes, counts: event.Cached(countsAge, store.Counts)}
}

// CheckIn admits the bearer of a code at a door with a network. With the errors ErrAlreadyUsed and
// ErrNotValid it returns an outcome too; with other errors the outcome is nil.
func (s *Service) CheckIn(ctx context.Context, door Batch, code string) (*Outcome, error) {
	door.Epoch, door.Reads = 0, []ReadCode{s.verifyCode(uuid.Must(uuid.NewV7()), code, time.Time{})}
	list, err := s.store.Record(ctx, door)
	if err != nil {
		return nil, err
	}
	return &list[0], list[0].refusal()
}

// refusal returns the error that says why the scan admitted nobody; nil if it admitted somebody.
func (o *Outcome) refusal() error {
	if o.Scan.Result == Admitted {
		return nil
	}
	err := ErrNotValid.With("why", string(o.Scan.Result))
	if o.Scan.Result == AlreadyUsed {
		err = ErrAlreadyUsed
	}
	if o.Earlier != nil {
		err = err.With("usedAt", o.Earlier.At.UTC().Format(time.RFC3339)).With("deviceId", o.Earlier.Device)
	}
	switch {
	case o.Ticket == nil:
	case o.Ticket.Seat != nil:
		err = err.With("seatId", o.Ticket.Seat.ID)
	default:
		err = err.With("section", o.Ticket.Section)
	}
	return err
}

// Scanned is a code that a door without a network has read.
type Scanned struct {
	ScanID uuid.UUID
	Code   string
	At     time.Time
}

// Upload records codes that a door has read without a network, in the order in which it read them.
func (s *Service) Upload(ctx context.Context, door Batch, scans []Scanned) ([]Outcome, error) {
	for _, scan := range scans {
		door.Reads = append(door.Reads, s.verifyCode(scan.ScanID, scan.Code, scan.At))
	}
	return s.store.Record(ctx, door)
}

func (s *Service) verifyCode(id uuid.UUID, text string, at time.Time) ReadCode {
	r := ReadCode{ScanID: id, At: at}
	if code, err := s.codes.Verify(text); err == nil {
		r.Code = &code
	}
	return r
}

// Undo makes the ticket of a scan valid again.
func (s *Service) Undo(ctx context.Context, eventID string, scan uuid.UUID) (*Outcome, error) {
	return s.store.Undo(ctx, eventID, scan)
}

// Counts returns how many tickets are sold and used, and how many scans conflict; at most 1 s old.
func (s *Service) Counts(ctx context.Context, eventID string) (Counts, error) {
	return s.counts(ctx, eventID)
}

// Conflicts returns a page of an event's conflicts, the latest first, and the value of before for
// the next page (0: this is the last page).
func (s *Service) Conflicts(ctx context.Context, eventID string, limit int, before int64) ([]Scan, int64, error) {
	list, err := s.store.ListConflicts(ctx, eventID, limit+1, before)
	if err != nil || len(list) <= limit {
		return list, 0, err
	}
	return list[:limit], list[limit-1].N, nil
}

// defaultPageSize is the number of tickets on a page of a list, unless a request sets another.
const defaultPageSize = 1000

// SignedPage is a signed page of a door's list. Next is the position of the next page, nil if none.
type SignedPage struct {
	Signed string
	Count  int
	// Transferring is the number of the event's tickets that no page has, since a transfer of each is
	// under way. A completed one makes a ticket whose id is later than the list's time.
	Transferring int64
	Position
	Next *Position
}

// List returns a signed page of the valid tickets of an event; from is nil for the first page.
func (s *Service) List(ctx context.Context, eventID string, from *Position, limit int) (*SignedPage, error) {
	e, err := s.store.Event(ctx, eventID)
	if err != nil {
		return nil, err
	}
	start, err := e.startOfPage(from)
	if err != nil {
		return nil, err
	}
	limit = cmp.Or(limit, defaultPageSize)
	// The event is read before the tickets. So a ticket missing on the list is newer than start.Time.
	list, end, err := s.store.ListTickets(ctx, eventID, start, limit)
	if err != nil {
		return nil, err
	}
	p := &SignedPage{Count: len(list), Transferring: e.Transferring, Position: start}
	if len(list) == limit {
		end.Page++
		p.Next = &end
	}
	p.Signed = s.codes.SignDoorList(&ticket.DoorList{
		EventID: eventID, Epoch: start.Epoch, Time: start.Time, Page: start.Page, Last: p.Next == nil, Tickets: list,
	})
	return p, nil
}
