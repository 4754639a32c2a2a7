package fairdraw_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/fairdraw/beacontest"
	"urr.guru/pkg/token"
)

// cutoff is the cutoff of every draw of these tests.
var cutoff = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// draw is a draw of the tests with everything that its operator knows.
type draw struct {
	t           testing.TB
	keys        token.SigningKeys // sign statements
	receiptKeys token.SigningKeys // sign receipts
	beacon      *beacontest.Beacon
	seed        fairdraw.Hash
	commitment  fairdraw.Commitment
	text        []byte
	hash        fairdraw.Hash
	entries     fairdraw.Entries
	excluded    []fairdraw.Exclusion
	receipts    []string // of entry 0, of entry 1, of the excluded request
	statement   fairdraw.Statement
	document    *fairdraw.Document
}

func signingKeys(t testing.TB, fill byte) token.SigningKeys {
	t.Helper()
	keys, err := token.ParseSigningKeys(config.Secret("draw-1:" + base64.StdEncoding.EncodeToString(slices.Repeat([]byte{fill}, 32))))
	require.NoError(t, err)
	return keys
}

// sharedBeacon is the beacon of all draws: making its keys takes as long as a whole verification.
var sharedBeacon = sync.OnceValues(func() (*beacontest.Beacon, error) {
	return beacontest.New(slices.Repeat([]byte{7}, 32), beacontest.Options{})
})

// requestID returns a UUIDv7 that depends only on n; ids ascend with n.
func requestID(n int) uuid.UUID {
	sum := sha256.Sum256(binary.BigEndian.AppendUint32([]byte("request"), uint32(n))) //nolint:gosec // small
	id := uuid.UUID(sum[:])
	binary.BigEndian.PutUint64(id[:], uint64(cutoff.UnixMilli()-1_000_000+int64(n))<<16|0x7000|uint64(id[7])) //nolint:gosec // positive
	id[8] = id[8]&0x3f | 0x80
	return id
}

// entriesOf returns n entries.
func entriesOf(n int) fairdraw.Entries {
	entries := make(fairdraw.Entries, 0, 16*n)
	for i := range n {
		id := requestID(i)
		entries = append(entries, id[:]...)
	}
	return entries
}

// newDraw makes a commitment with 3 winners, or that of a shuffle, and 20 entries. change may alter
// the terms before they are sealed.
func newDraw(t testing.TB, algorithm string, change func(*fairdraw.Commitment)) *draw {
	t.Helper()
	source, err := sharedBeacon()
	require.NoError(t, err)
	d := &draw{t: t, keys: signingKeys(t, 1), receiptKeys: signingKeys(t, 3), beacon: source, entries: entriesOf(20)}
	secrets, err := token.ParseKeySet("s-1:" + config.Secret(slices.Repeat([]byte{'s'}, 32)))
	require.NoError(t, err)
	var ok bool
	d.seed, ok = fairdraw.Seed(secrets.Derive(fairdraw.LabelSeed), "s-1", "promo-1", fairdraw.Nonce{1, 2, 3})
	require.True(t, ok)
	d.commitment = fairdraw.Commitment{
		Algorithm: algorithm, EventID: "promo-1", Winners: 3,
		CutoffAt: cutoff.UnixMilli(), AnnouncedAt: cutoff.Add(time.Hour).UnixMilli(),
		ReceiptKey: fairdraw.Hash(d.receiptKeys.Public("draw-1")), StatementKey: fairdraw.Hash(d.keys.Public("draw-1")), SeedHash: fairdraw.SeedHash(d.seed), SeedKID: "s-1",
		Beacon: &fairdraw.Beacon{Chain: d.beacon.Chain(), DelaySeconds: 600},
	}
	if algorithm == fairdraw.AlgorithmShuffle {
		d.commitment.Winners = 0
	}
	if change != nil {
		change(&d.commitment)
	}
	d.text, d.hash, err = d.commitment.Seal()
	require.NoError(t, err)
	d.document = &fairdraw.Document{
		EventID: d.commitment.EventID, Phase: fairdraw.PhaseOpen, Commitment: string(d.text), CommitmentHash: d.hash.String(),
	}
	withdrawn := requestID(1000)
	d.excluded = []fairdraw.Exclusion{{RequestID: withdrawn.String(), Reason: "WITHDRAWN"}}
	for _, id := range []uuid.UUID{d.entries.At(0), d.entries.At(min(12, d.entries.Len()-1)), withdrawn} {
		d.receipts = append(d.receipts, d.receipt(id, cutoff.Add(-time.Minute)))
	}
	return d
}

func (d *draw) receipt(id uuid.UUID, at time.Time) string {
	return fairdraw.Receipt{EventID: d.commitment.EventID, RequestID: id, At: at.UnixMilli(), Commitment: d.hash}.Sign(d.receiptKeys, "draw-1")
}

// publishRoot publishes the statement.
func (d *draw) publishRoot(t testing.TB, at time.Time) *draw {
	t.Helper()
	var err error
	d.statement, err = fairdraw.NewStatement(&d.commitment, d.hash, d.entries.Root(), int64(d.entries.Len()), d.excluded, at)
	require.NoError(t, err)
	d.sign(t)
	d.document.Phase, d.document.Excluded = fairdraw.PhaseRoot, d.excluded
	return d
}

// sign signs the statement as it is.
func (d *draw) sign(t testing.TB) {
	t.Helper()
	text, err := d.statement.Text()
	require.NoError(t, err)
	signed, err := fairdraw.SignStatement(d.keys, &d.commitment, text)
	require.NoError(t, err)
	d.document.Statement = &signed
}

// announce publishes the value of the round, the seed and the result.
func (d *draw) announce(t testing.TB, seed fairdraw.Hash, round uint64) *draw {
	t.Helper()
	var value []byte
	if d.commitment.Beacon != nil {
		r := d.beacon.Round(round)
		d.document.Beacon = &r
		var err error
		value, err = hex.DecodeString(r.Randomness)
		require.NoError(t, err)
	}
	d.document.Phase, d.document.Seed = fairdraw.PhaseSettled, seed.String()
	key := fairdraw.Key(seed, d.hash, d.statement.Root, value)
	if d.commitment.Algorithm == fairdraw.AlgorithmShuffle {
		order := sha256.Sum256(shuffled(key, d.entries))
		d.document.OrderHash = hex.EncodeToString(order[:])
		return d
	}
	d.document.Winners = nil
	for _, w := range fairdraw.Winners(key, d.entries, d.commitment.Winners) {
		d.document.Winners = append(d.document.Winners, w.String())
	}
	return d
}

// drawn returns a complete draw or shuffle.
func drawn(t testing.TB, algorithm string) *draw {
	t.Helper()
	d := newDraw(t, algorithm, nil).publishRoot(t, cutoff.Add(time.Minute))
	return d.announce(t, d.seed, d.statement.Round)
}
