package room

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/tier1"
)

// Reader reads counters.
type Reader interface {
	// Read is a consistent read of one event; found is false when the event never had a waiting room.
	Read(ctx context.Context, eventID string) (c Counters, found bool, err error)
	// ReadMany is Read of many events; those that never had a waiting room are left out.
	ReadMany(ctx context.Context, eventIDs []string) ([]Counters, error)
}

// Positions gives positions out and finds them again.
type Positions interface {
	// Take returns the visitor's record under the first of ids that has one, else gives out the next position under ids[0]. It fails with
	// ErrStale when the round is not the active one any more.
	Take(ctx context.Context, eventID string, round Round, visitor string, ids []uuid.UUID) (Record, error)
	// Find is a consistent read of a record.
	Find(ctx context.Context, eventID string, id uuid.UUID) (r Record, found bool, err error)
}

// Passes makes and opens what visitors carry.
type Passes interface {
	// RequestIDs are the ids under which a visitor's position of a round may be stored: first the one of the signing key, then those of
	// older keys.
	RequestIDs(eventID string, round Round, visitor string) []uuid.UUID
	// Seal signs the ticket of a record.
	Seal(r Record) string
	// Open verifies a ticket of this event and visitor; ok is false for anything that is not genuine.
	Open(eventID, visitor, ticket string) (r Record, ok bool)
	// Token signs the tier-1 token of a record and says when it ends.
	Token(r Record, now time.Time) (token string, expires time.Time, err error)
}

// Claims counts the served positions whose visitors came.
type Claims interface {
	// Claim notes that the visitor of r fetched a token. It returns at once; a position counts once, however often it is claimed.
	Claim(r Record)
}

// Assigned is the answer to a visitor who asked for a position.
type Assigned struct {
	Record

	Serving       int64
	EstimatedWait int64 // s
	NextPoll      int64 // s
	Ticket        string
}

// Checked is the answer to a visitor who asked whether it is their turn.
type Checked struct {
	Admitted      bool
	Position      int64
	Serving       int64
	Ahead         int64
	EstimatedWait int64 // s
	NextPoll      int64 // s
	Token         string
	TokenEnds     time.Time
	Ticket        string // set when the visitor sent none
}

// Service answers visitors. It is safe for concurrent use.
type Service struct {
	board     *Board
	counters  Reader
	positions Positions
	passes    Passes
	claims    Claims
	now       func() time.Time
	spread    func() float64 // random in [0, 1)
}

// NewService wires the visitors' side.
func NewService(b *Board, r Reader, p Positions, s Passes, c Claims, now func() time.Time, spread func() float64) *Service {
	return &Service{board: b, counters: r, positions: p, passes: s, claims: c, now: now, spread: spread}
}

// maxRounds is how often a call starts over when the event's round changes under it.
const maxRounds = 3

// Assign gives the visitor a position of the event's round, the same again at every repetition and replica. It fails with ErrInactive,
// ErrVisitorRequired, or ErrUnavailable when the position could not be made durable.
func (s *Service) Assign(ctx context.Context, eventID, visitor string) (Assigned, error) {
	if visitor == "" {
		return Assigned{}, ErrVisitorRequired
	}
	st, err := s.current(ctx, eventID)
	for range maxRounds {
		if err != nil {
			return Assigned{}, err
		}
		if !st.Active {
			return Assigned{}, ErrInactive
		}
		rec, terr := s.positions.Take(ctx, eventID, st.Round, visitor, s.passes.RequestIDs(eventID, st.Round, visitor))
		if terr == nil {
			s.board.Gave(rec)
			ahead := rec.Position - st.Serving
			return Assigned{
				Record: rec, Serving: st.Serving, Ticket: s.passes.Seal(rec),
				EstimatedWait: tier1.EstimatedWait(ahead, st.Rate, st.Settings.Rate()), NextPoll: tier1.NextPoll(ahead, s.spread()),
			}, nil
		}
		if !errors.Is(terr, ErrStale) {
			return Assigned{}, terr
		}
		st, err = s.refresh(ctx, eventID)
	}
	return Assigned{}, ErrUnavailable
}

