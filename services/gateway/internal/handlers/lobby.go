package handlers

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/maypok86/otter/v2"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/waits"
	"urr.guru/services/gateway/internal/absence"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/roomstate"

	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

// JoinLobby adds the user to the lobby of the event. A repeated call returns the same entry, even
// after the lobby has closed.
func (h *RoomHandlers) JoinLobby(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	event := q.Param("event_id")
	if h.join == nil {
		return errs.ErrVWRInactive
	}
	if s := h.state.Get(event); h.state.Connected() {
		switch {
		case !s.Active:
			return errs.ErrVWRInactive
		case s.Lobby.StartsAt == 0:
			return errs.ErrLobbyClosed
		}
	}
	if err := h.ids.Issue(r.Context(), w, q); err != nil {
		return err
	}
	j, err := h.join.Do(r.Context(), event, &vwrv1.JoinItem{Caller: q.Caller(), EventId: event})
	if err != nil {
		return err
	}
	return WriteMessage(w, http.StatusOK, j)
}

// lobbyOpenError is the answer to who asks for a position before positions are given out. It says when
// the visitor should ask, and after how many seconds before that, in case an operator opens the room.
func lobbyOpenError(s *roomstate.State, turn, now time.Time) error {
	asksAt, poll := waits.LobbyPoll(s.Opening, turn, now, rand.Float64())
	err := errs.ErrLobbyOpen.With("lobbyOpensAt", strconv.FormatInt(s.Lobby.OpensAt, 10)).
		With("closesAt", strconv.FormatInt(s.Lobby.ClosesAt, 10)).With("opensAt", strconv.FormatInt(s.Lobby.StartsAt, 10)).
		With("asksAt", strconv.FormatInt(asksAt.UnixMilli(), 10)).WithRetry(time.Duration(poll) * time.Second)
	if s.Sale != "" {
		err = err.With("saleStatus", s.Sale) // in a presale some users need no position
	}
	return err
}

// appendLobbyPoll appends the JSON that a check responds with while the visitor's lobby is not
// shuffled, or before the turn of the entry to ask. The vwr service would respond with the same; a test
// compares the two.
func appendLobbyPoll(b []byte, s *roomstate.State, entry uuid.UUID, now time.Time) []byte {
	asksAt, poll := waits.LobbyPoll(s.Opening, s.Opening.TurnOf(entry.String(), time.Time{}), now, rand.Float64())
	b = append(b, `{"admitted":false,"position":0,"servingCounter":`...)
	b = strconv.AppendInt(b, s.Serving, 10)
	b = append(b, `,"ahead":0,"nextPoll":`...)
	b = strconv.AppendInt(b, poll, 10)
	b = append(b, s.SaleJSON...)
	b = append(b, `,"phase":"LOBBY","opensAt":`...)
	b = strconv.AppendInt(b, s.Lobby.StartsAt, 10)
	b = append(b, `,"asksAt":`...)
	b = strconv.AppendInt(b, asksAt.UnixMilli(), 10)
	return append(b, '}')
}

// maxShuffles is the maximum number of cached documents about shuffles.
const maxShuffles = 1024

// shuffleKey identifies a shuffle; round 0 means the event's latest one.
type shuffleKey struct {
	event string
	round int64
}

// shuffleKeyOf returns the key of the shuffle in the path. It fails with errs.ErrLobbyNotFound for
// a malformed round.
func shuffleKeyOf(q *edge.Request) (shuffleKey, error) {
	k := shuffleKey{event: q.Param("event_id")}
	text := q.Param("round")
	if text == "" {
		return k, nil
	}
	round, err := strconv.ParseInt(text, 10, 64)
	if err != nil || round <= 0 {
		return k, errs.ErrLobbyNotFound
	}
	k.round = round
	return k, nil
}

// roundParam returns the round for a request to the vwr service; nil means the latest round.
func (k shuffleKey) roundParam() *int64 {
	if k.round == 0 {
		return nil
	}
	return &k.round
}

// ShuffleHandlers serves public documents about the shuffles of lobbies, entries and proofs.
type ShuffleHandlers struct {
	vwr    vwrv1.VwrServiceClient
	cached responseCache[shuffleKey]
	closed absence.Cache[shuffleKey] // lobbies without public entries
	reads  *batch.Coalescer[sharedRead[shuffleKey], cachedResponse]
}

// NewShuffleHandlers makes the handlers of shuffles.
func NewShuffleHandlers(vwr vwrv1.VwrServiceClient) (*ShuffleHandlers, error) {
	cached, err := newResponseCache(&otter.Options[shuffleKey, cachedResponse]{
		MaximumSize: maxShuffles, ExpiryCalculator: otter.ExpiryWriting[shuffleKey, cachedResponse](drawTTL),
	})
	if err != nil {
		return nil, err
	}
	closed, err := absence.New[shuffleKey](nil)
	if err != nil {
		return nil, err
	}
	h := &ShuffleHandlers{vwr: vwr, cached: cached, closed: closed}
	h.reads = newSharedRead(h.readDocument)
	return h, nil
}

