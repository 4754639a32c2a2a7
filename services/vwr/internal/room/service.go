package room

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/waits"
)

// CounterReader reads the counters of rooms.
type CounterReader interface {
	// Read reads one event consistently; found is false if the event never had a waiting room.
	Read(ctx context.Context, eventID string) (c Counters, found bool, err error)
	// ReadMany reads many events consistently, without those that never had a waiting room.
	ReadMany(ctx context.Context, eventIDs []string) ([]Counters, error)
}

// PositionStore issues and finds positions.
type PositionStore interface {
	// TakePositions returns each visitor's record of the round, or issues the next position, in their
	// order. It fails with ErrStale if the round is no longer active.
	TakePositions(ctx context.Context, c Counters, takers []Taker) []Outcome[Record]
	// FindRecord reads a record of the round consistently.
	FindRecord(ctx context.Context, c Counters, id uuid.UUID) (r Record, found bool, err error)
}

// Outcome is the result for one caller of many: a value or an error.
type Outcome[T any] struct {
	Value T
	Err   error
}

// Taker is a visitor who asks for a position. The visitor's record may be stored under any of IDs;
// a new record is stored under IDs[0].
type Taker struct {
	Visitor string
	IDs     []uuid.UUID
}

// PassSigner derives request ids and signs and verifies tickets and tokens.
type PassSigner interface {
	// RequestIDs returns the ids under which a visitor's position of a round may be stored: first the
	// id by the signing key, then the ids by older keys.
	RequestIDs(eventID string, round Round, visitor string) []uuid.UUID
	// SealTicket signs the ticket of a record.
	SealTicket(r Record) string
	// OpenTicket verifies a ticket for this event and visitor; ok is false if it is not valid.
	OpenTicket(eventID, visitor, ticket string) (r Record, ok bool)
	// SignToken signs the tier-1 token of a record and returns its expiry.
	SignToken(r Record, now time.Time) (token string, expires time.Time, err error)
}

// ClaimRecorder counts the served positions whose visitors fetched a token.
type ClaimRecorder interface {
	// RecordClaim records that the visitor of r fetched a token. It does not block. A position that is
	// claimed several times counts once.
	RecordClaim(r Record)
}

// AssignResult is a visitor's position, with the state of the room when it was assigned.
type AssignResult struct {
	Record

	Serving       int64
	EstimatedWait int64 // seconds
	NextPoll      int64 // seconds
	Ticket        string
}

// CheckResult says whether a visitor is admitted, and if not, how long the wait may be.
type CheckResult struct {
	Admitted       bool
	Position       int64
	Serving        int64
	Ahead          int64
	EstimatedWait  int64 // seconds
	NextPoll       int64 // seconds
	Token          string
	TokenExpiresAt time.Time
	Ticket         string // set if the request had no ticket, or one without a position
	LobbyUntil     int64  // the start of the room (epoch ms) for users who wait in the lobby; else 0
	AsksAt         int64  // when such a user should ask again for the position, epoch ms
}

// VisitorIDs identifies a caller by the visitor id in the signed cookie and the id of the signed-in
// user ("" if nobody is signed in).
type VisitorIDs struct {
	Visitor, User string
}

// owner returns the visitor id to which the caller's new position belongs: the user's id in a room
// where users must sign in, else the browser's.
func (v VisitorIDs) owner(s Settings) (string, error) {
	switch {
	case !s.SignIn:
		return v.Visitor, nil
	case v.User == "":
		return "", ErrSignedOut
	}
	return UserVisitor(v.User), nil
}

// owners returns the visitor ids whose positions the caller may use: the browser's and the user's.
func (v VisitorIDs) owners() []string {
	if v.User == "" {
		return []string{v.Visitor}
	}
	return []string{v.Visitor, UserVisitor(v.User)}
}

// Service assigns positions to visitors, and admits served ones. It is safe for concurrent use.
type Service struct {
	cache     *StateCache
	counters  CounterReader
	positions PositionStore
	found     foundRecords // of positions
	passes    PassSigner
	claims    ClaimRecorder
	lobbies   Lobbies
	now       func() time.Time
	jitter    func() float64 // random in [0, 1)
}

// NewService returns a Service.
func NewService(
	sc *StateCache, r CounterReader, p PositionStore, s PassSigner, c ClaimRecorder, l Lobbies, now func() time.Time, jitter func() float64,
) *Service {
	return &Service{
		cache: sc, counters: r, positions: p, found: newFoundRecords(p, now), passes: s, claims: c, lobbies: l, now: now, jitter: jitter,
	}
}

// maxRoundChanges is how often a call starts again because the event's round has changed.
const maxRoundChanges = 3

