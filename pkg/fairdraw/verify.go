package fairdraw

import (
	"iter"
	"time"
)

// Options say what Verify checks besides the document itself.
type Options struct {
	Algorithm string   // the algorithm that the document must have; empty accepts both
	Receipts  []string // receipts whose requests must be among the entries or the exclusions
	// Earlier are saved copies of the same document, which must have the same terms. A copy with a
	// statement proves that the statement was public at the copy's SavedAt; a copy without one proves
	// that it was not. A copy without a seed proves that the seed was not public. SavedAt may be wrong
	// by CopyGrace.
	Earlier []*Document
	// Now is when the document was read, unless it has a SavedAt. If Now is zero, Verify does not
	// check whether the result is overdue.
	Now time.Time
}

// VerificationReport says what a verification found out about a draw without a fault.
type VerificationReport struct {
	Commitment     Commitment
	CommitmentHash Hash
	// Statement is nil before the statement is public; all fields below are then zero.
	Statement *Statement
	// RootSeenAt is the SavedAt of the earliest copy that has this statement and was saved before
	// the round; zero when the statement's time is only the operator's claim.
	RootSeenAt time.Time
	ValueKnown bool // the beacon's value was published and verified, or none is needed
	Complete   bool // the result is published and verified
	// SeedWithheld means that the operator did not reveal the seed: zeros and a later round decided.
	SeedWithheld bool
	Winners      int // the number of winners of a complete draw
	Receipts     []ReceiptReport
}

// ReceiptOutcome is what the draw decided for the request of a receipt.
type ReceiptOutcome string

// Outcomes of receipts.
const (
	OutcomePending  ReceiptOutcome = "PENDING"  // the root is not public yet
	OutcomeEntered  ReceiptOutcome = "ENTERED"  // among the entries; there is no result yet
	OutcomeWon      ReceiptOutcome = "WON"      // rank 1–N
	OutcomeLost     ReceiptOutcome = "LOST"     // a rank after N
	OutcomePlaced   ReceiptOutcome = "PLACED"   // a position of a shuffle
	OutcomeExcluded ReceiptOutcome = "EXCLUDED" // does not take part; ReceiptReport.Reason says why
	OutcomeLate     ReceiptOutcome = "LATE"     // received at the cutoff or later
)

// ReceiptReport is a receipt and what the draw decided for its request.
type ReceiptReport struct {
	Receipt
	Outcome ReceiptOutcome
	Rank    int    // from 1; 0 without a result
	Reason  string // reason of an exclusion
}

// Verify checks everything in a draw's document that can be checked at its phase. entries is the
// published file, which is not read before there is a statement. The error is the first *Fault.
func Verify(d *Document, entries []byte, o Options) (*VerificationReport, error) {
	return VerifyChunks(d, func(yield func([]byte, error) bool) { yield(entries, nil) }, o)
}

// VerifyChunks is like Verify, but reads the file of entries in parts of any size. A part is not
// used after the next one was read. It needs no memory for the entries of a draw, and 28 bytes per
// entry of a shuffle. The error is the first *Fault or a read error.
func VerifyChunks(d *Document, entries iter.Seq2[[]byte, error], o Options) (*VerificationReport, error) {
	v := &verification{doc: d, chunks: entries, options: o, report: new(VerificationReport)}
	for _, check := range []func() *Fault{
		v.checkCommitment, v.checkEarlierTerms, v.openReceipts, v.checkStatement, v.checkEarlierStatements, v.checkRound, v.checkRootPublishedInTime,
		v.checkEntries, v.checkExcluded, v.checkReceipts, v.checkCancellation, v.checkValue, v.checkSeed,
		v.checkSeedRevealedInTime, v.checkResult, v.checkResultInTime,
	} {
		f := check()
		if v.readErr != nil {
			return nil, v.readErr
		}
		if f != nil {
			return nil, f
		}
	}
	v.rankReceipts()
	return v.report, nil
}

// verification is the state that the checks of one call of Verify share.
type verification struct {
	doc     *Document
	chunks  iter.Seq2[[]byte, error]
	readErr error // why the entries could not be read
	options Options
	report  *VerificationReport

	statement *Statement // nil before the statement is public
	entries   *entrySurvey
	excluded  map[string]string // request id → reason of the exclusion
	value     []byte
	seed      *Hash // nil before the announcement
	key       Hash  // ranks the entries, if there is a result; genuine once seed and value are verified
}

