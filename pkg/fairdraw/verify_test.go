package fairdraw_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/fairdraw"
)

// verify calls Verify, and VerifyChunks with parts of two sizes. All must have the same result.
func verify(d *draw, o fairdraw.Options) (*fairdraw.VerificationReport, error) {
	report, err := fairdraw.Verify(d.document, d.entries, o)
	for _, size := range []int{16, 7 * 16} {
		parts := func(yield func([]byte, error) bool) {
			buffer := make([]byte, size) // reused for each part, like the buffer of a reader
			for part := range slices.Chunk(d.entries, size) {
				if !yield(buffer[:copy(buffer, part)], nil) {
					return
				}
			}
		}
		byParts, failure := fairdraw.VerifyChunks(d.document, parts, o)
		if diff := cmp.Diff(report, byParts); diff != "" || fmt.Sprint(err) != fmt.Sprint(failure) {
			return nil, fmt.Errorf("parts of %d bytes: %w instead of %w, %s", size, failure, err, diff)
		}
	}
	return report, err
}

// An error while reading a part is returned, and is no fault of the draw.
func TestEntriesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	d := drawn(t, fairdraw.AlgorithmDraw)
	away := errors.New("away")
	_, err := fairdraw.VerifyChunks(d.document, func(yield func([]byte, error) bool) {
		_ = yield(d.entries[:32], nil) && yield(nil, away)
	}, fairdraw.Options{})
	require.ErrorIs(t, err, away)
	var fault *fairdraw.Fault
	require.NotErrorAs(t, err, &fault)
}

// copyOf returns a copy of the document as somebody saved it at savedAt.
func copyOf(t testing.TB, d *draw, savedAt time.Time) *fairdraw.Document {
	t.Helper()
	raw, err := json.Marshal(d.document)
	require.NoError(t, err)
	saved, err := fairdraw.ParseDocument(raw)
	require.NoError(t, err)
	saved.SavedAt = savedAt.UnixMilli()
	return saved
}

func TestOtherTermsAreNamed(t *testing.T) {
	t.Parallel()
	d := drawn(t, fairdraw.AlgorithmDraw)
	earlier := copyOf(t, d, cutoff)
	d = drawnWithTerms(t, d, func(c *fairdraw.Commitment) { c.Winners, c.Beacon, c.Round = 4, nil, 0 })
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
	order := shuffled(fairdraw.Key(d.seed, d.hash, d.statement.Root, value), d.entries)
	for _, x := range r.Receipts[:2] {
		require.Equal(t, fairdraw.OutcomePlaced, x.Outcome)
		require.Equal(t, x.RequestID[:], order[16*(x.Rank-1):16*x.Rank])
	}
}

// Verify accepts the document of every phase, and reports what is known in that phase.
func TestVerifyPhases(t *testing.T) {
	t.Parallel()
	d := newDraw(t, fairdraw.AlgorithmDraw, nil)
	o := fairdraw.Options{Receipts: d.receipts[:1]}
	check := func(outcome fairdraw.ReceiptOutcome, valueKnown bool) {
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
	d.publishRoot(t, cutoff.Add(time.Minute))
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
	d := newDraw(t, fairdraw.AlgorithmDraw, nil).publishRoot(t, cutoff.Add(time.Minute))
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
		full := newDraw(t, fairdraw.AlgorithmDraw, nil).publishRoot(t, cutoff.Add(time.Minute))
		full.announce(t, full.seed, full.statement.Round)
		r, err := verify(full, fairdraw.Options{Earlier: tc.copies})
		require.NoError(t, err, name)
		require.Equal(t, tc.want, r.RootSeenAt, name)
	}
}

func TestMissedRounds(t *testing.T) {
	t.Parallel()
	d := newDraw(t, fairdraw.AlgorithmDraw, nil).publishRoot(t, cutoff.Add(25*time.Minute))
	require.EqualValues(t, 2, d.statement.MissedRounds)
	r, err := verify(d.announce(t, d.seed, d.statement.Round), fairdraw.Options{})
	require.NoError(t, err)
	require.EqualValues(t, 2, r.Statement.MissedRounds)
}

func TestZeroSeed(t *testing.T) {
	t.Parallel()
	d := newDraw(t, fairdraw.AlgorithmDraw, nil).publishRoot(t, cutoff.Add(time.Minute))
	r, err := verify(d.announce(t, fairdraw.Hash{}, d.commitment.ZeroSeedRound(d.statement.Round)), fairdraw.Options{})
	require.NoError(t, err)
	require.True(t, r.SeedWithheld)
	require.True(t, r.Complete)
}

func TestWithoutABeacon(t *testing.T) {
	t.Parallel()
	d := newDraw(t, fairdraw.AlgorithmDraw, func(c *fairdraw.Commitment) { c.Beacon = nil }).publishRoot(t, cutoff.Add(time.Minute))
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
		d.publishRoot(t, cutoff.Add(time.Minute)).announce(t, d.seed, d.statement.Round)
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
	// Zero values and fields of later releases are accepted.
	got, err := fairdraw.ParseDocument([]byte(replaced(t, string(raw), `{"eventId"`, `{"orderHash":"","later":{"x":1},"voidedAt":0,"eventId"`)))
	require.NoError(t, err)
	require.Equal(t, d.document, got)
	for _, s := range []string{"", "null", "[]", "{}", `{"commitment":7}`, string(raw) + "x"} {
		_, err := fairdraw.ParseDocument([]byte(s))
		require.ErrorIs(t, err, fairdraw.ErrMalformed, s)
	}
}

// Copies from before a deadline, and a document that was saved in time, show no fault.
func TestInTime(t *testing.T) {
	t.Parallel()
	announced := cutoff.Add(time.Hour)
	d := drawn(t, fairdraw.AlgorithmDraw)
	open := newDraw(t, fairdraw.AlgorithmDraw, nil)
	root := newDraw(t, fairdraw.AlgorithmDraw, nil).publishRoot(t, cutoff.Add(time.Minute))
	years := announced.AddDate(10, 0, 0)
	for name, tc := range map[string]struct {
		d       *draw
		earlier []*fairdraw.Document
		now     time.Time
	}{
		"a root that came with its deadline": {d, []*fairdraw.Document{copyOf(t, open, cutoff.Add(9*time.Minute+14*time.Second))}, years},
		"a copy of an unknown time":          {d, []*fairdraw.Document{copyOf(t, open, time.UnixMilli(0))}, years},
		"a seed before the deadline":         {d, []*fairdraw.Document{copyOf(t, root, announced.Add(24*time.Hour))}, years},
		"a copy with the seed":               {d, []*fairdraw.Document{copyOf(t, d, years)}, years},
		"a result that is due":               {root, nil, announced.Add(10*time.Minute - 1)},
		"nobody says the time":               {root, nil, time.Time{}},
	} {
		_, err := verify(tc.d, fairdraw.Options{Earlier: tc.earlier, Now: tc.now})
		require.NoError(t, err, name)
	}
	root.document.SavedAt = announced.UnixMilli()
	_, err := verify(root, fairdraw.Options{Now: years})
	require.NoError(t, err, "a copy is as old as it says")
	voided := newDraw(t, fairdraw.AlgorithmDraw, nil)
	voided.document.Phase, voided.document.VoidedAt = fairdraw.PhaseVoid, cutoff.UnixMilli()
	_, err = verify(voided, fairdraw.Options{Now: years})
	require.NoError(t, err, "a cancelled draw has no result")
}
