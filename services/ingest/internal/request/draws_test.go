package request_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
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

// stored is a draw of many entries in memory, and its promotion.
type stored struct {
	promotion promotion.Promotion
	draw      promotion.Draw
	entries   fairdraw.Entries
	winners   []uuid.UUID
	key       fairdraw.Hash
	reads     atomic.Int64
}

func (s *stored) Get(context.Context, string) (promotion.Promotion, error) { return s.promotion, nil }

func (s *stored) Draw(context.Context, string) (promotion.Draw, error) { return s.draw, nil }

func (s *stored) Entries(context.Context, string) (fairdraw.Entries, error) {
	s.reads.Add(1)
	return s.entries, nil
}

func (s *stored) Excluded(context.Context, string) ([]fairdraw.Exclusion, error) { return nil, nil }

func (s *stored) Winners(context.Context, *promotion.Draw) ([]uuid.UUID, error) {
	return s.winners, nil
}

// newStored draws 3 of n entries without a beacon.
func newStored(t *testing.T, n int) *stored {
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
	s := &stored{promotion: promotion.Promotion{
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
	return s
}

// The entries of a large draw are read and hashed once, then a proof takes no store.
func TestLargeDraw(t *testing.T) {
	t.Parallel()
	const n = 200_000
	s := newStored(t, n)
	draws := request.NewDraws(s, s, testkit.NewClock(time.UnixMilli(2_000)).Now)
	ranks := map[int]bool{}
	for _, id := range append(s.winners, s.entries.At(0), s.entries.At(n-1), s.entries.At(n/2)) {
		proof, rank, err := draws.Proof(t.Context(), "big", id.String())
		require.NoError(t, err)
		require.True(t, proof.Verify(id, s.entries.Root()))
		ranks[rank] = true
	}
	require.Equal(t, int64(1), s.reads.Load())
	require.True(t, ranks[1] && ranks[2] && ranks[3])
	document, err := draws.Document(t.Context(), "big")
	require.NoError(t, err)
	require.Equal(t, s.winners[2].String(), document.Winners[2])
	entries, err := draws.Entries(t.Context(), "big")
	require.NoError(t, err)
	require.Equal(t, fairdraw.Rank(s.key, s.entries, s.entries.At(n/2)), rankOf(t, draws, s.entries.At(n/2)))
	require.Equal(t, s.entries, entries.Entries)
}

func rankOf(t *testing.T, draws *request.Draws, id uuid.UUID) int {
	t.Helper()
	_, rank, err := draws.Proof(t.Context(), "big", id.String())
	require.NoError(t, err)
	return rank
}
