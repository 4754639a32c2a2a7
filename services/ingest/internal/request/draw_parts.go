package request

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/promotion"
)

// partKind is a kind of data about a draw. Each part of a draw is cached in memory.
type partKind int

const (
	chunks     partKind = iota // a chunk of the entries, 320 kB
	ranks                      // the ranks of the entries of a chunk, 80 kB
	exclusions                 // all exclusions of a draw, about 100 bytes each
	results                    // all winners of a draw, 32 bytes each
)

// partKey identifies a part of a draw. n is the number of the chunk, for kinds that have chunks.
type partKey struct {
	kind    partKind
	eventID string
	n       int
}

// drawPart is a cached part of a draw, identified by a partKey. It never changes.
type drawPart struct {
	value any
	bytes int64
}

const (
	// parallelLoads is how many parts are read at once. It limits memory: a chunk needs about 2 MB
	// until it is decoded.
	parallelLoads = 4
	idSize        = int64(len(uuid.UUID{}))
	chunkBytes    = fairdraw.ChunkSize * idSize
)

func getPart[V any](ctx context.Context, s *Draws, k partKey) (V, error) {
	p, err := s.parts.Get(ctx, k)
	if err != nil {
		return *new(V), err
	}
	return p.value.(V), nil //nolint:forcetypeassert // the kind determines the type
}

// drawIndex finds the chunk of a draw's entry, and proves that the signed root has the entry.
type drawIndex struct {
	fairdraw.Index

	root fairdraw.Hash
}

// DrawEntries are the published entries of a draw.
type DrawEntries struct {
	Total int64 // the size in bytes
	ETag  string

	draws   *Draws
	eventID string
	index   *drawIndex
}

// ReadFrom returns the ids of entries as bytes, from an offset in the list to the end of the chunk
// in which the offset is. At the end of the list it returns none.
func (e *DrawEntries) ReadFrom(ctx context.Context, offset int64) ([]byte, error) {
	if offset >= e.Total {
		return nil, nil
	}
	chunk, err := e.chunk(ctx, int(offset/chunkBytes))
	if err != nil {
		return nil, err
	}
	return chunk[offset%chunkBytes:], nil
}

func (e *DrawEntries) chunk(ctx context.Context, n int) (fairdraw.Entries, error) {
	return getPart[fairdraw.Entries](ctx, e.draws, partKey{chunks, e.eventID, n})
}

// acquireLoad waits until another part may be read. The caller must call done after reading it.
func (s *Draws) acquireLoad(ctx context.Context) (done func(), err error) {
	select {
	case s.loads <- struct{}{}:
		return func() { <-s.loads }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *Draws) loadPart(ctx context.Context, k partKey) (p drawPart, err error) {
	var index *drawIndex // for a chunk; read before acquireLoad, since loads that wait for each other could block all
	if k.kind == chunks {
		if index, err = s.indexes.Get(ctx, k.eventID); err != nil {
			return drawPart{}, err
		}
	}
	done, err := s.acquireLoad(ctx)
	if err != nil {
		return drawPart{}, err
	}
	defer done()
	st, err := s.loadState(ctx, k.eventID)
	if err != nil {
		return drawPart{}, err
	}
	switch k.kind {
	case chunks:
		var chunk fairdraw.Entries
		if chunk, err = s.store.Entries(ctx, k.eventID, index.root, k.n); err == nil {
			err = index.Check(k.n, chunk)
		}
		p = drawPart{chunk, int64(len(chunk))}
	case ranks:
		var r promotion.Ranks
		r, err = s.store.Ranks(ctx, &st.draw, k.n)
		p = drawPart{r, int64(len(r))}
	case exclusions:
		var excluded []fairdraw.Exclusion
		excluded, err = s.store.ExcludedRequests(ctx, k.eventID)
		p = drawPart{excluded, 100 * int64(len(excluded))}
	case results:
		var winners []uuid.UUID
		winners, err = s.store.Winners(ctx, &st.draw)
		p = drawPart{newResult(winners), 2 * idSize * int64(len(winners))}
	}
	if err != nil {
		return drawPart{}, fmt.Errorf("draw of %s: %w", k.eventID, err)
	}
	return p, nil
}

// loadIndex reads all chunks, one after another, and checks that their entries are the signed ones.
func (s *Draws) loadIndex(ctx context.Context, eventID string) (*drawIndex, error) {
	done, err := s.acquireLoad(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	d, err := s.store.Draw(ctx, eventID)
	if err != nil {
		return nil, err
	}
	statement, err := fairdraw.ParseStatement([]byte(d.Statement))
	if err != nil {
		return nil, fmt.Errorf("draw of %s: %w", eventID, err)
	}
	index := &drawIndex{root: statement.Root}
	for n := range fairdraw.ChunkCount(statement.Count) {
		chunk, err := s.store.Entries(ctx, eventID, statement.Root, n)
		if err != nil {
			return nil, err
		}
		if err := index.Add(chunk); err != nil {
			return nil, fmt.Errorf("draw of %s: the entries are not the %d that were signed: chunk %d: %w", eventID, statement.Count, n, err)
		}
	}
	if index.Root() != statement.Root {
		return nil, fmt.Errorf("draw of %s: the entries are not the %d that were signed", eventID, statement.Count)
	}
	return index, nil
}
