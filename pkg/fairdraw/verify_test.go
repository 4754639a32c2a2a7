package fairdraw_test

import (
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/fairdraw/beacontest"
)

func verify(d *draw, o fairdraw.Options) (*fairdraw.Report, error) {
	return fairdraw.Verify(d.document, d.entries, o)
}

// copyOf is a copy of the document as somebody saved it.
func copyOf(t testing.TB, d *draw, savedAt time.Time) *fairdraw.Document {
	t.Helper()
	raw, err := json.Marshal(d.document)
	require.NoError(t, err)
	saved, err := fairdraw.ParseDocument(raw)
	require.NoError(t, err)
	saved.SavedAt = savedAt.UnixMilli()
	return saved
}

// tampering changes a drawn document, or what it is compared with.
type tampering struct {
	name string
	want fairdraw.Code
	do   func(d *draw, o *fairdraw.Options)
}

// replaced is text with one part replaced, which must be there.
func replaced(t testing.TB, text, old, with string) string {
	t.Helper()
	require.Contains(t, text, old)
	return strings.Replace(text, old, with, 1)
}

// again is the same draw with other terms, by the same operator, complete.
func again(t testing.TB, d *draw, change func(*fairdraw.Commitment)) *draw {
	t.Helper()
	other := newDraw(t, d.commitment.Algorithm, change).root(t, cutoff.Add(time.Minute))
	return other.announce(t, other.seed, other.statement.Round)
}

// flipped is text with its last character changed to another hex digit.
func flipped(s string) string {
	if strings.HasSuffix(s, "0") {
		return s[:len(s)-1] + "1"
	}
	return s[:len(s)-1] + "0"
}

// tamperings of a draw, or of a shuffle.
func tamperings(algorithm string) []tampering {
	both := slices.Concat(tamperedTerms(), tamperedStatements(), tamperedEntries(), tamperedResults())
	if algorithm == fairdraw.AlgorithmDraw {
		return append(both, tamperedWinners()...)
	}
	return append(both, tamperedOrders()...)
}

func tamperedTerms() []tampering {
	return []tampering{
		{"changed cutoff", fairdraw.CommitmentInvalid, func(d *draw, _ *fairdraw.Options) {
			d.document.Commitment = replaced(d.t, d.document.Commitment, `"cutoffAt":1793534400000`, `"cutoffAt":1793531400000`)
		}},
		{"changed cutoff, with its round", fairdraw.CommitmentChanged, func(d *draw, _ *fairdraw.Options) {
			d.document.Commitment = again(d.t, d, func(c *fairdraw.Commitment) { c.CutoffAt -= 3_000_000 }).document.Commitment
		}},
		{"changed cutoff, with its hash", fairdraw.CommitmentChanged, func(d *draw, o *fairdraw.Options) {
			o.Receipts = nil
			other := again(d.t, d, func(c *fairdraw.Commitment) { c.CutoffAt -= 3_000_000 })
			d.document.Commitment, d.document.CommitmentHash = other.document.Commitment, other.document.CommitmentHash
		}},
		{"everything of other terms, against an earlier copy", fairdraw.CommitmentChanged, func(d *draw, o *fairdraw.Options) {
			o.Earlier, o.Receipts = append(o.Earlier, copyOf(d.t, d, cutoff)), nil
			*d = *again(d.t, d, func(c *fairdraw.Commitment) { c.CutoffAt -= 3_000_000 })
		}},
		{"everything of other terms, against a receipt", fairdraw.ReceiptOther, func(d *draw, _ *fairdraw.Options) {
			*d = *again(d.t, d, func(c *fairdraw.Commitment) { c.CutoffAt -= 3_000_000 })
		}},
		{"commitment of another event", fairdraw.CommitmentChanged, func(d *draw, _ *fairdraw.Options) { d.document.EventID = "promo-2" }},
		{"commitment with a space", fairdraw.CommitmentInvalid, func(d *draw, _ *fairdraw.Options) { d.document.Commitment += " " }},
		{"another algorithm", fairdraw.AlgorithmOther, func(_ *draw, o *fairdraw.Options) { o.Algorithm = "urr/other/1" }},
		{"a receipt by another key", fairdraw.ReceiptForged, func(d *draw, o *fairdraw.Options) {
			o.Receipts = append(o.Receipts, fairdraw.Receipt{EventID: "promo-1", RequestID: requestID(2), At: 1, Commitment: d.hash}.Sign(signingKeys(d.t, 2), "draw-1"))
		}},
		{"a receipt of another event", fairdraw.ReceiptOther, func(d *draw, o *fairdraw.Options) {
			o.Receipts = append(o.Receipts, fairdraw.Receipt{EventID: "promo-2", RequestID: requestID(2), At: 1, Commitment: d.hash}.Sign(d.keys, "draw-1"))
		}},
		{"a receipt that is not in the root", fairdraw.ReceiptNotIncluded, func(d *draw, o *fairdraw.Options) {
			o.Receipts = append(o.Receipts, d.receipt(requestID(500), cutoff.Add(-time.Millisecond)))
		}},
	}
}

