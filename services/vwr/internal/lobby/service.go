package lobby

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/readcache"
	"urr.guru/services/vwr/internal/room"
)

// TicketSigner signs tickets.
type TicketSigner interface {
	SealTicket(r room.Record) string
}

// JoinResult is the answer to a user who has joined.
type JoinResult struct {
	Entry

	ClosesAt, StartsAt int64  // ms since the epoch
	Ticket             string // a tier-1 ticket without a position
	Receipt            string
}

// Service accepts users' entries, answers users, and publishes shuffles. Concurrent use is safe.
type Service struct {
	cache    *room.StateCache
	rooms    CounterReader
	entries  EntryStore
	shuffles ShuffleReader
	passes   TicketSigner
	schedule Schedule
	beacons  Beacons
	keys     atomic.Pointer[Keys]
	terms    *termsCache
	memory   *lobbyMemory
	public   *publications
	lists    *readcache.Cache[Key, []Shuffle] // by the round before which the lobbies begin
	now      func() time.Time
}

var _ room.Lobbies = (*Service)(nil)

// NewService returns a Service.
func NewService(
	sc *room.StateCache, rooms CounterReader, s Store, p TicketSigner, k Keys, schedule Schedule, b Beacons, now func() time.Time,
) *Service {
	sv := &Service{
		cache: sc, rooms: rooms, entries: s.Entries, shuffles: s.Shuffles, passes: p, schedule: schedule, beacons: b,
		terms: newTermsCache(s.Shuffles), memory: newLobbyMemory(), now: now,
		lists: readcache.New(now, listFor, maxLists, func(ctx context.Context, k Key) ([]Shuffle, error) {
			return s.Shuffles.Shuffles(ctx, k.EventID, k.Round, maxRounds)
		}),
	}
	sv.public = newPublications(sv)
	sv.keys.Store(&k)
	return sv
}

func (s *Service) Rekey(k Keys) { s.keys.Store(&k) }

// Join adds a user to the lobby of the event's round. A repeated call returns the same entry at
// every replica, even after the lobby has closed. Join fails with room.ErrInactive,
// room.ErrLobbyClosed, or room.ErrUnavailable if the entry could not be stored.
func (s *Service) Join(ctx context.Context, eventID, user string) (JoinResult, error) {
	c, err := s.activeCounters(ctx, eventID)
	if err != nil {
		return JoinResult{}, err
	}
	if !c.Lobby.Exists() {
		return JoinResult{}, c.Lobby.ClosedError()
	}
	k := Key{eventID, c.Round}
	t, err := s.terms.get(ctx, k)
	if err != nil {
		return JoinResult{}, unavailableError(err)
	}
	keys := s.keys.Load()
	if err := keys.checkTerms(t); err != nil {
		return JoinResult{}, room.ErrUnavailable.Wrap(err)
	}
	id, _ := keys.requestID(&t.commitment, k.Round, user) // the set of keys has the one that is needed
	now := s.now()                                        // decides whether the entry is accepted
	e := Entry{Key: k, RequestID: id, User: user, JoinedAt: now.UnixMilli(), StartsAt: c.Lobby.StartsAt}
	void := s.memory.get(k).void
	e, err = s.entries.Join(ctx, e, c.Lobby.TakesEntries(now) && !void)
	if errors.Is(err, room.ErrLobbyClosed) {
		if void {
			return JoinResult{}, errVoid
		}
		return JoinResult{}, c.Lobby.ClosedError()
	}
	if err != nil {
		return JoinResult{}, err
	}
	return JoinResult{
		Entry: e, ClosesAt: c.Lobby.ClosesAt, StartsAt: c.Lobby.StartsAt,
		Ticket: s.passes.SealTicket(e.record()), Receipt: keys.signReceipt(t, e),
	}, nil
}

// record converts the entry to a visitor's record that has no position.
func (e Entry) record() room.Record {
	return room.Record{EventID: e.EventID, Round: e.Round, RequestID: e.RequestID, Visitor: room.UserVisitor(e.User)}
}

