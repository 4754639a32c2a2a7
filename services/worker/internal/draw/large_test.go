package draw_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/testkit"
	"urr.guru/services/worker/internal/draw"
	"urr.guru/services/worker/internal/dynamo/drawtest"
)

// memory is an in-memory store of one large lottery. Entries are computed, not stored.
type memory struct {
	mu      sync.Mutex
	lottery draw.Lottery
	entries int
	page    int // entries that one read of a group returns
	winners []uuid.UUID
	chunks  map[int]fairdraw.Entries
	ranks   map[int]promotion.Ranks

	settled, won int
	loserFirst   bool
	largest      int
}

// entryID returns the i-th of the sorted entries of all groups. Entry i is in group i modulo 64.
func entryID(i int) (id uuid.UUID) {
	id[6], id[8] = 0x70, 0x80
	for b := range 4 {
		id[12+b] = byte(i >> (8 * (3 - b)))
	}
	return id
}

func (*memory) AcquireLease(context.Context, string) (bool, error) { return true, nil }

func (m *memory) OpenDraws(context.Context, int64) ([]draw.Lottery, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return []draw.Lottery{m.lottery}, nil
}

func (m *memory) Advance(_ context.Context, before, after promotion.Draw) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lottery.Draw != before {
		return draw.ErrChanged
	}
	m.lottery.Draw = after
	return nil
}

func (m *memory) Lottery(context.Context, string) (l draw.Lottery, found bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lottery, true, nil
}

func (m *memory) ChangeLottery(_ context.Context, before, after draw.Lottery) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lottery != before {
		return draw.ErrChanged
	}
	m.lottery = after
	return nil
}

func (*memory) Forget(context.Context, string, int64) error                      { return nil }
func (*memory) Unsettled(context.Context, string, int64) (bool, error)           { return false, nil }
func (*memory) CloseGroups(context.Context, string) error                        { return nil }
func (*memory) Exclusions(context.Context, string) ([]fairdraw.Exclusion, error) { return nil, nil }

func (m *memory) EntryCounts(context.Context, string) (map[string]int64, error) {
	counted := map[string]int64{}
	for i, g := range promotion.LotteryGroups() {
		counted[g] = int64((m.entries - i + 63) / 64)
	}
	return counted, nil
}

func (m *memory) Entries(_ context.Context, _, group, after string) (page fairdraw.Entries, next string, err error) {
	from := 0
	if after != "" {
		if _, err := fmt.Sscan(after, &from); err != nil {
			return nil, "", err
		}
	}
	first := slices.Index(promotion.LotteryGroups(), group)
	for i := from; first+64*i < m.entries; i++ {
		if i == from+m.page {
			return page, fmt.Sprint(i), nil
		}
		id := entryID(first + 64*i)
		page = append(page, id[:]...)
	}
	return page, "", nil
}

func (m *memory) PutWinners(_ context.Context, _ promotion.Draw, winners []uuid.UUID, _ int64) error {
	m.winners = winners
	return nil
}

func (m *memory) PutEntries(_ context.Context, _ string, _ fairdraw.Hash, n int, chunk fairdraw.Entries, _ int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.chunks[n] = chunk
	return nil
}

func (m *memory) PutRanks(_ context.Context, _ promotion.Draw, n int, ranks promotion.Ranks, _ int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ranks[n] = ranks
	return nil
}

func (m *memory) Winners(context.Context, *promotion.Draw) ([]uuid.UUID, error) {
	return m.winners, nil
}

func (m *memory) SettleEntries(_ context.Context, entries []uuid.UUID, decide draw.DecideEntry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settled += len(entries)
	m.largest = max(m.largest, len(entries))
	if decide(&promotion.Request{}, 1).After.Status == promotion.Succeeded {
		m.won += len(entries)
		m.loserFirst = m.loserFirst || m.settled > m.won
	}
	return nil
}

// large draws a lottery of n entries, which are read in pages, for n/10 places.
func large(tb testing.TB, n, page int) *memory {
	tb.Helper()
	b, err := drawtest.Beacon()
	require.NoError(tb, err)
	clock := testkit.NewClock(cutoff)
	p := drawtest.Promotion(tb, "large", cutoff, func(c *fairdraw.Commitment) { c.Winners = n / 10 })
	m := &memory{chunks: map[int]fairdraw.Entries{}, ranks: map[int]promotion.Ranks{}, entries: n, page: page, lottery: draw.Lottery{Promotion: p, Draw: promotion.Draw{EventID: "large", Phase: promotion.DrawOpen}}}
	keys, err := fairdraw.NewKeyring(keyConfig(1))
	require.NoError(tb, err)
	drawer := draw.New(draw.Stores{Draws: m, Lotteries: m, Requests: m, Results: m}, &source{Beacon: b, clock: clock}, keys, &figures{}, draw.Options{After: after, Now: clock.Now}, slog.New(slog.DiscardHandler))
	for _, at := range []time.Duration{after, round, settles} {
		clock.Set(cutoff.Add(at))
		require.NoError(tb, drawer.Pass(tb.Context()))
	}
	require.Equal(tb, promotion.DrawSettled, m.lottery.Draw.Phase)
	require.Equal(tb, n/10, m.won)
	require.Equal(tb, n, m.settled)
	require.False(tb, m.loserFirst)
	require.LessOrEqual(tb, m.largest, draw.MaxSettled)
	return m
}

// The published data of a lottery with many pages of entries can be verified.
func TestLargeDraw(t *testing.T) {
	t.Parallel()
	const page = 400
	const n = 64*page + 1234 // some groups have two pages
	m := large(t, n, page)
	d, err := m.lottery.Draw.Document(&m.lottery.Promotion)
	require.NoError(t, err)
	entries := make(fairdraw.Entries, 0, n*16)
	for i := range n {
		id := entryID(i)
		entries = append(entries, id[:]...)
	}
	for _, id := range m.winners {
		d.Winners = append(d.Winners, id.String())
	}
	report, err := fairdraw.Verify(&d, entries, fairdraw.Options{})
	require.NoError(t, err)
	require.True(t, report.Complete)

	require.Len(t, m.chunks, fairdraw.ChunkCount(n))
	seen := map[int]bool{}
	for i, chunk := range m.chunks {
		require.Equal(t, entries.Chunk(i), chunk)
		for at := range chunk.Len() {
			rank := m.ranks[i].Of(at)
			seen[rank] = true
			if rank <= len(m.winners) {
				require.Equal(t, m.winners[rank-1], chunk.At(at))
			}
		}
	}
	require.Len(t, seen, n)
	require.True(t, seen[1] && seen[n])
}

// BenchmarkDraw1M measures a draw of 1,000,000 entries for 100,000 places, without a database.
func BenchmarkDraw1M(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		large(b, 1_000_000, 5000)
	}
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	b.ReportMetric(float64(u.Maxrss)/1024, "peak_MB")
}