func tamperedStatements() []tampering {
	// resign changes the statement, signs it, and announces its result.
	resign := func(change func(*fairdraw.Statement)) func(*draw, *fairdraw.Options) {
		return func(d *draw, _ *fairdraw.Options) {
			change(&d.statement)
			d.sign(d.t)
			d.announce(d.t, d.seed, d.statement.Round)
		}
	}
	return []tampering{
		{"no statement", fairdraw.StatementMissing, func(d *draw, _ *fairdraw.Options) { d.document.Statement = nil }},
		{"no statement in an early phase", fairdraw.StatementMissing, func(d *draw, _ *fairdraw.Options) {
			d.document.Statement, d.document.Phase = nil, fairdraw.PhaseOpen
		}},
		{"statement with a space", fairdraw.StatementInvalid, func(d *draw, _ *fairdraw.Options) { d.document.Statement.Statement += " " }},
		{"statement changed", fairdraw.StatementForged, func(d *draw, _ *fairdraw.Options) {
			d.document.Statement.Statement = replaced(d.t, d.document.Statement.Statement, `"count":20`, `"count":19`)
		}},
		{"signature by another key", fairdraw.StatementForged, func(d *draw, _ *fairdraw.Options) {
			other := newDraw(d.t, d.commitment.Algorithm, nil)
			other.keys = signingKeys(d.t, 2)
			other.commitment.SigningKey = fairdraw.Hash(other.keys.Public("draw-1"))
			other.statement = d.statement
			other.sign(d.t)
			d.document.Statement = other.document.Statement
		}},
		{"second root", fairdraw.RootSecond, func(d *draw, o *fairdraw.Options) {
			o.Earlier = append(o.Earlier, copyOf(d.t, d, cutoff.Add(2*time.Minute)))
			d.entries = entriesOf(21)
			d.root(d.t, cutoff.Add(time.Minute)).announce(d.t, d.seed, d.statement.Round)
		}},
		{"second statement", fairdraw.StatementSecond, func(d *draw, o *fairdraw.Options) {
			o.Earlier = append(o.Earlier, copyOf(d.t, d, cutoff.Add(2*time.Minute)))
			d.root(d.t, cutoff.Add(2*time.Minute)).announce(d.t, d.seed, d.statement.Round)
		}},
		{"an earlier copy with a forged statement", fairdraw.StatementForged, func(d *draw, o *fairdraw.Options) {
			o.Earlier = append(o.Earlier, copyOf(d.t, d, cutoff))
			o.Earlier[0].Statement.Signature = flipped(o.Earlier[0].Statement.Signature)
		}},
		{"statement taken back", fairdraw.StatementMissing, func(d *draw, o *fairdraw.Options) {
			o.Earlier = append(o.Earlier, copyOf(d.t, d, cutoff))
			d.document = &fairdraw.Document{EventID: d.document.EventID, Phase: fairdraw.PhaseClosed, Commitment: d.document.Commitment, CommitmentHash: d.document.CommitmentHash}
		}},
		{"root before the cutoff", fairdraw.RootEarly, resign(func(s *fairdraw.Statement) { s.At = cutoff.UnixMilli() - 1 })},
		{"root after the round", fairdraw.RootLate, resign(func(s *fairdraw.Statement) { s.At = cutoff.Add(11 * time.Minute).UnixMilli() })},
		{"root less than a minute before the round", fairdraw.RootLate, resign(func(s *fairdraw.Statement) { s.At = cutoff.Add(9*time.Minute).UnixMilli() + 1 })},
		{"a later round than the terms give", fairdraw.RoundWrong, resign(func(s *fairdraw.Statement) { s.Round++ })},
		{"an earlier round than the terms give", fairdraw.RoundWrong, resign(func(s *fairdraw.Statement) { s.Round-- })},
		{"round 0", fairdraw.RootLate, func(d *draw, _ *fairdraw.Options) { d.statement.Round = 0; d.sign(d.t) }},
		{"a missed round that was not missed", fairdraw.RoundWrong, resign(func(s *fairdraw.Statement) { s.MissedRounds = 1 })},
		{"statement of other terms", fairdraw.CommitmentChanged, resign(func(s *fairdraw.Statement) { s.Commitment[0] ^= 1 })},
		{"a count that no list has", fairdraw.EntryRemoved, resign(func(s *fairdraw.Statement) { s.Count = 1 << 52 })},
	}
}

