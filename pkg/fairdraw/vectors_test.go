package fairdraw_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/pkg/fairdraw/beacontest"
)

var update = flag.Bool("update", false, "write the vectors anew")

const vectorsFile = "testdata/vectors.json"

// vectors are test cases that the verifier of the web pages must pass too.
type vectors struct {
	Draw    vector       `json:"draw"`
	Shuffle vector       `json:"shuffle"`
	Cases   []vectorCase `json:"cases"`
}

// vector is the input of a verification.
type vector struct {
	Document map[string]json.RawMessage `json:"document"`
	Entries  []byte                     `json:"entries"` // base64
	Receipts []string                   `json:"receipts"`
	Earlier  []*fairdraw.Document       `json:"earlier"`
}

// vectorCase is a vector, given as its difference from Draw or Shuffle, and the expected result.
type vectorCase struct {
	Name      string                     `json:"name"`
	Base      string                     `json:"base"`
	Algorithm string                     `json:"algorithm,omitempty"` // required one, if not the base's
	Changes   map[string]json.RawMessage `json:"changes,omitempty"`   // fields of the document; null removes one
	Entries   *[]byte                    `json:"entries,omitempty"`
	Receipts  *[]string                  `json:"receipts,omitempty"`
	Earlier   []*fairdraw.Document       `json:"earlier,omitempty"`
	Now       int64                      `json:"now,omitempty"` // ms; 0: not given
	Fault     fairdraw.FaultCode         `json:"fault,omitempty"`
	Report    *vectorReport              `json:"report,omitempty"`
}

type vectorReport struct {
	Complete     bool            `json:"complete"`
	ValueKnown   bool            `json:"valueKnown"`
	SeedWithheld bool            `json:"seedWithheld"`
	Winners      int             `json:"winners"`
	RootSeenAt   int64           `json:"rootSeenAt"` // 0 if no copy proves it
	Receipts     []vectorReceipt `json:"receipts"`
}

type vectorReceipt struct {
	RequestID string                  `json:"requestId"`
	Outcome   fairdraw.ReceiptOutcome `json:"outcome"`
	Rank      int                     `json:"rank"`
	Reason    string                  `json:"reason"`
}

func vectorOf(t *testing.T, d *draw, o fairdraw.Options) vector {
	t.Helper()
	raw, err := json.Marshal(d.document)
	require.NoError(t, err)
	v := vector{Entries: d.entries, Receipts: o.Receipts, Earlier: o.Earlier}
	require.NoError(t, json.Unmarshal(raw, &v.Document))
	return v
}

// caseOf verifies d, and returns the result with the difference from base.
func caseOf(t *testing.T, name string, base vector, d *draw, o fairdraw.Options) vectorCase {
	t.Helper()
	v := vectorOf(t, d, o)
	c := vectorCase{Name: name, Base: "draw", Changes: map[string]json.RawMessage{}, Earlier: o.Earlier}
	if d.commitment.Algorithm == fairdraw.AlgorithmShuffle {
		c.Base = "shuffle"
	}
	if o.Algorithm != d.commitment.Algorithm {
		c.Algorithm = o.Algorithm
	}
	for member, value := range v.Document {
		if !bytes.Equal(value, base.Document[member]) {
			c.Changes[member] = value
		}
	}
	for member := range base.Document {
		if v.Document[member] == nil {
			c.Changes[member] = json.RawMessage("null")
		}
	}
	if !bytes.Equal(v.Entries, base.Entries) {
		entries := append([]byte{}, v.Entries...)
		c.Entries = &entries
	}
	if len(v.Receipts) != len(base.Receipts) || (len(v.Receipts) > 0 && v.Receipts[0] != base.Receipts[0]) {
		receipts := append([]string{}, v.Receipts...)
		c.Receipts = &receipts
	}
	if !o.Now.IsZero() {
		c.Now = o.Now.UnixMilli()
	}
	report, err := verify(d, o)
	if f, ok := err.(*fairdraw.Fault); ok { //nolint:errorlint // documented type
		c.Fault = f.Code
		return c
	}
	require.NoError(t, err, name)
	c.Report = &vectorReport{
		Complete: report.Complete, ValueKnown: report.ValueKnown, SeedWithheld: report.SeedWithheld, Winners: report.Winners,
		Receipts: []vectorReceipt{},
	}
	if !report.RootSeenAt.IsZero() {
		c.Report.RootSeenAt = report.RootSeenAt.UnixMilli()
	}
	for _, r := range report.Receipts {
		c.Report.Receipts = append(c.Report.Receipts, vectorReceipt{r.RequestID.String(), r.Outcome, r.Rank, r.Reason})
	}
	return c
}

