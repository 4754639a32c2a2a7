package fairdraw_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/fairdraw/beacontest"
)

// tampering changes a drawn document, or the options of Verify. Verify must then report want.
type tampering struct {
	name string
	want fairdraw.FaultCode
	do   func(d *draw, o *fairdraw.Options)
}

// replaced returns text with old replaced once. old must occur in text.
func replaced(t testing.TB, text, old, with string) string {
	t.Helper()
	require.Contains(t, text, old)
	return strings.Replace(text, old, with, 1)
}

// drawnWithTerms returns a complete draw like d, of the same operator, with other terms.
func drawnWithTerms(t testing.TB, d *draw, change func(*fairdraw.Commitment)) *draw {
	t.Helper()
	other := newDraw(t, d.commitment.Algorithm, change).publishRoot(t, cutoff.Add(time.Minute))
	return other.announce(t, other.seed, other.statement.Round)
}

// flipped returns s with its last character changed to another hex digit.
func flipped(s string) string {
	if strings.HasSuffix(s, "0") {
		return s[:len(s)-1] + "1"
	}
	return s[:len(s)-1] + "0"
}

// tamperings returns all cases for a draw, or for a shuffle.
func tamperings(algorithm string) []tampering {
	both := slices.Concat(tamperedTerms(), tamperedStatements(), publicTooLate(), tamperedEntries(), tamperedResults())
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
			d.document.Commitment = drawnWithTerms(d.t, d, func(c *fairdraw.Commitment) { c.CutoffAt -= 3_000_000 }).document.Commitment
		}},
		{"changed cutoff, with its hash", fairdraw.CommitmentChanged, func(d *draw, o *fairdraw.Options) {
			o.Receipts = nil
			other := drawnWithTerms(d.t, d, func(c *fairdraw.Commitment) { c.CutoffAt -= 3_000_000 })
			d.document.Commitment, d.document.CommitmentHash = other.document.Commitment, other.document.CommitmentHash
		}},
		{"everything of other terms, against an earlier copy", fairdraw.CommitmentChanged, func(d *draw, o *fairdraw.Options) {
			o.Earlier, o.Receipts = append(o.Earlier, copyOf(d.t, d, cutoff)), nil
			*d = *drawnWithTerms(d.t, d, func(c *fairdraw.Commitment) { c.CutoffAt -= 3_000_000 })
		}},
		{"everything of other terms, against a receipt", fairdraw.ReceiptOther, func(d *draw, _ *fairdraw.Options) {
			*d = *drawnWithTerms(d.t, d, func(c *fairdraw.Commitment) { c.CutoffAt -= 3_000_000 })
		}},
		{"commitment of another event", fairdraw.CommitmentChanged, func(d *draw, _ *fairdraw.Options) { d.document.EventID = "promo-2" }},
		{"commitment with a space", fairdraw.CommitmentInvalid, func(d *draw, _ *fairdraw.Options) { d.document.Commitment += " " }},
		{"another algorithm", fairdraw.AlgorithmOther, func(_ *draw, o *fairdraw.Options) { o.Algorithm = "urr/other/1" }},
		{"a receipt by another key", fairdraw.ReceiptForged, func(d *draw, o *fairdraw.Options) {
			o.Receipts = append(o.Receipts, fairdraw.Receipt{EventID: "promo-1", RequestID: requestID(2), At: 1, Commitment: d.hash}.Sign(signingKeys(d.t, 2), "draw-1"))
		}},
		{"a receipt of another event", fairdraw.ReceiptOther, func(d *draw, o *fairdraw.Options) {
			o.Receipts = append(o.Receipts, fairdraw.Receipt{EventID: "promo-2", RequestID: requestID(2), At: 1, Commitment: d.hash}.Sign(d.receiptKeys, "draw-1"))
		}},
		{"a receipt by the key of the statement", fairdraw.ReceiptForged, func(d *draw, o *fairdraw.Options) {
			o.Receipts = append(o.Receipts, fairdraw.Receipt{EventID: "promo-1", RequestID: requestID(2), At: 1, Commitment: d.hash}.Sign(d.keys, "draw-1"))
		}},
		{"a beacon whose rounds are of other times", fairdraw.CommitmentInvalid, func(d *draw, _ *fairdraw.Options) {
			// The key and the hash stay the same, so a known value would decide.
			d.document.Commitment = replaced(d.t, d.document.Commitment, `"genesis":1767225600`, `"genesis":1767225603`)
			d.document.Commitment = replaced(d.t, d.document.Commitment, `"round":8769801`, `"round":8769800`)
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
			other.commitment.StatementKey = fairdraw.Hash(other.keys.Public("draw-1"))
			other.statement = d.statement
			other.sign(d.t)
			d.document.Statement = other.document.Statement
		}},
		{"second root", fairdraw.RootSecond, func(d *draw, o *fairdraw.Options) {
			o.Earlier = append(o.Earlier, copyOf(d.t, d, cutoff.Add(2*time.Minute)))
			d.entries = entriesOf(21)
			d.publishRoot(d.t, cutoff.Add(time.Minute)).announce(d.t, d.seed, d.statement.Round)
		}},
		{"second statement", fairdraw.StatementSecond, func(d *draw, o *fairdraw.Options) {
			o.Earlier = append(o.Earlier, copyOf(d.t, d, cutoff.Add(2*time.Minute)))
			d.publishRoot(d.t, cutoff.Add(2*time.Minute)).announce(d.t, d.seed, d.statement.Round)
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

// publicTooLate returns draws in which something was public too late, as saved copies prove.
func publicTooLate() []tampering {
	without := func(at time.Duration) func(*draw, *fairdraw.Options) {
		return func(d *draw, o *fairdraw.Options) {
			early := copyOf(d.t, newDraw(d.t, d.commitment.Algorithm, nil), cutoff.Add(at))
			o.Earlier = append(o.Earlier, early)
		}
	}
	unrevealed := func(at time.Time) func(*draw, *fairdraw.Options) {
		return func(d *draw, o *fairdraw.Options) {
			o.Earlier = append(o.Earlier, copyOf(d.t, newDraw(d.t, d.commitment.Algorithm, nil).publishRoot(d.t, cutoff.Add(time.Minute)), at))
		}
	}
	pending := func(now time.Time, root bool) func(*draw, *fairdraw.Options) {
		return func(d *draw, o *fairdraw.Options) {
			*d = *newDraw(d.t, d.commitment.Algorithm, nil)
			if root {
				d.publishRoot(d.t, cutoff.Add(time.Minute))
			}
			o.Now = now
		}
	}
	announced := cutoff.Add(time.Hour)
	return []tampering{
		{"a root that was not public before its round", fairdraw.RootUnseen, without(9*time.Minute + 15*time.Second)},
		{"a root that was not public at its round", fairdraw.RootUnseen, without(11 * time.Minute)},
		{"a seed that was revealed after the deadline", fairdraw.SeedLate, unrevealed(announced.Add(24*time.Hour + 15*time.Second))},
		{"an overdue result", fairdraw.ResultOverdue, pending(announced.Add(10*time.Minute), true)},
		{"an overdue root", fairdraw.ResultOverdue, pending(announced.AddDate(3, 0, 0), false)},
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
			d.publishRoot(d.t, cutoff.Add(time.Minute)).announce(d.t, d.seed, d.statement.Round)
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
			d.document.Commitment = replaced(d.t, d.document.Commitment, d.commitment.StatementKey.String(), "01"+strings.Repeat("0", 62))
		}},
		{"receipts of small order", fairdraw.CommitmentInvalid, func(d *draw, _ *fairdraw.Options) {
			d.document.Commitment = replaced(d.t, d.document.Commitment, d.commitment.ReceiptKey.String(), "01"+strings.Repeat("0", 62))
		}},
		{"one key for receipts and statement", fairdraw.CommitmentInvalid, func(d *draw, _ *fairdraw.Options) {
			d.document.Commitment = replaced(d.t, d.document.Commitment, d.commitment.ReceiptKey.String(), d.commitment.StatementKey.String())
		}},
		{"an announcement before the value", fairdraw.CommitmentInvalid, func(d *draw, _ *fairdraw.Options) {
			d.document.Commitment = replaced(d.t, d.document.Commitment, `"announcedAt":1793538000000`, `"announcedAt":1793534999999`)
		}},
		{"changed N, with everything but the statement", fairdraw.CommitmentChanged, func(d *draw, o *fairdraw.Options) {
			statement := d.document.Statement
			*d = *drawnWithTerms(d.t, d, func(c *fairdraw.Commitment) { c.Winners = 4 })
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

// TestVerifyDraw and TestVerifyShuffle show that Verify accepts the same documents before.
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