func tamperedEntries() []tampering {
	return []tampering{
		{"added entry", fairdraw.EntryAdded, func(d *draw, _ *fairdraw.Options) { d.entries = entriesOf(21) }},
		{"removed entry", fairdraw.EntryRemoved, func(d *draw, _ *fairdraw.Options) { d.entries = d.entries[16:] }},
		{"replaced entry", fairdraw.EntriesChanged, func(d *draw, _ *fairdraw.Options) {
			d.entries = slices.Concat(d.entries[:19*16], entriesOf(21)[20*16:])
		}},
		{"an entry twice", fairdraw.EntriesUnsorted, func(d *draw, _ *fairdraw.Options) {
			d.entries = slices.Concat(d.entries[:16], d.entries)
		}},
		{"entries out of order", fairdraw.EntriesUnsorted, func(d *draw, _ *fairdraw.Options) {
			d.entries = slices.Concat(d.entries[16:], d.entries[:16])
		}},
		{"half an entry", fairdraw.EntriesUnsorted, func(d *draw, _ *fairdraw.Options) { d.entries = d.entries[:24] }},
		{"hidden exclusion", fairdraw.ExcludedChanged, func(d *draw, _ *fairdraw.Options) { d.document.Excluded = nil }},
		{"another reason", fairdraw.ExcludedChanged, func(d *draw, _ *fairdraw.Options) {
			d.document.Excluded = []fairdraw.Exclusion{{RequestID: d.excluded[0].RequestID, Reason: "REJECTED_LATE"}}
		}},
		{"malformed exclusion", fairdraw.ExcludedChanged, func(d *draw, _ *fairdraw.Options) {
			d.document.Excluded = []fairdraw.Exclusion{{RequestID: strings.ToUpper(d.excluded[0].RequestID), Reason: "WITHDRAWN"}}
		}},
		{"an entry excluded", fairdraw.ExcludedChanged, func(d *draw, _ *fairdraw.Options) {
			d.excluded = []fairdraw.Exclusion{{RequestID: d.entries.At(3).String(), Reason: "WITHDRAWN"}}
			d.root(d.t, cutoff.Add(time.Minute)).announce(d.t, d.seed, d.statement.Round)
		}},
		{"cancelled after the round", fairdraw.VoidLate, func(d *draw, _ *fairdraw.Options) {
			d.document.Phase, d.document.Seed, d.document.Winners, d.document.OrderHash = fairdraw.PhaseVoid, "", nil, ""
			d.document.VoidedAt = cutoff.Add(10 * time.Minute).UnixMilli()
		}},
		{"cancelled with a result", fairdraw.VoidLate, func(d *draw, _ *fairdraw.Options) {
			d.document.Phase, d.document.VoidedAt = fairdraw.PhaseVoid, cutoff.UnixMilli()
		}},
	}
}

