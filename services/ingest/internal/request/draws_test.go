package request_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/testkit"
	"urr.guru/services/ingest/internal/request"
)

// bigDraw is a draw of many entries in memory, and its promotion.
type bigDraw struct {
	promotion promotion.Promotion
	draw      promotion.Draw
	entries   fairdraw.Entries
	winners   []uuid.UUID
	ranks     []uint32
	key       fairdraw.Hash
	reads     atomic.Int64 // how many chunks were read
}

func (s *bigDraw) Get(context.Context, string) (promotion.Promotion, error) { return s.promotion, nil }

func (s *bigDraw) Draw(context.Context, string) (promotion.Draw, error) { return s.draw, nil }

func (s *bigDraw) Entries(_ context.Context, _ string, _ fairdraw.Hash, n int) (fairdraw.Entries, error) {
	s.reads.Add(1)
	return s.entries.Chunk(n), nil
}

func (s *bigDraw) Ranks(_ context.Context, _ *promotion.Draw, n int) (promotion.Ranks, error) {
	from := n * fairdraw.ChunkSize
	return promotion.NewRanks(s.ranks[from:min(from+fairdraw.ChunkSize, len(s.ranks))]), nil
}

func (s *bigDraw) ExcludedRequests(context.Context, string) ([]fairdraw.Exclusion, error) {
	return nil, nil
}

func (s *bigDraw) Winners(context.Context, *promotion.Draw) ([]uuid.UUID, error) {
	return s.winners, nil
}

// newStored returns a stored draw of 3 winners from n entries, without a beacon.
func newStored(t *testing.T, n int) *bigDraw {
	t.Helper()
	keys := fairdraw.KeyConfig{
		DrawSecret: "s-1:0123456789abcdef0123456789abcdef", DrawStatementKeys: "k-1:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
	}
	k, err := keys.Keys()
	require.NoError(t, err)
	nonce := fairdraw.NewNonce()
	seed, _ := fairdraw.Seed(k.Seeds, "s-1", "big", nonce)
	terms := fairdraw.Commitment{
		Algorithm: fairdraw.AlgorithmDraw, EventID: "big", Winners: 3, CutoffAt: 1_000, AnnouncedAt: 2_000,
		ReceiptKey: fairdraw.Hash(bytes.Repeat([]byte{0x55}, 32)), StatementKey: fairdraw.Hash(k.Statements.Public("k-1")), SeedHash: fairdraw.SeedHash(seed), SeedKID: "s-1",
	}
	text, hash, err := terms.Seal()
	require.NoError(t, err)
	s := &bigDraw{promotion: promotion.Promotion{
		EventID: "big", EventType: promotion.Lottery, ClosesAt: 1_000, LotteryCutoffAt: 1_000, AnnouncedAt: 2_000,
		Commitment: string(text), SeedNonce: hex.EncodeToString(nonce[:]),
	}}
	s.entries = make(fairdraw.Entries, 16*n)
	for i := range n {
		binary.BigEndian.PutUint64(s.entries[16*i:], uint64(i)) //nolint:gosec // positive
	}
	statement, err := fairdraw.NewStatement(&terms, hash, s.entries.Root(), int64(n), nil, time.UnixMilli(1_500))
	require.NoError(t, err)
	body, err := statement.Text()
	require.NoError(t, err)
	s.draw = promotion.Draw{EventID: "big", Phase: promotion.DrawSettled, Statement: string(body), Signature: "signed", Seed: seed.String()}
	s.key = fairdraw.Key(seed, hash, statement.Root, nil)
	s.winners = fairdraw.Winners(s.key, s.entries, 3)
	s.ranks = make([]uint32, n)
	for i, at := range fairdraw.Order(s.key, s.entries) {
		s.ranks[at] = uint32(i + 1) //nolint:gosec // positive
	}
	return s
}

// The chunks of a large draw are read and hashed once. Then a proof needs only the chunk of its
// entry, which is cached.
func TestLargeDraw(t *testing.T) {
	t.Parallel()
	const n = 200_000
	s := newStored(t, n)
	draws := request.NewDraws(s, s, 16<<20, testkit.NewClock(time.UnixMilli(2_000)).Now)
	ranks := map[int]bool{}
	prove := func() {
		t.Helper()
		for _, id := range append(s.winners, s.entries.At(0), s.entries.At(n-1), s.entries.At(n/2)) {
			proof, rank, err := draws.Proof(t.Context(), "big", id.String())
			require.NoError(t, err)
			require.True(t, proof.Verify(id, s.entries.Root()))
			ranks[rank] = true
		}
	}
	prove()
	read := s.reads.Load()
	require.LessOrEqual(t, read, int64(n/fairdraw.ChunkSize+7), "one of the six is in a block of two chunks")
	prove()
	require.Equal(t, read, s.reads.Load())
	require.True(t, ranks[1] && ranks[2] && ranks[3])
	document, err := draws.Document(t.Context(), "big")
	require.NoError(t, err)
	require.Equal(t, s.winners[2].String(), document.Winners[2])
	require.Equal(t, int(s.ranks[n/2]), rankOf(t, draws, s.entries.At(n/2)))
	entries, err := draws.Entries(t.Context(), "big")
	require.NoError(t, err)
	require.Equal(t, int64(len(s.entries)), entries.Total)
	var file []byte
	for int64(len(file)) < entries.Total {
		part, err := entries.ReadFrom(t.Context(), int64(len(file)))
		require.NoError(t, err)
		file = append(file, part...)
	}
	require.Equal(t, []byte(s.entries), file)
}