// Assign issues the callers' positions in the event's round, in their order. A repeated call
// returns the same position at every replica. A user with an entry in the round's lobby gets the
// position of the entry. Where users must sign in, the position is the user's. A caller's error is
// ErrInactive, ErrVisitorRequired, ErrSignedOut, ErrLobbyOpen before the start of a room with a
// lobby, or ErrUnavailable if the position could not be stored.
func (s *Service) Assign(ctx context.Context, eventID string, callers []VisitorIDs) []Outcome[AssignResult] {
	out := make([]Outcome[AssignResult], len(callers))
	var pending []int // the indexes of the callers without a result
	for i, caller := range callers {
		if caller.Visitor == "" {
			out[i].Err = ErrVisitorRequired
		} else {
			pending = append(pending, i)
		}
	}
	st, err := s.activeState(ctx, eventID)
	for range maxRoundChanges {
		if len(pending) == 0 {
			return out
		}
		if err == nil && !st.Active {
			err = ErrInactive
		}
		if err != nil {
			return failAll(out, pending, err)
		}
		if st.Lobby.Exists() {
			pending = s.assignEntries(ctx, st, callers, pending, out)
		}
		if pending = s.takePositions(ctx, st, callers, pending, out); len(pending) > 0 {
			st, err = s.readState(ctx, eventID)
		}
	}
	return failAll(out, pending, ErrUnavailable)
}

func failAll(out []Outcome[AssignResult], indexes []int, err error) []Outcome[AssignResult] {
	for _, i := range indexes {
		out[i].Err = err
	}
	return out
}

// assignEntries sets the results of those pending callers who have an entry in the lobby. It
// returns the other callers. It reads the entries in parallel.
func (s *Service) assignEntries(ctx context.Context, st State, callers []VisitorIDs, pending []int, out []Outcome[AssignResult]) (others []int) {
	found := make([]bool, len(callers))
	var work sync.WaitGroup
	for _, i := range pending {
		work.Go(func() {
			defer func() { // a panic in a goroutine would end the process
				if p := recover(); p != nil {
					out[i].Err = errs.FromPanic(p)
				}
			}()
			var rec Record
			if rec, found[i], out[i].Err = s.findLobbyPosition(ctx, st, callers[i].User); found[i] {
				out[i].Value = s.assignResult(rec, st)
			}
		})
	}
	work.Wait()
	return slices.DeleteFunc(pending, func(i int) bool { return found[i] || out[i].Err != nil })
}

// takePositions sets the results of the pending callers. It returns those who must try again
// because the round has ended.
func (s *Service) takePositions(ctx context.Context, st State, callers []VisitorIDs, pending []int, out []Outcome[AssignResult]) (again []int) {
	takers, indexes := make([]Taker, 0, len(pending)), make([]int, 0, len(pending))
	for _, i := range pending {
		owner, err := callers[i].owner(st.Settings)
		if err != nil {
			out[i].Err = err
			continue
		}
		takers, indexes = append(takers, Taker{owner, s.passes.RequestIDs(st.EventID, st.Round, owner)}), append(indexes, i)
	}
	if len(takers) == 0 {
		return nil
	}
	for n, got := range s.positions.TakePositions(ctx, st.Counters, takers) {
		i := indexes[n]
		switch {
		case got.Err == nil:
			s.cache.RecordIssued(got.Value)
			s.found.keep(got.Value)
			out[i] = Outcome[AssignResult]{Value: s.assignResult(got.Value, st)}
		case errors.Is(got.Err, ErrStale):
			again = append(again, i)
		default:
			out[i].Err = got.Err
		}
	}
	return again
}

func (s *Service) assignResult(rec Record, st State) AssignResult {
	ahead := rec.Position - st.Serving
	wait := st.estimatedWait(ahead)
	return AssignResult{
		Record: rec, Serving: st.Serving, Ticket: s.passes.SealTicket(rec), EstimatedWait: wait, NextPoll: waits.NextPoll(ahead, wait, s.jitter()),
	}
}

// Check reports whether the visitor is admitted, and if so signs a token. Without a ticket it finds
// the record, at most once in the store. It fails with ErrUnknown if the ticket is invalid, or there is no such position of
// this visitor in this round. It fails with ErrSignedOut if nobody is signed in and the id may be
// that of a user's entry in a lobby.
func (s *Service) Check(ctx context.Context, eventID string, caller VisitorIDs, id uuid.UUID, ticket string) (CheckResult, error) {
	if caller.Visitor == "" {
		return CheckResult{}, ErrVisitorRequired
	}
	rec, err := s.findRecord(ctx, eventID, caller, id, ticket)
	if err != nil {
		return CheckResult{}, err
	}
	if rec.Position == 0 {
		return s.checkEntry(ctx, rec)
	}
	st, err := s.stateForRecord(ctx, rec)
	if err != nil {
		return CheckResult{}, err
	}
	return s.checkResult(rec, st, ticket == "")
}

