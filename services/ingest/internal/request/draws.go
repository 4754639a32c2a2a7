package request

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/promotion"
)

const (
	// Sizes of the caches. An entry takes 16 bytes, its rank 8, a winner or an exclusion about 100.
	maxEntryBytes    = 64 << 20
	maxRankBytes     = 32 << 20
	maxResultBytes   = 64 << 20
	maxExcludedBytes = 64 << 20
)

// DrawStore reads what worker has written of draws.
type DrawStore interface {
	Draw(ctx context.Context, eventID string) (promotion.Draw, error)
	Entries(ctx context.Context, eventID string) (fairdraw.Entries, error)
	// Excluded returns the requests that take no part in the draw, sorted by their ids.
	Excluded(ctx context.Context, eventID string) ([]fairdraw.Exclusion, error)
	// Winners returns all winners, the first rank first.
	Winners(ctx context.Context, d *promotion.Draw) ([]uuid.UUID, error)
}

// Draws reads what is public of draws. It shows nothing of a result before the announcement: the
// time from which this replica's clock has passed announcedAt and worker has published the seed.
type Draws struct {
	promotions Promotions
	store      DrawStore
	now        func() time.Time

	states   *Cache[state]
	entries  *SizedCache[*DrawEntries]
	excluded *SizedCache[[]fairdraw.Exclusion]
	results  *SizedCache[*Result]
	ranks    *SizedCache[*fairdraw.Ranks]
}

// state is a draw as it was read last.
type state struct {
	promotion promotion.Promotion
	draw      promotion.Draw
	document  fairdraw.Document // without lists
}

// DrawEntries are the published entries of a draw.
type DrawEntries struct {
	fairdraw.Entries
	*fairdraw.Prover

	ETag string
}

// Result is the result of an announced draw.
type Result struct {
	// Winners are request ids, the first rank first.
	Winners []uuid.UUID

	rank map[uuid.UUID]int
}

// Won reports whether a request is a winner.
func (r *Result) Won(requestID string) bool {
	id, err := uuid.Parse(requestID)
	return err == nil && r.rank[id] != 0
}

// NewDraws makes the Draws that read a store.
func NewDraws(promotions Promotions, store DrawStore, now func() time.Time) *Draws {
	s := &Draws{promotions: promotions, store: store, now: now}
	s.states = NewCache(now, s.loadState)
	s.entries = NewSizedCache(maxEntryBytes, s.loadEntries, func(e *DrawEntries) int64 { return int64(len(e.Entries)) })
	s.ranks = NewSizedCache(maxRankBytes, s.loadRanks, func(r *fairdraw.Ranks) int64 { return 8 * int64(r.Len()) })
	s.excluded = NewSizedCache(maxExcludedBytes, store.Excluded, func(e []fairdraw.Exclusion) int64 { return 100 * int64(len(e)) })
	s.results = NewSizedCache(maxResultBytes, s.loadResult, func(r *Result) int64 { return 100 * int64(len(r.Winners)) })
	return s
}

func (s *Draws) loadState(ctx context.Context, eventID string) (state, error) {
	p, err := s.promotions.Get(ctx, eventID)
	if errors.Is(err, errs.ErrPromotionNotFound) || err == nil && p.EventType != promotion.Lottery {
		return state{}, errs.ErrDrawNotFound
	}
	if err != nil {
		return state{}, err
	}
	d, err := s.store.Draw(ctx, eventID)
	if err != nil {
		return state{}, err
	}
	document, err := d.Document(&p)
	return state{promotion: p, draw: d, document: document}, err
}

func (s *Draws) announced(st *state) bool {
	return st.draw.Announced() && s.now().UnixMilli() >= st.promotion.AnnouncedAt
}

// Document returns what is public of a draw, at most a second old. It fails with errs.ErrDrawExpired
// once its lists are deleted: without them an honest document would look forged.
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
		if out.Excluded, err = s.excluded.Get(ctx, eventID); err != nil {
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

// Entries returns the entries of a draw, once its root is public.
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
	return s.entries.Get(ctx, eventID)
}