// Check tells whether it is the visitor's turn, and if so signs a token. Without a ticket the record is read. It fails with ErrUnknown
// for a ticket that is not genuine, a position of another round or visitor, or no position at all.
func (s *Service) Check(ctx context.Context, eventID, visitor string, id uuid.UUID, ticket string) (Checked, error) {
	if visitor == "" {
		return Checked{}, ErrVisitorRequired
	}
	rec, err := s.record(ctx, eventID, visitor, id, ticket)
	if err != nil {
		return Checked{}, err
	}
	st, err := s.standing(ctx, rec)
	if err != nil {
		return Checked{}, err
	}
	out := Checked{Position: rec.Position, Serving: st.Serving}
	if ticket == "" {
		out.Ticket = s.passes.Seal(rec)
	}
	if st.Active && rec.Position > st.Serving {
		out.Ahead = rec.Position - st.Serving
		out.EstimatedWait = tier1.EstimatedWait(out.Ahead, st.Rate, st.Settings.Rate())
		out.NextPoll = tier1.NextPoll(out.Ahead, s.spread())
		return out, nil
	}
	out.Admitted = true
	if out.Token, out.TokenEnds, err = s.passes.Token(rec, s.now()); err != nil {
		return Checked{}, err
	}
	if st.Active { // what a closed room lets through says nothing about the rate
		s.claims.Claim(rec)
	}
	return out, nil
}

func (s *Service) record(ctx context.Context, eventID, visitor string, id uuid.UUID, ticket string) (Record, error) {
	if ticket != "" {
		rec, ok := s.passes.Open(eventID, visitor, ticket)
		if !ok || rec.RequestID != id {
			return Record{}, ErrUnknown
		}
		return rec, nil
	}
	own, err := s.own(ctx, eventID, visitor, id)
	if err != nil {
		return Record{}, err
	}
	if !own {
		return Record{}, ErrUnknown
	}
	rec, found, err := s.positions.Find(ctx, eventID, id)
	if err != nil {
		return Record{}, err
	}
	if !found || rec.Visitor != visitor {
		return Record{}, ErrUnknown
	}
	return rec, nil
}

// own reports whether an id is one that the visitor's position of the round would have, so that
// made-up ids cost no read of the record. A round that another replica began within the last second
// is not known here: its visitors assign again, and get the same position.
func (s *Service) own(ctx context.Context, eventID, visitor string, id uuid.UUID) (bool, error) {
	st, ok := s.board.Get(eventID)
	if !ok {
		var err error
		if st, err = s.refresh(ctx, eventID); err != nil {
			return false, err
		}
	}
	return slices.Contains(s.passes.RequestIDs(eventID, st.Round, visitor), id), nil
}

// standing is the event's state as far as this record needs it: memory when it says that the position is served, since the counter
// never goes back; else a read, since another replica, whose counter the visitor has seen, may be ahead of this one's memory.
func (s *Service) standing(ctx context.Context, rec Record) (State, error) {
	st, ok := s.board.Get(rec.EventID)
	if !ok || !st.Active || st.Round != rec.Round || rec.Position > st.Serving {
		var err error
		if st, err = s.refresh(ctx, rec.EventID); err != nil {
			return State{}, err
		}
	}
	if st.Round != rec.Round {
		return State{}, ErrUnknown
	}
	return st, nil
}

// current is the event's state from memory while it is active, else read: another replica may just have activated it.
func (s *Service) current(ctx context.Context, eventID string) (State, error) {
	if st, ok := s.board.Get(eventID); ok && st.Active {
		return st, nil
	}
	return s.refresh(ctx, eventID)
}

func (s *Service) refresh(ctx context.Context, eventID string) (State, error) {
	c, found, err := s.counters.Read(ctx, eventID)
	if err != nil {
		return State{}, err
	}
	if !found {
		return State{Counters: Counters{EventID: eventID}}, nil
	}
	return s.board.Apply(c), nil
}

// Counters reads the state of the named events from the store; those that never had a waiting room are left out.
func (s *Service) Counters(ctx context.Context, eventIDs []string) ([]State, error) {
	counters, err := s.counters.ReadMany(ctx, eventIDs)
	if err != nil {
		return nil, err
	}
	states := make([]State, len(counters))
	for i, c := range counters {
		states[i] = s.board.Apply(c)
	}
	return states, nil
}