// estimatedWait returns the wait, in seconds, of a visitor whose position is `ahead` positions
// above the serving counter; 0 while nobody is served.
func (st State) estimatedWait(ahead int64) int64 {
	if st.Stalled || st.Lobby.Pending() {
		return 0
	}
	return waits.EstimatedWait(ahead, st.Rate, st.Settings.Rate())
}

// checkResult returns the answer to a visitor with a position. It has a ticket if newTicket is set.
func (s *Service) checkResult(rec Record, st State, newTicket bool) (out CheckResult, err error) {
	out = CheckResult{Position: rec.Position, Serving: st.Serving}
	if newTicket {
		out.Ticket = s.passes.SealTicket(rec)
	}
	if st.Active && rec.Position > st.Serving {
		out.Ahead = rec.Position - st.Serving
		out.EstimatedWait = st.estimatedWait(out.Ahead)
		out.NextPoll = waits.NextPoll(out.Ahead, out.EstimatedWait, s.jitter())
		return out, nil
	}
	out.Admitted = true
	if out.Token, out.TokenExpiresAt, err = s.passes.SignToken(rec, s.now()); err != nil {
		return CheckResult{}, err
	}
	if st.Active { // admissions of a closed room do not count towards the claim share
		s.claims.RecordClaim(rec)
	}
	return out, nil
}

func (s *Service) findRecord(ctx context.Context, eventID string, caller VisitorIDs, id uuid.UUID, ticket string) (Record, error) {
	if ticket != "" {
		rec, ok := s.passes.OpenTicket(eventID, caller.Visitor, ticket)
		if !ok && caller.User != "" {
			rec, ok = s.passes.OpenTicket(eventID, UserVisitor(caller.User), ticket)
		}
		if !ok || rec.RequestID != id {
			return Record{}, ErrUnknown
		}
		return rec, nil
	}
	// The cached round is good enough. If another replica began a round within the last second, the
	// cache may lack it, but visitors of that round assign again and get the same position.
	st, ok := s.cache.Get(eventID)
	if !ok {
		var err error
		if st, err = s.readState(ctx, eventID); err != nil {
			return Record{}, err
		}
	}
	for _, owner := range caller.owners() {
		// Made-up ids cost no read of a record.
		if !slices.Contains(s.passes.RequestIDs(eventID, st.Round, owner), id) {
			continue
		}
		rec, found, err := s.found.find(ctx, st.Counters, id)
		if err == nil && (!found || rec.Visitor != owner) {
			err = ErrUnknown
		}
		return rec, err
	}
	return s.findEntry(ctx, st, caller.User, id)
}

// stateForRecord returns the cached state if the record's position is served in it, since the
// counter never decreases. Otherwise it reads the state, since another replica may have shown the
// visitor a later counter than the cached one.
func (s *Service) stateForRecord(ctx context.Context, rec Record) (State, error) {
	st, ok := s.cache.Get(rec.EventID)
	if !ok || !st.Active || st.Round != rec.Round || rec.Position > st.Serving {
		var err error
		if st, err = s.readState(ctx, rec.EventID); err != nil {
			return State{}, err
		}
	}
	if st.Round != rec.Round {
		return State{}, ErrUnknown
	}
	return st, nil
}

// activeState returns the cached state if the event is active in it. Otherwise it reads the state,
// since another replica may have just activated the event.
func (s *Service) activeState(ctx context.Context, eventID string) (State, error) {
	if st, ok := s.cache.Get(eventID); ok && st.Active {
		return st, nil
	}
	return s.readState(ctx, eventID)
}

func (s *Service) readState(ctx context.Context, eventID string) (State, error) {
	c, found, err := s.counters.Read(ctx, eventID)
	if err != nil {
		return State{}, err
	}
	if !found {
		return State{Counters: Counters{EventID: eventID}}, nil
	}
	return s.cache.Merge(c), nil
}

// ReadStates reads the states of events from the store, without those that never had a waiting
// room.
func (s *Service) ReadStates(ctx context.Context, eventIDs []string) ([]State, error) {
	counters, err := s.counters.ReadMany(ctx, eventIDs)
	if err != nil {
		return nil, err
	}
	states := make([]State, len(counters))
	for i, c := range counters {
		states[i] = s.cache.Merge(c)
	}
	return states, nil
}
