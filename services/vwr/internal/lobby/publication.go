package lobby

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/fairdraw"
	"urr.guru/services/vwr/internal/room"
)

const (
	documentAge = time.Second // how long a document is cached, since anybody may request it
	// maxDocuments and maxFiles are the most documents and files in memory.
	maxDocuments = 1024
	maxFiles     = 4
	// PartSize is the size of a part of the file of entries, in bytes.
	PartSize = 1 << 20
)

// publications answers requests by anybody about shuffles.
type publications struct {
	service *Service

	mu        sync.Mutex
	documents map[Key]cachedDocument // round 0 stands for an event's latest round
	files     map[Key]*entriesFile
	listLocks map[Key]*listLock

	listSlots chan struct{} // limits how many lists are read at once, since anybody may ask
}

// listLock lets one call at a time read the entries of a lobby from the store.
type listLock struct {
	held  chan struct{} // it has an element while a call has the lock
	calls int           // how many calls have the lock or wait for it; guarded by publications.mu
}

// cachedDocument is the published state of a shuffle, as last read from the store.
type cachedDocument struct {
	readAt  time.Time
	shuffle Shuffle
	terms   *terms
}

// entriesFile is the public list of one lobby's entries, with their positions and a prover, which
// proves that the list has an entry.
type entriesFile struct {
	entries   fairdraw.Entries
	statement fairdraw.Statement
	prover    func() *fairdraw.Prover
	usedAt    time.Time

	ranking sync.Mutex
	ranks   *ranks // nil until the first request after the shuffle
}

// ranksBy returns the position of every entry, in the order that key determines. It computes the
// positions once: a million take a second.
func (f *entriesFile) ranksBy(key fairdraw.Hash) *ranks {
	f.ranking.Lock()
	defer f.ranking.Unlock()
	if f.ranks == nil {
		f.ranks = rankEntries(key, f.entries)
	}
	return f.ranks
}

func newPublications(s *Service) *publications {
	return &publications{
		service: s, documents: make(map[Key]cachedDocument), files: make(map[Key]*entriesFile), listLocks: make(map[Key]*listLock),
		listSlots: make(chan struct{}, maxFiles),
	}
}