func tamperedResults() []tampering {
	return []tampering{
		{"false beacon value", fairdraw.ValueForged, func(d *draw, _ *fairdraw.Options) {
			forger, err := beacontest.New(slices.Repeat([]byte{8}, 32), beacontest.Options{})
			require.NoError(d.t, err)
			d.beacon = forger
			d.announce(d.t, d.seed, d.statement.Round)
		}},
		{"changed value", fairdraw.ValueChanged, func(d *draw, _ *fairdraw.Options) {
			d.document.Beacon.Randomness = flipped(d.document.Beacon.Randomness)
		}},
		{"changed signature", fairdraw.ValueForged, func(d *draw, _ *fairdraw.Options) {
			d.document.Beacon.Signature = flipped(d.document.Beacon.Signature)
		}},
		{"signature in capitals", fairdraw.ValueForged, func(d *draw, _ *fairdraw.Options) {
			d.document.Beacon.Signature = strings.ToUpper(d.document.Beacon.Signature)
		}},
		{"value of another round", fairdraw.RoundWrong, func(d *draw, _ *fairdraw.Options) { d.announce(d.t, d.seed, d.statement.Round+1) }},
		{"value of another round under this number", fairdraw.ValueForged, func(d *draw, _ *fairdraw.Options) {
			round := d.statement.Round
			d.announce(d.t, d.seed, round+1).document.Beacon.Round = round
		}},
		{"no value", fairdraw.ValueMissing, func(d *draw, _ *fairdraw.Options) { d.document.Beacon = nil }},
		{"changed seed", fairdraw.SeedChanged, func(d *draw, _ *fairdraw.Options) {
			d.announce(d.t, fairdraw.Hash{5}, d.statement.Round)
		}},
		{"malformed seed", fairdraw.SeedChanged, func(d *draw, _ *fairdraw.Options) { d.document.Seed += "00" }},
		{"no seed", fairdraw.SeedMissing, func(d *draw, _ *fairdraw.Options) { d.document.Seed = "" }},
		{"zero seed for the first round", fairdraw.RoundWrong, func(d *draw, _ *fairdraw.Options) {
			d.announce(d.t, fairdraw.Hash{}, d.statement.Round)
		}},
		{"real seed for the round of the zero seed", fairdraw.RoundWrong, func(d *draw, _ *fairdraw.Options) {
			d.announce(d.t, d.seed, d.commitment.ZeroSeedRound(d.statement.Round))
		}},
		{"no result", fairdraw.ResultMissing, func(d *draw, _ *fairdraw.Options) {
			d.document.Seed, d.document.Winners, d.document.OrderHash = "", nil, ""
		}},
	}
}

