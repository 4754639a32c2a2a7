package fairdraw

import (
	"crypto/sha256"
	"encoding/hex"
)

func (v *verification) checkCancellation() *Fault {
	if v.doc.Phase != PhaseVoid {
		return nil
	}
	if v.doc.Seed != "" || v.hasResult() {
		return fault(VoidLate, "the draw was cancelled, but has a result")
	}
	c := &v.report.Commitment
	if c.Beacon == nil {
		return nil
	}
	round := c.Round
	if v.statement != nil {
		round = v.statement.Round
	}
	if at := c.Beacon.TimeOf(round); v.doc.VoidedAt <= 0 || v.doc.VoidedAt >= at.UnixMilli() {
		return fault(VoidLate, "the draw was cancelled when round %d of %s could be known", round, formatTime(at))
	}
	return nil
}

// checkValue verifies the beacon's round in the document: it must be that of the statement, or the
// later one that decides when the seed is zeros.
func (v *verification) checkValue() *Fault {
	if v.statement == nil {
		return nil
	}
	b, d := v.report.Commitment.Beacon, v.doc
	switch {
	case b == nil && d.Beacon != nil:
		return fault(RoundWrong, "there is a beacon's value, but the terms name no beacon")
	case b == nil:
		v.report.ValueKnown = true
		return nil
	case d.Beacon == nil && (d.Seed != "" || v.hasResult()):
		return fault(ValueMissing, "there is a result, but no value of the beacon")
	case d.Beacon == nil:
		return nil
	}
	want := v.statement.Round
	zero := v.report.Commitment.ZeroSeedRound(want)
	if v.hasZeroSeed() || (d.Seed == "" && d.Beacon.Round == zero) {
		want = zero
	}
	if d.Beacon.Round != want {
		return fault(RoundWrong, "the value is that of round %d, but round %d decides", d.Beacon.Round, want)
	}
	return v.checkSignature()
}

func (v *verification) checkSignature() *Fault {
	r := *v.doc.Beacon
	sum, value := signatureHash(r.Signature), r.Randomness
	// Verify gets the value that the signature gives, so that it fails only for a forged signature.
	r.Randomness = sum.String()
	if err := v.report.Commitment.Beacon.Verify(r); err != nil {
		return fault(ValueForged, "the beacon did not sign this value for round %d", r.Round)
	}
	if value != sum.String() {
		return fault(ValueChanged, "the value is %s, but the beacon's signature gives %s", value, sum)
	}
	v.value, v.report.ValueKnown = sum[:], true
	return nil
}

func signatureHash(signature string) Hash {
	b, _ := hex.DecodeString(signature) // Chain.Verify refuses a signature that cannot be decoded
	return sha256.Sum256(b)
}

func (v *verification) checkSeed() *Fault {
	if v.statement == nil || v.doc.Seed == "" {
		if v.statement != nil && v.hasResult() {
			return fault(SeedMissing, "there is a result, but no seed")
		}
		return nil
	}
	seed, err := ParseHash(v.doc.Seed)
	if err != nil {
		return fault(SeedChanged, "the seed is not %d bytes in lower-case hex", len(seed))
	}
	if v.report.SeedWithheld = v.hasZeroSeed(); !v.report.SeedWithheld && SeedHash(seed) != v.report.Commitment.SeedHash {
		return fault(SeedChanged, "the seed has the hash %s, but %s was committed", SeedHash(seed), v.report.Commitment.SeedHash)
	}
	v.seed = &seed
	return nil
}

// checkSeedRevealedInTime fails if a saved copy has no seed at a time when another round had
// already decided: the operator could then choose between two results that it knew.
func (v *verification) checkSeedRevealedInTime() *Fault {
	c := &v.report.Commitment
	if v.seed == nil || c.Beacon == nil || v.report.SeedWithheld {
		return nil
	}
	deadline := c.Beacon.TimeOf(c.ZeroSeedRound(v.statement.Round))
	for _, e := range v.options.Earlier {
		revealed := e.Seed != "" || e.Phase == PhaseDrawn || e.Phase == PhaseSettled // web pages save only a part of the document
		if !revealed && !e.savedAt().Before(deadline.Add(CopyGrace)) {
			return fault(SeedLate, "the copy of %s has no seed, which had to be revealed before %s", formatTime(e.savedAt()), formatTime(deadline))
		}
	}
	return nil
}

// checkResultInTime fails if there is no result although it was due at least ResultGrace ago.
func (v *verification) checkResultInTime() *Fault {
	now := v.options.Now
	if at := v.doc.savedAt(); !at.IsZero() {
		now = at
	}
	if v.report.Complete || v.doc.Phase == PhaseVoid || now.IsZero() {
		return nil
	}
	c := &v.report.Commitment
	round := c.Round
	if v.statement != nil {
		round = v.statement.Round
	}
	if due := c.ResultDueAt(round); !now.Before(due.Add(ResultGrace)) {
		return fault(ResultOverdue, "the result was due at %s", formatTime(due))
	}
	return nil
}

// hasZeroSeed reports whether zeros replace a seed that was not revealed, in a draw with a beacon.
func (v *verification) hasZeroSeed() bool {
	return v.doc.Seed == Hash{}.String() && v.report.Commitment.Beacon != nil
}

func (v *verification) checkResult() *Fault {
	if v.seed == nil {
		if v.doc.Phase == PhaseDrawn || v.doc.Phase == PhaseSettled {
			return fault(ResultMissing, "phase %s has no result", v.doc.Phase)
		}
		return nil
	}
	v.report.Complete = true
	if v.report.Commitment.Algorithm == AlgorithmShuffle {
		order := sha256.New()
		for _, at := range Order(v.key, v.entries.all) {
			id := v.entries.all.At(int(at))
			order.Write(id[:])
		}
		if got := hex.EncodeToString(order.Sum(nil)); got != v.doc.OrderHash {
			return fault(OrderChanged, "the order has the hash %s, but %q was published", got, v.doc.OrderHash)
		}
		return nil
	}
	winners := v.entries.best.sorted()
	if len(winners) != len(v.doc.Winners) {
		return fault(WinnersNumber, "there are %d winners instead of %d", len(v.doc.Winners), len(winners))
	}
	for i, w := range winners {
		if v.doc.Winners[i] != w.String() {
			return fault(WinnerChanged, "rank %d is %s, but should be %s", i+1, v.doc.Winners[i], w)
		}
	}
	v.report.Winners = len(winners)
	return nil
}

func (v *verification) hasResult() bool { return len(v.doc.Winners) > 0 || v.doc.OrderHash != "" }

func (v *verification) rankReceipts() {
	if !v.report.Complete {
		return
	}
	for i := range v.report.Receipts {
		r := &v.report.Receipts[i]
		if r.Outcome != OutcomeEntered {
			continue
		}
		r.Rank = v.entries.ranks[i].rank
		switch {
		case v.report.Commitment.Algorithm == AlgorithmShuffle:
			r.Outcome = OutcomePlaced
		case r.Rank <= v.report.Commitment.Winners:
			r.Outcome = OutcomeWon
		default:
			r.Outcome = OutcomeLost
		}
	}
}