func (v *verification) checkCommitment() *Fault {
	c, hash, err := ParseCommitment([]byte(v.doc.Commitment))
	if err != nil {
		return fault(CommitmentInvalid, "the commitment is invalid: %v", err)
	}
	if v.options.Algorithm != "" && c.Algorithm != v.options.Algorithm {
		return fault(AlgorithmOther, "the algorithm is %s instead of %s", c.Algorithm, v.options.Algorithm)
	}
	if v.doc.CommitmentHash != hash.String() {
		return fault(CommitmentChanged, "the commitment has the hash %s, but %s was published", hash, v.doc.CommitmentHash)
	}
	if v.doc.EventID != c.EventID {
		return fault(CommitmentChanged, "the commitment is that of event %s, not of %s", c.EventID, v.doc.EventID)
	}
	v.report.Commitment, v.report.CommitmentHash = c, hash
	return nil
}

func (v *verification) checkEarlierTerms() *Fault {
	for _, e := range v.options.Earlier {
		if e.Commitment == v.doc.Commitment {
			continue
		}
		var old Commitment
		if err := parseCanonical([]byte(e.Commitment), &old); err != nil {
			return fault(CommitmentChanged, "the earlier copy has another commitment")
		}
		return fault(CommitmentChanged, "the earlier copy has other terms: %s", termsChanged(&old, &v.report.Commitment))
	}
	return nil
}

func (v *verification) openReceipts() *Fault {
	for i, s := range v.options.Receipts {
		r, err := OpenReceipt(v.report.Commitment.ReceiptKey[:], s)
		if err != nil {
			return fault(ReceiptForged, "receipt %d is not signed by the key of the commitment", i+1)
		}
		if r.EventID != v.report.Commitment.EventID {
			return fault(ReceiptOther, "the receipt of request %s is one of event %s", r.RequestID, r.EventID)
		}
		if r.Commitment != v.report.CommitmentHash {
			return fault(ReceiptOther, "the receipt of request %s was signed for the commitment %s", r.RequestID, r.Commitment)
		}
		v.report.Receipts = append(v.report.Receipts, ReceiptReport{Receipt: r, Outcome: OutcomePending})
	}
	return nil
}

func (v *verification) checkStatement() *Fault {
	d := v.doc
	if d.Statement == nil {
		switch {
		case d.Phase == PhaseRoot || d.Phase == PhaseDrawn || d.Phase == PhaseSettled:
			return fault(StatementMissing, "phase %s has no statement", d.Phase)
		case d.Beacon != nil || d.Seed != "" || v.hasResult():
			return fault(StatementMissing, "there is a result or a part of it, but no statement")
		}
		return nil
	}
	s, f := v.readStatement(*d.Statement)
	if f != nil {
		return f
	}
	v.statement, v.report.Statement = s, s
	return nil
}

// readStatement verifies and decodes the statement of the document or of an earlier copy.
func (v *verification) readStatement(signed SignedStatement) (*Statement, *Fault) {
	s, err := ParseStatement([]byte(signed.Statement))
	if err != nil {
		return nil, fault(StatementInvalid, "the statement is invalid: %v", err)
	}
	if !signed.verify(v.report.Commitment.StatementKey[:]) {
		return nil, fault(StatementForged, "the statement is not signed by the key of the commitment")
	}
	if s.Commitment != v.report.CommitmentHash {
		return nil, fault(CommitmentChanged, "the statement was signed for the commitment %s", s.Commitment)
	}
	return &s, nil
}

func (v *verification) checkEarlierStatements() *Fault {
	for _, e := range v.options.Earlier {
		if e.Statement == nil {
			continue
		}
		old, f := v.readStatement(*e.Statement)
		if f != nil {
			return fault(f.Code, "the earlier copy: %s", f.Detail)
		}
		switch {
		case v.statement == nil:
			return fault(StatementMissing, "the earlier copy has a statement, this document has none")
		case old.Root != v.statement.Root:
			return fault(RootSecond, "two roots are signed for this draw: %s earlier, now %s", old.Root, v.statement.Root)
		case *old != *v.statement:
			return fault(StatementSecond, "two different statements are signed for this draw")
		}
		v.recordStatementSeen(e)
	}
	return nil
}

// savedAt returns when a copy was saved; the zero time when the copy does not say so.
func (d *Document) savedAt() time.Time {
	if d.SavedAt <= 0 || d.SavedAt > maxMillis {
		return time.Time{}
	}
	return time.UnixMilli(d.SavedAt).UTC()
}