func tamperedWinners() []tampering {
	return []tampering{
		{"changed N", fairdraw.CommitmentChanged, func(d *draw, _ *fairdraw.Options) {
			d.document.Commitment = replaced(d.t, d.document.Commitment, `"winners":3`, `"winners":4`)
		}},
		{"an unknown term", fairdraw.CommitmentInvalid, func(d *draw, _ *fairdraw.Options) {
			d.document.Commitment = replaced(d.t, d.document.Commitment, `"winners":3`, `"winners":3,"x":1`)
		}},
		{"a term twice", fairdraw.CommitmentInvalid, func(d *draw, _ *fairdraw.Options) {
			d.document.Commitment = replaced(d.t, d.document.Commitment, `"winners":3`, `"winners":4,"winners":3`)
		}},
		{"a missing term", fairdraw.CommitmentInvalid, func(d *draw, _ *fairdraw.Options) {
			d.document.Commitment = replaced(d.t, d.document.Commitment, `"seedKid":"s-1",`, "")
		}},
		{"a number written otherwise", fairdraw.CommitmentInvalid, func(d *draw, _ *fairdraw.Options) {
			d.document.Commitment = replaced(d.t, d.document.Commitment, `"winners":3`, `"winners":3.0`)
		}},
		{"no winners in the terms", fairdraw.CommitmentInvalid, func(d *draw, _ *fairdraw.Options) {
			d.document.Commitment = replaced(d.t, d.document.Commitment, `"winners":3`, `"winners":0`)
		}},
		{"a key of the beacon that is not on the curve", fairdraw.CommitmentInvalid, func(d *draw, _ *fairdraw.Options) {
			d.document.Commitment = replaced(d.t, d.document.Commitment, d.commitment.Beacon.PublicKey, strings.Repeat("a", 192))
		}},
		{"a signing key of small order", fairdraw.CommitmentInvalid, func(d *draw, _ *fairdraw.Options) {
			d.document.Commitment = replaced(d.t, d.document.Commitment, d.commitment.SigningKey.String(), "01"+strings.Repeat("0", 62))
		}},
		{"an announcement before the value", fairdraw.CommitmentInvalid, func(d *draw, _ *fairdraw.Options) {
			d.document.Commitment = replaced(d.t, d.document.Commitment, `"announcedAt":1793538000000`, `"announcedAt":1793535119999`)
		}},
		{"changed N, with everything but the statement", fairdraw.CommitmentChanged, func(d *draw, o *fairdraw.Options) {
			statement := d.document.Statement
			*d = *again(d.t, d, func(c *fairdraw.Commitment) { c.Winners = 4 })
			d.document.Statement, o.Receipts = statement, nil
		}},
		{"changed winner", fairdraw.WinnerChanged, func(d *draw, _ *fairdraw.Options) {
			loser := slices.IndexFunc([]int{0, 1, 2, 3}, func(i int) bool { return !slices.Contains(d.document.Winners, d.entries.At(i).String()) })
			d.document.Winners[1] = d.entries.At(loser).String()
		}},
		{"winners in another order", fairdraw.WinnerChanged, func(d *draw, _ *fairdraw.Options) { slices.Reverse(d.document.Winners) }},
		{"one winner more", fairdraw.WinnersNumber, func(d *draw, _ *fairdraw.Options) {
			d.document.Winners = append(d.document.Winners, d.entries.At(0).String())
		}},
		{"one winner less", fairdraw.WinnersNumber, func(d *draw, _ *fairdraw.Options) { d.document.Winners = d.document.Winners[:2] }},
	}
}

func tamperedOrders() []tampering {
	return []tampering{
		{"changed order", fairdraw.OrderChanged, func(d *draw, _ *fairdraw.Options) { d.document.OrderHash = flipped(d.document.OrderHash) }},
		{"no order", fairdraw.OrderChanged, func(d *draw, _ *fairdraw.Options) { d.document.OrderHash = "" }},
	}
}

// TestVerifyDraw and TestVerifyShuffle show that the same documents are accepted before.
func TestTampering(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{fairdraw.AlgorithmDraw, fairdraw.AlgorithmShuffle} {
		for _, tc := range tamperings(algorithm) {
			t.Run(algorithm+" "+tc.name, func(t *testing.T) {
				t.Parallel()
				d := drawn(t, algorithm)
				o := fairdraw.Options{Algorithm: algorithm, Receipts: d.receipts}
				tc.do(d, &o)
				_, err := verify(d, o)
				var f *fairdraw.Fault
				require.ErrorAs(t, err, &f)
				require.Equal(t, tc.want, f.Code, f.Detail)
				require.NotEmpty(t, f.Detail)
			})
		}
	}
}

func TestOtherTermsAreNamed(t *testing.T) {
	t.Parallel()
	d := drawn(t, fairdraw.AlgorithmDraw)
	earlier := copyOf(t, d, cutoff)
	d = again(t, d, func(c *fairdraw.Commitment) { c.Winners, c.Beacon, c.Round = 4, nil, 0 })
	_, err := verify(d, fairdraw.Options{Earlier: []*fairdraw.Document{earlier}})
	require.ErrorContains(t, err, "winners was 3, is 4")
	require.ErrorContains(t, err, "is absent")
	require.NotContains(t, err.Error(), "cutoffAt")
}