func (k Keys) signReceipt(t *terms, e Entry) string {
	kid, _ := k.receipts.KidOf(t.commitment.ReceiptKey[:])
	r := fairdraw.Receipt{EventID: e.EventID, RequestID: e.RequestID, At: e.JoinedAt, Commitment: t.hash}
	return r.Sign(k.receipts, kid)
}

// activeCounters returns the cached counters of an active event. If the event is not active in the
// cache, it reads the counters, since another replica may have just activated the event.
func (s *Service) activeCounters(ctx context.Context, eventID string) (room.Counters, error) {
	if st, ok := s.cache.Get(eventID); ok && st.Active {
		return st.Counters, nil
	}
	c, found, err := s.rooms.Read(ctx, eventID)
	if err != nil {
		return room.Counters{}, err
	}
	if !found {
		return room.Counters{}, room.ErrInactive
	}
	if st := s.cache.Merge(c); st.Active {
		return st.Counters, nil
	}
	return room.Counters{}, room.ErrInactive
}

func (s *Service) EntryID(ctx context.Context, c room.Counters, user string) (id uuid.UUID, ok bool, err error) {
	t, err := s.terms.get(ctx, Key{c.EventID, c.Round})
	if errors.Is(err, errNoShuffle) {
		return uuid.UUID{}, false, nil
	}
	if err != nil {
		return uuid.UUID{}, false, unavailableError(err)
	}
	// Without the key the id cannot be computed. A caller with a ticket does not need it.
	id, ok = s.keys.Load().requestID(&t.commitment, c.Round, user)
	return id, ok, nil
}

func (s *Service) FindEntry(ctx context.Context, c room.Counters, user string) (room.Record, bool, error) {
	k := Key{c.EventID, c.Round}
	id, ok, err := s.EntryID(ctx, c, user)
	if err != nil || !ok {
		return room.Record{}, false, err
	}
	e := Entry{Key: k, RequestID: id, User: user}
	if !c.Lobby.Shuffled {
		_, found, err := s.entries.Entry(ctx, k, id)
		return e.record(), found, err
	}
	r := s.memory.get(k).ranks
	if r == nil {
		return room.Record{}, false, room.ErrUnavailable.WithRetry(time.Second)
	}
	rec := e.record()
	position, found := r.positionOf(id)
	rec.Position = position
	return rec, found, nil
}

func (s *Service) PositionOf(eventID string, round room.Round, id uuid.UUID) (int64, bool) {
	st, ok := s.cache.Get(eventID)
	if !ok || st.Round != round || st.Lobby.Pending() {
		return 0, false
	}
	r := s.memory.get(Key{eventID, round}).ranks
	if r == nil {
		return 0, false
	}
	return r.positionOf(id)
}

// finalEntries returns the entries of a closed lobby, from memory or else from the store. Entries
// from the store must agree with the statement st (nil: no statement is stored yet).
func (s *Service) finalEntries(ctx context.Context, k Key, st *fairdraw.Statement) (fairdraw.Entries, error) {
	if r := s.memory.get(k); r.listed {
		return r.entries, nil
	}
	entries, err := s.entries.List(ctx, k)
	if err == nil && st != nil {
		err = verifyEntries(k, entries, st)
	}
	return entries, err
}

// loadEntries does what finalEntries does, and also keeps the entries in memory.
func (s *Service) loadEntries(ctx context.Context, k Key, st *fairdraw.Statement) (fairdraw.Entries, error) {
	entries, err := s.finalEntries(ctx, k, st)
	if err != nil {
		return nil, err
	}
	s.memory.update(k, func(r *cachedLobby) { r.entries, r.listed = entries, true })
	return entries, nil
}

// errVoid is returned to a user who joins a void lobby, in which nobody gets a position.
var errVoid = room.ErrLobbyClosed.With("phase", string(fairdraw.PhaseVoid))

func unavailableError(err error) error {
	if errors.Is(err, room.ErrUnavailable) || errors.Is(err, context.Canceled) {
		return err
	}
	return room.ErrUnavailable.WithRetry(time.Second).Wrap(err)
}