// readDocument returns the shuffle of a round, at most documentAge old; round 0 means the event's
// latest lobby. Unknown rounds are not cached, since anybody may make them up.
func (p *publications) readDocument(ctx context.Context, k Key) (cachedDocument, error) {
	now := p.service.now()
	p.mu.Lock()
	d, ok := p.documents[k]
	p.mu.Unlock()
	if ok && now.Sub(d.readAt) < documentAge {
		return d, nil
	}
	sh, found, err := p.service.readShuffle(ctx, k)
	if err != nil {
		return cachedDocument{}, err
	}
	if !found {
		return cachedDocument{}, room.ErrLobbyNotFound
	}
	d = cachedDocument{readAt: now, shuffle: sh}
	if d.terms, err = parseTerms(&sh); err != nil {
		return cachedDocument{}, room.ErrUnavailable.Wrap(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.documents) >= maxDocuments {
		clear(p.documents)
	}
	p.documents[k] = d
	return d, nil
}

// readShuffle reads the shuffle of a round from the store; round 0 means the event's latest lobby.
func (s *Service) readShuffle(ctx context.Context, k Key) (Shuffle, bool, error) {
	if k.Round == 0 {
		return s.shuffles.Latest(ctx, k.EventID)
	}
	return s.shuffles.Shuffle(ctx, k)
}

// voidReason returns BEACON_LOST for a lobby that was voided when its order could already be known,
// else an empty string.
func (d *cachedDocument) voidReason() string {
	st, err := fairdraw.ParseStatement([]byte(d.shuffle.Statement))
	if c := &d.terms.commitment; err == nil && c.Beacon != nil && d.shuffle.VoidedAt >= c.BeaconLostAt(st.Round).UnixMilli() {
		return "BEACON_LOST"
	}
	return ""
}

// Document returns the published document of a lobby, as JSON, and its round. In Document, Entries
// and Proof, round 0 means the event's latest lobby. Document fails with room.ErrLobbyNotFound.
func (s *Service) Document(ctx context.Context, k Key) ([]byte, room.Round, error) {
	d, err := s.public.readDocument(ctx, k)
	if err != nil {
		return nil, 0, err
	}
	sh := &d.shuffle
	text, err := json.Marshal(fairdraw.Document{
		EventID: sh.EventID, Phase: phaseOf(sh, d.terms, s.now()), Commitment: sh.Commitment, CommitmentHash: d.terms.hash.String(),
		Statement: sh.signedStatement(), Beacon: sh.Beacon, Seed: sh.Seed, OrderHash: sh.OrderHash, VoidedAt: sh.VoidedAt,
		VoidReason: d.voidReason(),
	})
	return text, sh.Round, err
}

// EntriesPart is a part of the file of a lobby's entries. Total is the whole file's size in bytes.
type EntriesPart struct {
	Bytes []byte
	Total int64
	Root  fairdraw.Hash // the Merkle root of all entries
	Round room.Round
}

// Entries returns a part of the file of a lobby's entries: from an offset, at most size bytes and
// at most PartSize. It fails with room.ErrLobbyNotFound before the root is public.
func (s *Service) Entries(ctx context.Context, k Key, offset, size int64) (EntriesPart, error) {
	f, d, err := s.public.readFile(ctx, k)
	if err != nil {
		return EntriesPart{}, err
	}
	total := int64(len(f.entries))
	from := min(offset, total)
	return EntriesPart{Bytes: f.entries[from:min(from+min(size, PartSize), total)], Total: total, Root: f.statement.Root, Round: d.shuffle.Round}, nil
}

// Proof proves that an entry is in the Merkle tree with the lobby's root.
type Proof struct {
	fairdraw.Proof

	Rank  int64 // 0 before the shuffle
	Round room.Round
}

// Proof returns the proof that an entry is in the lobby's list. It fails with room.ErrLobbyNotFound
// for an unknown entry, and before the root is public.
func (s *Service) Proof(ctx context.Context, k Key, id uuid.UUID) (Proof, error) {
	f, d, err := s.public.readFile(ctx, k)
	if err != nil {
		return Proof{}, err
	}
	found, ok := f.prover().Prove(id)
	if !ok {
		return Proof{}, room.ErrLobbyNotFound
	}
	p := Proof{Proof: found, Round: d.shuffle.Round}
	if d.shuffle.Seed == "" {
		return p, nil
	}
	if r := s.memory.get(d.shuffle.Key).ranks; r != nil {
		p.Rank, _ = r.positionOf(id)
		return p, nil
	}
	key, err := d.shuffle.orderKey(d.terms.hash, f.statement.Root)
	if err != nil {
		return Proof{}, room.ErrUnavailable.Wrap(err)
	}
	p.Rank, _ = f.ranksBy(key).positionOf(id)
	return p, nil
}

// readFile returns the file of a lobby's entries, and its document. It fails with
// room.ErrLobbyNotFound before the root is public.
func (p *publications) readFile(ctx context.Context, k Key) (*entriesFile, cachedDocument, error) {
	d, err := p.readDocument(ctx, k)
	if err != nil {
		return nil, cachedDocument{}, err
	}
	if d.shuffle.Signature == "" {
		return nil, cachedDocument{}, room.ErrLobbyNotFound
	}
	if f := p.cachedFile(d.shuffle.Key); f != nil {
		return f, d, nil
	}
	st, err := fairdraw.ParseStatement([]byte(d.shuffle.Statement))
	if err != nil {
		return nil, cachedDocument{}, room.ErrUnavailable.Wrap(err)
	}
	if r := p.service.memory.get(d.shuffle.Key); r.listed {
		return p.cacheFile(d.shuffle.Key, newEntriesFile(r.entries, st)), d, nil
	}
	f, err := p.listEntries(ctx, d.shuffle.Key, st)
	return f, d, err
}

func newEntriesFile(entries fairdraw.Entries, st fairdraw.Statement) *entriesFile {
	return &entriesFile{entries: entries, statement: st, prover: sync.OnceValue(func() *fairdraw.Prover { return fairdraw.NewProver(entries) })}
}

// listEntries reads a lobby's entries into a file, or waits for another call that is reading them.
func (p *publications) listEntries(ctx context.Context, k Key, st fairdraw.Statement) (*entriesFile, error) {
	unlock, err := p.lockEntryList(ctx, k)
	if err != nil {
		return nil, unavailableError(err)
	}
	defer unlock()
	if f := p.cachedFile(k); f != nil {
		return f, nil
	}
	select {
	case p.listSlots <- struct{}{}:
		defer func() { <-p.listSlots }()
	case <-ctx.Done():
		return nil, unavailableError(ctx.Err())
	}
	entries, err := p.service.finalEntries(ctx, k, &st)
	if err != nil {
		return nil, unavailableError(err)
	}
	return p.cacheFile(k, newEntriesFile(entries, st)), nil
}

// lockEntryList acquires the listLock of a lobby. It fails if ctx ends first.
func (p *publications) lockEntryList(ctx context.Context, k Key) (unlock func(), err error) {
	p.mu.Lock()
	t := p.listLocks[k]
	if t == nil {
		t = &listLock{held: make(chan struct{}, 1)}
		p.listLocks[k] = t
	}
	t.calls++
	p.mu.Unlock()
	leave := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if t.calls--; t.calls == 0 {
			delete(p.listLocks, k)
		}
	}
	select {
	case t.held <- struct{}{}:
		return func() {
			<-t.held
			leave()
		}, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

func (p *publications) cachedFile(k Key) *entriesFile {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.files[k]
	if f != nil {
		f.usedAt = p.service.now()
	}
	return f
}

// cacheFile caches a file and returns it, or returns the one that is already cached. If there are
// too many files, it drops the least recently used one.
func (p *publications) cacheFile(k Key, f *entriesFile) *entriesFile {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cached := p.files[k]; cached != nil {
		return cached
	}
	f.usedAt = p.service.now()
	if len(p.files) >= maxFiles {
		delete(p.files, slices.MinFunc(slices.Collect(maps.Keys(p.files)), func(a, b Key) int {
			return p.files[a].usedAt.Compare(p.files[b].usedAt)
		}))
	}
	p.files[k] = f
	return f
}