func TestVerifyDraw(t *testing.T) {
	t.Parallel()
	d := drawn(t, fairdraw.AlgorithmDraw)
	late := d.receipt(requestID(600), cutoff)
	r, err := verify(d, fairdraw.Options{Receipts: append(d.receipts, late)})
	require.NoError(t, err)
	require.True(t, r.Complete)
	require.True(t, r.ValueKnown)
	require.False(t, r.SeedWithheld)
	require.Equal(t, 3, r.Winners)
	require.True(t, r.RootSeenAt.IsZero(), "without an earlier copy the time is a claim")
	require.Equal(t, fairdraw.OutcomeExcluded, r.Receipts[2].Outcome)
	require.Equal(t, "WITHDRAWN", r.Receipts[2].Reason)
	require.Equal(t, fairdraw.OutcomeLate, r.Receipts[3].Outcome)
	for _, x := range r.Receipts[:2] {
		if rank := slices.Index(d.document.Winners, x.RequestID.String()); rank >= 0 {
			require.Equal(t, fairdraw.OutcomeWon, x.Outcome)
			require.Equal(t, rank+1, x.Rank)
		} else {
			require.Equal(t, fairdraw.OutcomeLost, x.Outcome)
			require.Greater(t, x.Rank, 3)
		}
	}
}

func TestVerifyShuffle(t *testing.T) {
	t.Parallel()
	d := drawn(t, fairdraw.AlgorithmShuffle)
	r, err := verify(d, fairdraw.Options{Receipts: d.receipts})
	require.NoError(t, err)
	require.True(t, r.Complete)
	value, err := hex.DecodeString(d.document.Beacon.Randomness)
	require.NoError(t, err)
	order := fairdraw.Shuffle(fairdraw.Key(d.seed, d.hash, d.statement.Root, value), d.entries)
	for _, x := range r.Receipts[:2] {
		require.Equal(t, fairdraw.OutcomePlaced, x.Outcome)
		require.Equal(t, x.RequestID[:], order[16*(x.Rank-1):16*x.Rank])
	}
}

// Every phase verifies as far as it has come.
func TestVerifyPhases(t *testing.T) {
	t.Parallel()
	d := newDraw(t, fairdraw.AlgorithmDraw, nil)
	o := fairdraw.Options{Receipts: d.receipts[:1]}
	check := func(outcome fairdraw.Outcome, valueKnown bool) {
		t.Helper()
		r, err := verify(d, o)
		require.NoError(t, err)
		require.False(t, r.Complete)
		require.Equal(t, valueKnown, r.ValueKnown)
		require.Equal(t, outcome, r.Receipts[0].Outcome)
	}
	check(fairdraw.OutcomePending, false)
	d.document.Phase = fairdraw.PhaseClosed
	check(fairdraw.OutcomePending, false)
	d.root(t, cutoff.Add(time.Minute))
	check(fairdraw.OutcomeEntered, false)
	value := d.beacon.Round(d.statement.Round)
	d.document.Beacon = &value
	check(fairdraw.OutcomeEntered, true)
	value = d.beacon.Round(d.commitment.ZeroSeedRound(d.statement.Round))
	check(fairdraw.OutcomeEntered, true)
	d.document.Phase, d.document.Beacon, d.document.VoidedAt = fairdraw.PhaseVoid, nil, cutoff.Add(10*time.Minute).UnixMilli()-1
	check(fairdraw.OutcomeEntered, false)
}