// Document responds with the public state of a shuffle, or with 304 if the client has this version.
func (h *ShuffleHandlers) Document(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	k, err := shuffleKeyOf(q)
	if err != nil {
		return err
	}
	return h.cached.serve(w, q, k, h.reader(r.Context()))
}

func (h *ShuffleHandlers) reader(ctx context.Context) func(sharedRead[shuffleKey]) (cachedResponse, error) {
	return func(read sharedRead[shuffleKey]) (cachedResponse, error) { return h.reads.Do(ctx, read) }
}

func (h *ShuffleHandlers) readDocument(ctx context.Context, k shuffleKey) (cachedResponse, error) {
	m, err := h.vwr.GetShuffle(ctx, &vwrv1.GetShuffleRequest{EventId: k.event, Round: k.roundParam()})
	if err != nil {
		return cachedResponse{}, err
	}
	return h.cached.store(k, m.GetDocument()), nil
}

// Proof responds with the proof that an entry is in a lobby's list.
func (h *ShuffleHandlers) Proof(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	k, err := shuffleKeyOf(q)
	if err != nil {
		return err
	}
	// An unknown lobby is asked for once a second, whatever entries are made up.
	if _, err := h.cached.get(q, k, h.reader(r.Context())); err != nil {
		return err
	}
	p, err := h.vwr.GetShuffleProof(r.Context(), &vwrv1.GetShuffleProofRequest{EventId: k.event, RequestId: q.Param("request_id"), Round: k.roundParam()})
	if err != nil {
		return err
	}
	return WriteMessage(w, http.StatusOK, p)
}

// Entries responds with the file of a lobby's entries or a range of it. Caches keep it for only a
// second, since another lobby may become the event's latest one.
func (h *ShuffleHandlers) Entries(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	k, err := shuffleKeyOf(q)
	if err != nil {
		return err
	}
	if err := h.closed.Check(k); err != nil {
		return err
	}
	ctx := r.Context()
	f := &shuffleFile{read: func(offset, size int64) (*vwrv1.GetShuffleEntriesResponse, error) {
		return h.vwr.GetShuffleEntries(ctx, &vwrv1.GetShuffleEntriesRequest{EventId: k.event, Offset: offset, Size: &size, Round: k.roundParam()})
	}}
	// HEAD, 304 and a range that is not satisfiable need only the size and the root of the file.
	if err := f.fetchPart(0, 1); err != nil {
		return h.closed.Note(k, err)
	}
	f.root = f.part.GetRoot()
	return serveFile(w, r, f.root, sharedCacheControl, io.NewSectionReader(f, 0, f.part.GetTotal()))
}

const (
	// maxPart is the size of a part of the file. The vwr service sends no larger ones.
	maxPart = 1 << 20
	// copyBuffer is how many bytes http.ServeContent reads at once, except at the end.
	copyBuffer = 32 << 10
)

// shuffleFile reads the file of the entries from the vwr service by parts. It keeps the last part.
type shuffleFile struct {
	read   func(offset, size int64) (*vwrv1.GetShuffleEntriesResponse, error)
	root   string
	offset int64
	part   *vwrv1.GetShuffleEntriesResponse
}

// errEntriesChanged means that another lobby has opened since the first part was read.
var errEntriesChanged = errors.New("the file of the entries is another one than at its beginning")

func (f *shuffleFile) fetchPart(offset, size int64) error {
	part, err := f.read(offset, size)
	if err != nil {
		return err
	}
	if f.root != "" && part.GetRoot() != f.root {
		return errEntriesChanged
	}
	f.offset, f.part = offset, part
	return nil
}

func (f *shuffleFile) ReadAt(p []byte, offset int64) (n int, err error) {
	for n < len(p) {
		at := offset + int64(n)
		if at >= f.part.GetTotal() {
			return n, io.EOF
		}
		entries := f.part.GetEntries()
		if at < f.offset || at >= f.offset+int64(len(entries)) {
			size := int64(len(p) - n)
			if len(p) >= copyBuffer { // more will be read
				size = maxPart
			}
			if err := f.fetchPart(at, size); err != nil {
				return n, err
			}
			if entries = f.part.GetEntries(); len(entries) == 0 {
				return n, io.ErrUnexpectedEOF
			}
		}
		n += copy(p[n:], entries[at-f.offset:])
	}
	return n, nil
}

func (h *ShuffleHandlers) Close(ctx context.Context) error { return h.reads.Close(ctx) }