// recordStatementSeen stores in the report when the copy e, which has the statement, was saved, if
// that was before the round and earlier than the stored time.
func (v *verification) recordStatementSeen(e *Document) {
	at := e.savedAt()
	if at.IsZero() || v.report.Commitment.Beacon == nil {
		return
	}
	// The round is computed here, since the round in the statement is checked only later.
	round, _ := v.report.Commitment.RoundFor(time.UnixMilli(v.statement.At))
	if at.Before(v.report.Commitment.Beacon.TimeOf(round)) && (v.report.RootSeenAt.IsZero() || at.Before(v.report.RootSeenAt)) {
		v.report.RootSeenAt = at
	}
}

func (v *verification) checkRound() *Fault {
	if v.statement == nil {
		return nil
	}
	c, at := &v.report.Commitment, time.UnixMilli(v.statement.At).UTC()
	if at.Before(c.Cutoff()) {
		return fault(RootEarly, "the root is of %s, before the cutoff at %s", formatTime(at), formatTime(c.Cutoff()))
	}
	round, missed := c.RoundFor(at)
	if named := v.statement.Round; named != round {
		if named < round && c.Beacon.TimeOf(named).Before(at.Add(RootLead)) {
			return fault(RootLate, "the root is of %s, less than a minute before round %d at %s", formatTime(at), named, formatTime(c.Beacon.TimeOf(named)))
		}
		return fault(RoundWrong, "the statement names round %d, but round %d follows from the terms", named, round)
	}
	if v.statement.MissedRounds != missed {
		return fault(RoundWrong, "the statement names %d missed rounds, but there are %d", v.statement.MissedRounds, missed)
	}
	return nil
}

// checkRootPublishedInTime fails if a saved copy lacks the statement when it had to be public.
func (v *verification) checkRootPublishedInTime() *Fault {
	b := v.report.Commitment.Beacon
	if v.statement == nil || b == nil {
		return nil
	}
	public := b.TimeOf(v.statement.Round).Add(-RootLead)
	for _, e := range v.options.Earlier {
		if e.Statement == nil && !e.savedAt().Before(public.Add(CopyGrace)) {
			return fault(RootUnseen, "the copy of %s has no root, which had to be public at %s", formatTime(e.savedAt()), formatTime(public))
		}
	}
	return nil
}

func (v *verification) checkEntries() *Fault {
	if v.statement == nil {
		return nil
	}
	v.entries = v.newSurvey()
	for chunk, err := range v.chunks {
		if err != nil {
			v.readErr = err
			return nil
		}
		if f := v.entries.addEntries(chunk); f != nil {
			return f
		}
	}
	switch got := int64(v.entries.tree.Count()); {
	case got > v.statement.Count:
		return fault(EntryAdded, "there are %d entries, but %d were signed", got, v.statement.Count)
	case got < v.statement.Count:
		return fault(EntryRemoved, "there are %d entries, but %d were signed", got, v.statement.Count)
	}
	if root := v.entries.tree.Root(); root != v.statement.Root {
		return fault(EntriesChanged, "the entries have the root %s, but %s was signed", root, v.statement.Root)
	}
	return nil
}

func (v *verification) checkExcluded() *Fault {
	if v.statement == nil {
		return nil
	}
	root, err := ExcludedRoot(v.doc.Excluded)
	switch {
	case err != nil:
		return fault(ExcludedChanged, "the exclusions are malformed: %v", err)
	case int64(len(v.doc.Excluded)) != v.statement.ExcludedCount:
		return fault(ExcludedChanged, "%d requests are excluded, but %d were signed", len(v.doc.Excluded), v.statement.ExcludedCount)
	case root != v.statement.ExcludedRoot:
		return fault(ExcludedChanged, "the exclusions have the root %s, but %s was signed", root, v.statement.ExcludedRoot)
	}
	v.excluded = make(map[string]string, len(v.doc.Excluded))
	for _, e := range v.doc.Excluded {
		if id, ok := parseID(e.RequestID); ok {
			if v.entries.wanted[id] {
				return fault(ExcludedChanged, "request %s is excluded and an entry", e.RequestID)
			}
		}
		v.excluded[e.RequestID] = e.Reason
	}
	return nil
}

func (v *verification) checkReceipts() *Fault {
	if v.statement == nil {
		return nil
	}
	for i := range v.report.Receipts {
		r := &v.report.Receipts[i]
		reason, excluded := v.excluded[r.RequestID.String()]
		switch {
		case v.entries.wanted[r.RequestID]:
			r.Outcome = OutcomeEntered
		case excluded:
			r.Outcome, r.Reason = OutcomeExcluded, reason
		case r.At >= v.report.Commitment.CutoffAt:
			r.Outcome = OutcomeLate
		default:
			return fault(ReceiptNotIncluded, "request %s has a receipt of %s, but is neither an entry nor excluded", r.RequestID, formatTime(r.Time()))
		}
	}
	return nil
}