func TestRootIsProvenByAnEarlierCopy(t *testing.T) {
	t.Parallel()
	d := newDraw(t, fairdraw.AlgorithmDraw, nil).root(t, cutoff.Add(time.Minute))
	round := d.commitment.Beacon.TimeOf(d.statement.Round)
	earlier := func(at ...time.Time) (copies []*fairdraw.Document) {
		for _, a := range at {
			copies = append(copies, copyOf(t, d, a))
		}
		return copies
	}
	before := round.Add(-time.Millisecond)
	for name, tc := range map[string]struct {
		copies []*fairdraw.Document
		want   time.Time
	}{
		"before the round":    {earlier(before), before},
		"the earliest counts": {earlier(before, cutoff.Add(2*time.Minute), before), cutoff.Add(2 * time.Minute)},
		"at the round":        {earlier(round), time.Time{}},
		"at an unknown time":  {earlier(time.UnixMilli(0)), time.Time{}},
	} {
		full := newDraw(t, fairdraw.AlgorithmDraw, nil).root(t, cutoff.Add(time.Minute))
		full.announce(t, full.seed, full.statement.Round)
		r, err := verify(full, fairdraw.Options{Earlier: tc.copies})
		require.NoError(t, err, name)
		require.Equal(t, tc.want, r.RootSeenAt, name)
	}
}

func TestMissedRounds(t *testing.T) {
	t.Parallel()
	d := newDraw(t, fairdraw.AlgorithmDraw, nil).root(t, cutoff.Add(25*time.Minute))
	require.EqualValues(t, 2, d.statement.MissedRounds)
	r, err := verify(d.announce(t, d.seed, d.statement.Round), fairdraw.Options{})
	require.NoError(t, err)
	require.EqualValues(t, 2, r.Statement.MissedRounds)
}

func TestZeroSeed(t *testing.T) {
	t.Parallel()
	d := newDraw(t, fairdraw.AlgorithmDraw, nil).root(t, cutoff.Add(time.Minute))
	r, err := verify(d.announce(t, fairdraw.Hash{}, d.commitment.ZeroSeedRound(d.statement.Round)), fairdraw.Options{})
	require.NoError(t, err)
	require.True(t, r.SeedWithheld)
	require.True(t, r.Complete)
}

func TestWithoutABeacon(t *testing.T) {
	t.Parallel()
	d := newDraw(t, fairdraw.AlgorithmDraw, func(c *fairdraw.Commitment) { c.Beacon = nil }).root(t, cutoff.Add(time.Minute))
	r, err := verify(d.announce(t, d.seed, 0), fairdraw.Options{})
	require.NoError(t, err)
	require.True(t, r.Complete)
	_, err = verify(d.announce(t, fairdraw.Hash{}, 0), fairdraw.Options{})
	require.ErrorContains(t, err, string(fairdraw.SeedChanged), "no later round could replace the seed")
	value := d.beacon.Round(1)
	d.announce(t, d.seed, 0).document.Beacon = &value
	_, err = verify(d, fairdraw.Options{})
	require.ErrorContains(t, err, string(fairdraw.RoundWrong))
}

func TestSmallDraws(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 3} {
		d := newDraw(t, fairdraw.AlgorithmDraw, nil)
		d.entries, d.excluded = entriesOf(n), nil
		d.root(t, cutoff.Add(time.Minute)).announce(t, d.seed, d.statement.Round)
		r, err := verify(d, fairdraw.Options{})
		require.NoError(t, err)
		require.True(t, r.Complete)
		require.Equal(t, n, r.Winners)
	}
}

func TestParseDocument(t *testing.T) {
	t.Parallel()
	d := drawn(t, fairdraw.AlgorithmDraw)
	raw, err := json.Marshal(d.document)
	require.NoError(t, err)
	// Zero values and members of later releases are accepted.
	got, err := fairdraw.ParseDocument([]byte(replaced(t, string(raw), `{"eventId"`, `{"orderHash":"","later":{"x":1},"voidedAt":0,"eventId"`)))
	require.NoError(t, err)
	require.Equal(t, d.document, got)
	for _, s := range []string{"", "null", "[]", "{}", `{"commitment":7}`, string(raw) + "x"} {
		_, err := fairdraw.ParseDocument([]byte(s))
		require.ErrorIs(t, err, fairdraw.ErrMalformed, s)
	}
}