func rankOf(t *testing.T, draws *request.Draws, id uuid.UUID) int {
	t.Helper()
	_, rank, err := draws.Proof(t.Context(), "big", id.String())
	require.NoError(t, err)
	return rank
}

// drawsByEvent has the draws of several events.
type drawsByEvent map[string]*bigDraw

func (s drawsByEvent) Get(ctx context.Context, event string) (promotion.Promotion, error) {
	return s[event].Get(ctx, event)
}

func (s drawsByEvent) Draw(ctx context.Context, event string) (promotion.Draw, error) {
	d, err := s[event].Draw(ctx, event)
	d.EventID = event
	return d, err
}

func (s drawsByEvent) Entries(ctx context.Context, event string, root fairdraw.Hash, n int) (fairdraw.Entries, error) {
	return s[event].Entries(ctx, event, root, n)
}

func (s drawsByEvent) Ranks(ctx context.Context, d *promotion.Draw, n int) (promotion.Ranks, error) {
	return s[d.EventID].Ranks(ctx, d, n)
}

func (s drawsByEvent) ExcludedRequests(ctx context.Context, event string) ([]fairdraw.Exclusion, error) {
	return s[event].ExcludedRequests(ctx, event)
}

func (s drawsByEvent) Winners(ctx context.Context, d *promotion.Draw) ([]uuid.UUID, error) {
	return s[d.EventID].Winners(ctx, d)
}

// Five draws, each with more entries than the cache can hold: each list is read in full once, and
// then a proof reads at most two chunks.
func TestDrawsThatDoNotFit(t *testing.T) {
	t.Parallel()
	const n, maxBytes = 100_000, 1 << 20 // 1.6 MB of entries in each draw
	s := drawsByEvent{}
	for i := range 5 {
		s[fmt.Sprint("d", i)] = newStored(t, n)
	}
	draws := request.NewDraws(s, s, maxBytes, testkit.NewClock(time.UnixMilli(2_000)).Now)
	prove := func(round int) {
		t.Helper()
		for event, d := range s {
			at := (round*37_777 + 11) % n
			id := d.entries.At(at)
			proof, rank, err := draws.Proof(t.Context(), event, id.String())
			require.NoError(t, err)
			require.True(t, proof.Verify(id, d.entries.Root()))
			require.Equal(t, int(d.ranks[at]), rank)
		}
	}
	prove(0)
	for event, d := range s {
		require.LessOrEqual(t, d.reads.Load(), int64(n/fairdraw.ChunkSize+2), event)
	}
	for round := range 10 {
		before := map[string]int64{}
		for event, d := range s {
			before[event] = d.reads.Load()
		}
		prove(round)
		for event, d := range s {
			require.LessOrEqual(t, d.reads.Load(), before[event]+2, event)
		}
	}
}

// A chunk that was changed since the list was read is not served.
func TestChunkThatWasChanged(t *testing.T) {
	t.Parallel()
	const n = 2*fairdraw.ChunkSize + 5
	s := newStored(t, n)
	draws := request.NewDraws(s, s, 64<<10, testkit.NewClock(time.UnixMilli(2_000)).Now)
	first, last := s.entries.At(0), s.entries.At(n-1)
	_, _, err := draws.Proof(t.Context(), "big", first.String())
	require.NoError(t, err)
	s.entries = bytes.Clone(s.entries)
	s.entries[len(s.entries)-1]++
	_, _, err = draws.Proof(t.Context(), "big", last.String())
	require.ErrorIs(t, err, fairdraw.ErrOtherEntries)
	entries, err := draws.Entries(t.Context(), "big")
	require.NoError(t, err)
	_, err = entries.ReadFrom(t.Context(), entries.Total-16)
	require.ErrorIs(t, err, fairdraw.ErrOtherEntries)
	_, _, err = draws.Proof(t.Context(), "big", first.String())
	require.NoError(t, err, "another chunk")
}