// loadEntries reads the entries and checks that they are those of the statement.
func (s *Draws) loadEntries(ctx context.Context, eventID string) (*DrawEntries, error) {
	d, err := s.store.Draw(ctx, eventID)
	if err != nil {
		return nil, err
	}
	statement, err := fairdraw.ParseStatement([]byte(d.Statement))
	if err != nil {
		return nil, fmt.Errorf("draw of %s: %w", eventID, err)
	}
	entries, err := s.store.Entries(ctx, eventID)
	if err != nil {
		return nil, err
	}
	prover := fairdraw.NewProver(entries)
	if prover.Root() != statement.Root {
		return nil, fmt.Errorf("draw of %s: the %d entries are not the %d that were signed", eventID, entries.Len(), statement.Count)
	}
	return &DrawEntries{Entries: entries, Prover: prover, ETag: statement.Root.String()}, nil
}

// Proof proves that an entry is in the root. rank is 0 before the announcement.
func (s *Draws) Proof(ctx context.Context, eventID, requestID string) (proof fairdraw.Proof, rank int, err error) {
	entries, err := s.Entries(ctx, eventID)
	if err != nil {
		return proof, 0, err
	}
	id, err := uuid.Parse(requestID)
	if err != nil {
		return proof, 0, ErrNotFound
	}
	proof, found := entries.Prove(id)
	if !found {
		return proof, 0, ErrNotFound
	}
	result, err := s.Result(ctx, eventID)
	if err != nil || result == nil {
		return proof, 0, err
	}
	if rank = result.rank[id]; rank != 0 {
		return proof, rank, nil
	}
	ranks, err := s.ranks.Get(ctx, eventID)
	if err != nil {
		return proof, 0, err
	}
	return proof, ranks.Rank(id), nil
}

func (s *Draws) loadRanks(ctx context.Context, eventID string) (*fairdraw.Ranks, error) {
	st, err := s.loadState(ctx, eventID)
	if err != nil {
		return nil, err
	}
	entries, err := s.entries.Get(ctx, eventID)
	if err != nil {
		return nil, err
	}
	key, err := keyOf(&st.draw, &st.promotion, entries.Prover.Root())
	if err != nil {
		return nil, fmt.Errorf("draw of %s: %w", eventID, err)
	}
	return fairdraw.NewRanks(key, entries.Entries), nil
}

// Result returns the result of a draw; nil before the announcement, and after its items have expired.
func (s *Draws) Result(ctx context.Context, eventID string) (*Result, error) {
	st, err := s.states.Get(ctx, eventID)
	if err != nil || !s.announced(&st) || st.promotion.RequestsExpired(s.now().UnixMilli()) {
		return nil, err
	}
	return s.results.Get(ctx, eventID)
}

func (s *Draws) loadResult(ctx context.Context, eventID string) (*Result, error) {
	st, err := s.loadState(ctx, eventID)
	if err != nil {
		return nil, err
	}
	winners, err := s.store.Winners(ctx, &st.draw)
	if err != nil {
		return nil, err
	}
	r := &Result{Winners: winners, rank: make(map[uuid.UUID]int, len(winners))}
	for i, id := range winners {
		r.rank[id] = i + 1
	}
	return r, nil
}

// keyOf computes the key by which the entries of an announced draw are ranked.
func keyOf(d *promotion.Draw, p *promotion.Promotion, root fairdraw.Hash) (fairdraw.Hash, error) {
	seed, err := fairdraw.ParseHash(d.Seed)
	if err != nil {
		return seed, err
	}
	_, commitment, err := fairdraw.ParseCommitment([]byte(p.Commitment))
	if err != nil || d.Beacon == nil {
		return fairdraw.Key(seed, commitment, root, nil), err
	}
	value, err := hex.DecodeString(d.Beacon.Randomness)
	return fairdraw.Key(seed, commitment, root, value), err
}