// genuine returns draws without a fault, by name.
func genuine(t *testing.T) map[string]*draw {
	t.Helper()
	early := cutoff.Add(time.Minute)
	withheld := newDraw(t, fairdraw.AlgorithmDraw, nil).publishRoot(t, early)
	withheld.announce(t, fairdraw.Hash{}, withheld.commitment.ZeroSeedRound(withheld.statement.Round))
	missed := newDraw(t, fairdraw.AlgorithmDraw, nil).publishRoot(t, cutoff.Add(25*time.Minute))
	missed.announce(t, missed.seed, missed.statement.Round)
	plain := newDraw(t, fairdraw.AlgorithmDraw, func(c *fairdraw.Commitment) { c.Beacon = nil }).publishRoot(t, early)
	plain.announce(t, plain.seed, 0)
	empty := newDraw(t, fairdraw.AlgorithmDraw, nil)
	empty.entries, empty.excluded, empty.receipts = nil, nil, nil
	empty.publishRoot(t, early).announce(t, empty.seed, empty.statement.Round)
	g2, err := beacontest.New(bytes.Repeat([]byte{7}, 32), beacontest.Options{Scheme: beacon.SchemeG2})
	require.NoError(t, err)
	other := newDraw(t, fairdraw.AlgorithmDraw, func(c *fairdraw.Commitment) { c.Beacon.Chain = g2.Chain() }).publishRoot(t, early)
	other.beacon = g2
	other.announce(t, other.seed, other.statement.Round)
	void := newDraw(t, fairdraw.AlgorithmDraw, nil)
	void.document.Phase, void.document.VoidedAt = fairdraw.PhaseVoid, cutoff.UnixMilli()
	large := newDraw(t, fairdraw.AlgorithmDraw, func(c *fairdraw.Commitment) { c.Winners = 30 })
	large.entries = entriesOf(333)
	large.publishRoot(t, early).announce(t, large.seed, large.statement.Round)
	return map[string]*draw{
		"drawn": drawn(t, fairdraw.AlgorithmDraw), "shuffled": drawn(t, fairdraw.AlgorithmShuffle),
		"open": newDraw(t, fairdraw.AlgorithmDraw, nil), "root": newDraw(t, fairdraw.AlgorithmDraw, nil).publishRoot(t, early),
		"seed withheld": withheld, "rounds missed": missed, "without a beacon": plain, "without entries": empty,
		"signatures in G2": other, "void": void, "333 entries": large,
	}
}

func makeVectors(t *testing.T) vectors {
	t.Helper()
	base := map[string]vector{}
	for _, algorithm := range []string{fairdraw.AlgorithmDraw, fairdraw.AlgorithmShuffle} {
		d := drawn(t, algorithm)
		base[algorithm] = vectorOf(t, d, fairdraw.Options{Receipts: d.receipts})
	}
	all := vectors{Draw: base[fairdraw.AlgorithmDraw], Shuffle: base[fairdraw.AlgorithmShuffle]}
	draws := genuine(t)
	for _, name := range slices.Sorted(maps.Keys(draws)) {
		d := draws[name]
		o := fairdraw.Options{Algorithm: d.commitment.Algorithm, Receipts: d.receipts}
		all.Cases = append(all.Cases, caseOf(t, name, base[o.Algorithm], d, o))
		if name == "drawn" {
			o.Earlier = []*fairdraw.Document{copyOf(t, d, cutoff.Add(5*time.Minute))}
			all.Cases = append(all.Cases, caseOf(t, "drawn, with an earlier copy", base[o.Algorithm], d, o))
		}
	}
	for _, algorithm := range []string{fairdraw.AlgorithmDraw, fairdraw.AlgorithmShuffle} {
		for _, tc := range tamperings(algorithm) {
			d := drawn(t, algorithm)
			o := fairdraw.Options{Algorithm: algorithm, Receipts: d.receipts}
			tc.do(d, &o)
			all.Cases = append(all.Cases, caseOf(t, tc.name, base[algorithm], d, o))
		}
	}
	return all
}

// The file has what this package accepts and refuses today. The tests of the web pages read it too.
func TestVectors(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	require.NoError(t, e.Encode(makeVectors(t)))
	if *update {
		require.NoError(t, os.WriteFile(vectorsFile, b.Bytes(), 0o644)) //nolint:gosec // public
	}
	want, err := os.ReadFile(vectorsFile)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String(), "run with -update and review the difference")
}
