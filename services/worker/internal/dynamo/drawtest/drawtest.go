// Package drawtest opens lotteries in a table, and verifies their draws from what is public.
package drawtest

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/fairdraw/beacontest"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/services/worker/internal/draw"
	"urr.guru/services/worker/internal/dynamo"
)

// Times after the cutoff of the lotteries.
const (
	Round     = 10 * time.Minute // the delay of the deciding beacon round
	Announced = 30 * time.Minute // the announcement
)

// Winners is the number of places of each lottery.
const Winners = 3

// Beacon is the beacon of all lotteries, shared since computing its keys takes as long as a draw.
// It publishes by the real clock; its rounds can be computed at any time.
var Beacon = sync.OnceValues(func() (*beacontest.Beacon, error) { return NewBeacon(time.Now) })

// NewBeacon returns a beacon with the keys of Beacon and another clock.
func NewBeacon(now func() time.Time) (*beacontest.Beacon, error) {
	return beacontest.New(slices.Repeat([]byte{7}, 32), beacontest.Options{Now: now})
}

// KeyConfig returns the n-th set of secrets for seeds. All sets have the same statement key.
func KeyConfig(n byte) fairdraw.KeyConfig {
	secret := config.Secret(fmt.Sprintf("s-%d:%s", n, slices.Repeat([]byte{'a' + n}, 32)))
	return fairdraw.KeyConfig{DrawSecret: secret, DrawStatementKeys: "draw-1:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}
}

// OpenLottery stores a lottery under the first set of keys, and returns its id. change may alter
// its terms.
func OpenLottery(t *testing.T, store *dynamo.Store, cutoff time.Time, change func(*fairdraw.Commitment)) (event string) {
	t.Helper()
	p := Promotion(t, ids.NewV7().String(), cutoff, change)
	tx := store.Begin()
	tx.Put(0, table.PromotionItem(&p), table.Absent())
	tx.Put(0, table.OpenDrawItem(p.EventID, p.LotteryCutoffAt), table.Absent())
	require.NoError(t, tx.Commit(t.Context()))
	return p.EventID
}

// Promotion returns a lottery as OpenLottery stores it.
func Promotion(t testing.TB, event string, cutoff time.Time, change func(*fairdraw.Commitment)) promotion.Promotion {
	t.Helper()
	b, err := Beacon()
	require.NoError(t, err)
	keys, err := KeyConfig(1).Keys()
	require.NoError(t, err)
	c := fairdraw.Commitment{
		Algorithm: fairdraw.AlgorithmDraw, EventID: event, Winners: Winners, CutoffAt: cutoff.UnixMilli(), AnnouncedAt: cutoff.Add(Announced).UnixMilli(),
		ReceiptKey: fairdraw.Hash(bytes.Repeat([]byte{0x55}, 32)), // nobody verifies a receipt here
		Beacon:     &fairdraw.Beacon{Chain: b.Chain(), DelaySeconds: int64(Round / time.Second)},
	}
	if change != nil {
		change(&c)
	}
	text, nonce, err := keys.Open(&c)
	require.NoError(t, err)
	return promotion.Promotion{
		EventID: event, EventType: promotion.Lottery, CapacityTotal: int64(c.Winners), OpensAt: cutoff.Add(-time.Hour).UnixMilli(),
		ClosesAt: c.CutoffAt, LotteryCutoffAt: c.CutoffAt, AnnouncedAt: c.AnnouncedAt, Shards: 1,
		Commitment: string(text), SeedNonce: fairdraw.Hash(nonce).String(),
	}
}

// Read returns a lottery with its draw.
func Read(t *testing.T, store *dynamo.Store, event string) draw.Lottery {
	t.Helper()
	l, found, err := store.Lottery(t.Context(), event)
	require.NoError(t, err)
	require.True(t, found)
	return l
}

// AddUnsettled stores a request that was accepted just before the cutoff and is not processed yet.
func AddUnsettled(t *testing.T, store *dynamo.Store, event string) promotion.Request {
	t.Helper()
	p := Read(t, store, event).Promotion
	return addUnsettled(t, store, &p)
}

func addUnsettled(t *testing.T, store *dynamo.Store, p *promotion.Promotion) promotion.Request {
	t.Helper()
	r := promotion.NewRequest(p, ids.NewV7().String(), "u"+uuid.NewString(), p.LotteryCutoffAt-1)
	tx := store.Begin()
	tx.Create(0, r.Created())
	require.NoError(t, tx.Commit(t.Context()))
	return r
}

// AddEntries stores n requests that have become entries of the draw, and returns them.
func AddEntries(t *testing.T, store *dynamo.Store, event string, n int) []promotion.Request {
	t.Helper()
	var out []promotion.Request
	p := Read(t, store, event).Promotion
	for i := range n {
		r := addUnsettled(t, store, &p)
		c := r.Entered(store.Millis(), promotion.Turn{SequenceNumber: fmt.Sprint(i)})
		require.NoError(t, store.Change(t.Context(), c))
		out = append(out, c.After)
	}
	return out
}

// Verify verifies a draw as anybody can, from what is public of it now.
func Verify(t *testing.T, store *dynamo.Store, event string) *fairdraw.VerificationReport {
	t.Helper()
	l := Read(t, store, event)
	d, err := l.Draw.Document(&l.Promotion)
	require.NoError(t, err)
	var entries fairdraw.Entries
	if l.Draw.Public() {
		d.Excluded, err = store.Exclusions(t.Context(), event)
		require.NoError(t, err)
		entries = entryFile(t, store, event)
	}
	if l.Draw.Announced() {
		winners, err := store.Winners(t.Context(), &l.Draw)
		require.NoError(t, err)
		for _, id := range winners {
			d.Winners = append(d.Winners, id.String())
		}
	}
	report, err := fairdraw.Verify(&d, entries, fairdraw.Options{Algorithm: fairdraw.AlgorithmDraw})
	require.NoError(t, err)
	if l.Draw.Public() {
		verifyChunks(t, store, &l.Draw, report.Statement.Root, entries)
	}
	return report
}

// verifyChunks checks the stored chunks of the entries and, if the draw is announced, the stored
// ranks.
func verifyChunks(t *testing.T, store *dynamo.Store, d *promotion.Draw, root fairdraw.Hash, entries fairdraw.Entries) {
	t.Helper()
	var winners []uuid.UUID
	if d.Announced() {
		var err error
		winners, err = store.Winners(t.Context(), d)
		require.NoError(t, err)
	}
	for n := range fairdraw.ChunkCount(int64(entries.Len())) {
		keys := []pkgdynamo.Item{table.EntriesKey(d.EventID, root, n), table.RanksKey(d, n)}
		items, err := store.Read(t.Context(), keys...)
		require.NoError(t, err)
		chunk, err := table.DecodeEntries(items.Get(keys[0]))
		require.NoError(t, err)
		require.Equal(t, entries.Chunk(n), chunk)
		ranks, err := table.DecodeRanks(items.Get(keys[1]))
		require.NoError(t, err)
		for i := range chunk.Len() {
			won := slices.Index(winners, chunk.At(i)) + 1
			if rank := ranks.Of(i); d.Announced() && rank != won {
				require.Zero(t, won)
				require.Greater(t, rank, len(winners))
			}
		}
	}
}

// entryFile returns the public file of the entries, computed in another way than by the draw.
func entryFile(t *testing.T, store *dynamo.Store, event string) fairdraw.Entries {
	t.Helper()
	var all []uuid.UUID
	for _, group := range promotion.LotteryGroups() {
		page, next, err := store.Entries(t.Context(), event, group, "")
		require.NoError(t, err)
		require.Empty(t, next)
		for i := range page.Len() {
			all = append(all, page.At(i))
		}
	}
	slices.SortFunc(all, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	var out fairdraw.Entries
	for _, id := range all {
		out = append(out, id[:]...)
	}
	return out
}
