package request

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/promotion"
)

// DrawStore reads the data of draws, which the worker service has written.
type DrawStore interface {
	Draw(ctx context.Context, eventID string) (promotion.Draw, error)
	// Entries reads chunk n of the entries with this root. If there is no such chunk, it returns none.
	Entries(ctx context.Context, eventID string, root fairdraw.Hash, n int) (fairdraw.Entries, error)
	// Ranks reads the ranks of the entries in chunk n.
	Ranks(ctx context.Context, d *promotion.Draw, n int) (promotion.Ranks, error)
	// ExcludedRequests returns the requests that take no part in the draw, sorted by their ids.
	ExcludedRequests(ctx context.Context, eventID string) ([]fairdraw.Exclusion, error)
	// Winners returns all winners in the order of their ranks.
	Winners(ctx context.Context, d *promotion.Draw) ([]uuid.UUID, error)
}

// Draws reads the public data of draws. It shows nothing of a result before the announcement: until
// this replica's clock has passed announcedAt and the worker service has published the seed.
type Draws struct {
	promotions Promotions
	store      DrawStore
	now        func() time.Time

	states  *cacheOf[drawState]
	indexes *SizedCache[string, *drawIndex] // apart from parts, as making one reads all chunks
	parts   *SizedCache[partKey, drawPart]
	loads   chan struct{} // limits how many parts are read at once
}

// drawState is what was last read of a lottery and its draw.
type drawState struct {
	promotion promotion.Promotion
	draw      promotion.Draw
	document  fairdraw.Document // without winners and exclusions
}

// DrawResult is the result of an announced draw.
type DrawResult struct {
	// Winners are the ids of the requests that won, in the order of their ranks.
	Winners []uuid.UUID

	sorted []uuid.UUID
}

func newResult(winners []uuid.UUID) *DrawResult {
	sorted := slices.SortedFunc(slices.Values(winners), compareIDs)
	return &DrawResult{Winners: winners, sorted: sorted}
}

func compareIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }

// Won reports whether a request is a winner.
func (r *DrawResult) Won(requestID string) bool {
	id, err := uuid.Parse(requestID)
	if err != nil {
		return false
	}
	_, won := slices.BinarySearchFunc(r.sorted, id, compareIDs)
	return won
}

// NewDraws returns Draws that use a store, and cache at most maxBytes of what they read.
func NewDraws(promotions Promotions, store DrawStore, maxBytes int64, now func() time.Time) *Draws {
	s := &Draws{promotions: promotions, store: store, now: now, loads: make(chan struct{}, parallelLoads)}
	s.states = newCache(now, freshFor, s.loadState)
	s.indexes = NewSizedCache(maxBytes/4, s.loadIndex, func(x *drawIndex) int64 { return x.Size() })
	s.parts = NewSizedCache(maxBytes/4*3, s.loadPart, func(p drawPart) int64 { return p.bytes })
	return s
}

func (s *Draws) loadState(ctx context.Context, eventID string) (drawState, error) {
	p, err := s.promotions.Get(ctx, eventID)
	if errors.Is(err, errs.ErrPromotionNotFound) || err == nil && p.EventType != promotion.Lottery {
		return drawState{}, errs.ErrDrawNotFound
	}
	if err != nil {
		return drawState{}, err
	}
	d, err := s.store.Draw(ctx, eventID)
	if err != nil {
		return drawState{}, err
	}
	document, err := d.Document(&p)
	return drawState{promotion: p, draw: d, document: document}, err
}

func (s *Draws) announced(st *drawState) bool {
	return st.draw.Announced() && s.now().UnixMilli() >= st.promotion.AnnouncedAt
}

// Document returns the public document of a draw, at most a second old. Once the draw's lists are
// deleted, it fails with errs.ErrDrawExpired: without them an honest draw would look forged.
func (s *Draws) Document(ctx context.Context, eventID string) (fairdraw.Document, error) {
	st, err := s.states.Get(ctx, eventID)
	if err != nil {
		return fairdraw.Document{}, err
	}
	out := st.document
	if st.draw.Public() && st.promotion.RequestsExpired(s.now().UnixMilli()) {
		return out, errs.ErrDrawExpired
	}
	if st.draw.Public() {
		if out.Excluded, err = getPart[[]fairdraw.Exclusion](ctx, s, partKey{exclusions, eventID, 0}); err != nil {
			return out, err
		}
	}
	if s.announced(&st) {
		result, err := s.Result(ctx, eventID)
		if err != nil || result == nil {
			return out, err
		}
		for _, id := range result.Winners {
			out.Winners = append(out.Winners, id.String())
		}
		return out, nil
	}
	out.Seed = ""
	if out.Phase == fairdraw.PhaseDrawn || out.Phase == fairdraw.PhaseSettled {
		out.Phase = fairdraw.PhaseRoot
	}
	return out, nil
}

// Entries returns the entries of a draw, once the Merkle root of the entries is public.
func (s *Draws) Entries(ctx context.Context, eventID string) (*DrawEntries, error) {
	st, err := s.states.Get(ctx, eventID)
	if err != nil {
		return nil, err
	}
	if !st.draw.Public() {
		return nil, errs.ErrEntriesNotPublic
	}
	if st.promotion.RequestsExpired(s.now().UnixMilli()) {
		return nil, errs.ErrDrawExpired
	}
	index, err := s.indexes.Get(ctx, eventID)
	if err != nil {
		return nil, err
	}
	return &DrawEntries{Total: int64(index.Len()) * idSize, ETag: index.root.String(), draws: s, eventID: eventID, index: index}, nil
}

// Proof proves that a request is among the signed entries. rank is 0 before the announcement.
func (s *Draws) Proof(ctx context.Context, eventID, requestID string) (proof fairdraw.Proof, rank int, err error) {
	entries, err := s.Entries(ctx, eventID)
	if err != nil {
		return proof, 0, err
	}
	id, err := uuid.Parse(requestID)
	if err != nil {
		return proof, 0, ErrNotFound
	}
	proof, found, err := entries.index.Prove(id, func(n int) (fairdraw.Entries, error) { return entries.chunk(ctx, n) })
	if err != nil {
		return proof, 0, err
	}
	if !found {
		return proof, 0, ErrNotFound
	}
	st, err := s.states.Get(ctx, eventID)
	if err != nil || !s.announced(&st) {
		return proof, 0, err
	}
	ranks, err := getPart[promotion.Ranks](ctx, s, partKey{ranks, eventID, proof.Index / fairdraw.ChunkSize})
	if err != nil {
		return proof, 0, err
	}
	if rank = ranks.Of(proof.Index % fairdraw.ChunkSize); rank == 0 {
		return proof, 0, fmt.Errorf("draw of %s: the rank of %s is not stored", eventID, requestID)
	}
	return proof, rank, nil
}

// Result returns the result of a draw; nil before the announcement, and after its items expire.
func (s *Draws) Result(ctx context.Context, eventID string) (*DrawResult, error) {
	st, err := s.states.Get(ctx, eventID)
	if err != nil || !s.announced(&st) || st.promotion.RequestsExpired(s.now().UnixMilli()) {
		return nil, err
	}
	return getPart[*DrawResult](ctx, s, partKey{results, eventID, 0})
}
