package verify

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/platform"
)

// published is a draw or a shuffle from the test vectors of pkg/fairdraw.
type published struct {
	Document json.RawMessage `json:"document"`
	Entries  []byte          `json:"entries"`
	Receipts []string        `json:"receipts"`
}

func vectors(t *testing.T) (draw, shuffle published) {
	t.Helper()
	layout, err := platform.Find()
	require.NoError(t, err)
	raw, err := os.ReadFile(filepath.Join(layout.Root, "pkg/fairdraw/testdata/vectors.json"))
	require.NoError(t, err)
	var v struct{ Draw, Shuffle published }
	require.NoError(t, json.Unmarshal(raw, &v))
	return v.Draw, v.Shuffle
}

// beforeRound is a time after the publication of the root, but before the vectors' beacon round.
var beforeRound = time.Date(2026, 11, 1, 12, 5, 0, 0, time.UTC)

// call runs the command verify, which trusts the beacon of the vectors.
func call(t *testing.T, args ...string) (code int, out, problems string) {
	t.Helper()
	var o, p bytes.Buffer
	code = run(t, append(args, "--trust-chain", developmentChain), beforeRound, &o, &p)
	return code, o.String(), p.String()
}

// developmentChain is the hash of the chain of the vectors' beacon.
const developmentChain = "39f39081d41ec7de6603369cb1c5e5cdcfda5cb72518b354614ca6bfb7eb3444"

func run(t *testing.T, args []string, now time.Time, out, problems *bytes.Buffer) int {
	t.Helper()
	return Run(t.Context(), args, out, problems, func() time.Time { return now })
}

func file(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

// writeDraw writes a draw to two files, and returns the path of the document.
func writeDraw(t *testing.T, p published) string {
	t.Helper()
	path := file(t, "draw.json", p.Document)
	require.NoError(t, os.WriteFile(path+".entries", p.Entries, 0o600))
	return path
}

func TestDrawOnDisk(t *testing.T) {
	t.Parallel()
	draw, shuffle := vectors(t)
	receipt := file(t, "receipt", []byte(draw.Receipts[0]+"\n"))
	answer := file(t, "answer.json", []byte(`{"requestId": "x", "receipt": "`+draw.Receipts[2]+`"}`))
	code, out, problems := call(t, "draw", "--receipt", receipt, writeDraw(t, draw), "--receipt", answer)
	require.Equal(t, 0, code, out+problems)
	require.Contains(t, out, "promo-1: a draw of 3")
	require.Contains(t, out, "claimed by the operator")
	require.Contains(t, out, "whoever has its key knows every value")
	require.Regexp(t, `receipt +\S+ (won|did not win), rank \d+\n`, out)
	require.Contains(t, out, "was excluded by the operator: WITHDRAWN")
	require.True(t, strings.HasSuffix(out, "\nok: all 3 winners are genuine\n"), out)

	code, out, _ = call(t, "shuffle", writeDraw(t, shuffle))
	require.Equal(t, 0, code)
	require.Contains(t, out, "ok: the order of all entries is genuine\n")
	code, out, _ = call(t, "draw", writeDraw(t, shuffle))
	require.Equal(t, 1, code)
	require.Contains(t, out, "FAULT ALGORITHM_OTHER: ")
}

// A copy that was saved from the URL before the round proves that the root existed then.
func TestDrawByURL(t *testing.T) {
	t.Parallel()
	draw, _ := vectors(t)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/draws/promo-1", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(draw.Document) })
	mux.HandleFunc("GET /api/v1/draws/promo-1/entries/0", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(draw.Entries) })
	server := httptest.NewServer(mux)
	defer server.Close()
	url, saved := server.URL+"/api/v1/draws/promo-1", filepath.Join(t.TempDir(), "copy.json")
	code, out, problems := call(t, "draw", url, "--save", saved)
	require.Equal(t, 0, code, out+problems)
	require.Contains(t, out, "claimed by the operator")
	code, out, problems = call(t, "draw", url, "--earlier", saved)
	require.Equal(t, 0, code, out+problems)
	require.Contains(t, out, "proven before the round by the copy of 2026-11-01T12:05:00Z")
	code, out, _ = call(t, "draw", saved)
	require.Equal(t, 0, code, out)
	code, _, problems = call(t, "draw", url, "--save", saved)
	require.Equal(t, 2, code, "a copy is never replaced")
	require.Contains(t, problems, "exists")
	code, _, problems = call(t, "draw", server.URL+"/api/v1/draws/another")
	require.Equal(t, 2, code)
	require.Contains(t, problems, "404")
}

// The entries of a draw are read in chunks up to the first one that is not full, so that entries
// after the signed ones are found. If a chunk is missing, no copy is saved.
func TestChunksByURL(t *testing.T) {
	t.Parallel()
	draw, _ := vectors(t)
	entries := slices.Clone(draw.Entries)
	for len(entries) < 2*pieceSize {
		entries = append(entries, bytes.Repeat([]byte{0xff}, 12)...)
		entries = binary.BigEndian.AppendUint32(entries, uint32(len(entries))) //nolint:gosec // small
	}
	var requested atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("GET /draws/promo-1", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(draw.Document) })
	mux.HandleFunc("GET /draws/promo-1/entries/{n}", func(w http.ResponseWriter, r *http.Request) {
		requested.Add(1)
		n, _ := strconv.Atoi(r.PathValue("n"))
		_, _ = w.Write(entries[min(n*pieceSize, len(entries)):min((n+1)*pieceSize, len(entries))])
	})
	mux.HandleFunc("GET /broken", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(draw.Document) })
	mux.HandleFunc("GET /broken/entries/0", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(entries[:pieceSize]) })
	server := httptest.NewServer(mux)
	defer server.Close()
	code, out, _ := call(t, "draw", server.URL+"/draws/promo-1")
	require.Equal(t, 1, code)
	require.Contains(t, out, "FAULT ENTRY_ADDED: there are 40000 entries, but 20 were signed")
	require.Equal(t, int64(3), requested.Load(), "the last one is empty")

	saved := filepath.Join(t.TempDir(), "copy.json")
	code, _, problems := call(t, "draw", server.URL+"/broken", "--save", saved)
	require.Equal(t, 2, code)
	require.Contains(t, problems, "/broken/entries/1: 404")
	require.NoFileExists(t, saved)
	require.NoFileExists(t, saved+".entries")
	code, _, _ = call(t, "draw", server.URL+"/draws/promo-1", "--save", saved)
	require.Equal(t, 1, code, "what is faulty is evidence too")
	kept, err := os.ReadFile(saved + ".entries")
	require.NoError(t, err)
	require.Equal(t, entries, kept)
}

func TestFaultsAreNamed(t *testing.T) {
	t.Parallel()
	draw, shuffle := vectors(t)
	removed := draw
	removed.Entries = draw.Entries[16:]
	code, out, _ := call(t, "draw", writeDraw(t, removed))
	require.Equal(t, 1, code)
	require.Regexp(t, `^FAULT ENTRY_REMOVED: there are 19 entries, but 20 were signed\n$`, out)
	code, out, _ = call(t, "draw", writeDraw(t, draw), "--earlier", file(t, "other.json", shuffle.Document))
	require.Equal(t, 1, code)
	require.Contains(t, out, `FAULT COMMITMENT_CHANGED: the earlier copy has other terms: algorithm was "urr/shuffle/1", is "urr/draw/1"`)
	code, out, _ = call(t, "draw", writeDraw(t, draw), "--receipt", file(t, "forged", []byte("AAAA")))
	require.Equal(t, 1, code)
	require.Contains(t, out, "FAULT RECEIPT_FORGED: ")
}

func TestControlCharactersAreReplaced(t *testing.T) {
	t.Parallel()
	draw, _ := vectors(t)
	forged := bytes.Replace(draw.Document, []byte(`"eventId": "promo-1"`), []byte(`"eventId": "x\u001b[1A\rok: genuine"`), 1)
	forged = bytes.Replace(forged, []byte(`"eventId":"promo-1"`), []byte(`"eventId":"x\u001b[1A\rok: genuine"`), 1)
	code, out, _ := call(t, "draw", writeDraw(t, published{Document: forged, Entries: draw.Entries}))
	require.Equal(t, 1, code)
	require.Contains(t, out, "x\ufffd[1A\ufffdok: genuine")
	require.NotContains(t, out, "\x1b")
}

func TestWhatCannotBeChecked(t *testing.T) {
	t.Parallel()
	draw, _ := vectors(t)
	alone := file(t, "draw.json", draw.Document)
	for name, args := range map[string][]string{
		"nothing":               {},
		"another command":       {"lottery", alone},
		"no source":             {"draw"},
		"two sources":           {"draw", alone, alone},
		"an unknown option":     {"draw", alone, "--x"},
		"no such file":          {"draw", alone + "x"},
		"no entries":            {"draw", alone},
		"no such entries":       {"draw", alone, "--entries", alone + "x"},
		"no such receipt":       {"draw", writeDraw(t, draw), "--receipt", alone + "x"},
		"no receipt in JSON":    {"draw", writeDraw(t, draw), "--receipt", alone},
		"no such copy":          {"draw", writeDraw(t, draw), "--earlier", alone + "x"},
		"a copy of no draw":     {"draw", writeDraw(t, draw), "--earlier", file(t, "x", []byte("{}"))},
		"a document of no draw": {"draw", file(t, "x", []byte("{}"))},
		"nobody listens":        {"draw", "http://127.0.0.1:1/draws/x"},
	} {
		code, out, problems := call(t, args...)
		require.Equal(t, 2, code, name)
		require.Empty(t, out, name)
		require.True(t, strings.HasPrefix(problems, "verify: "), name)
	}
	code, _, _ := call(t, "draw", alone, "--entries", file(t, "entries", draw.Entries))
	require.Equal(t, 0, code)
}

// If the beacon is no public network, a draw is proven only to those who trust the beacon's owner.
func TestUnknownBeacon(t *testing.T) {
	t.Parallel()
	draw, _ := vectors(t)
	var out, problems bytes.Buffer
	require.Equal(t, 3, run(t, []string{"draw", writeDraw(t, draw)}, beforeRound, &out, &problems), problems.String())
	require.Contains(t, out.String(), "whoever has its key knows every value")
	require.True(t, strings.HasSuffix(out.String(),
		"\nNOT PROVEN: all 3 winners are genuine, if you trust the owner of the beacon: --trust-chain "+developmentChain+"\n"), out.String())
	require.Equal(t, 3, run(t, []string{"draw", writeDraw(t, draw), "--trust-chain", strings.Repeat("0", 64)}, beforeRound, &out, &problems))
	require.Equal(t, 2, run(t, nil, beforeRound, &out, &problems))
}

// A draw is faulty while its result is overdue. For a copy, the time when it was saved is decisive.
func TestOverdue(t *testing.T) {
	t.Parallel()
	draw, _ := vectors(t)
	var document map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(draw.Document, &document))
	for _, member := range []string{"beacon", "seed", "winners"} {
		delete(document, member)
	}
	document["phase"] = json.RawMessage(`"ROOT"`)
	pendingDocument, err := json.Marshal(document)
	require.NoError(t, err)
	path := writeDraw(t, published{Document: pendingDocument, Entries: draw.Entries})
	yearsLater := beforeRound.AddDate(3, 0, 0)
	saved := filepath.Join(t.TempDir(), "copy.json")
	var out, problems bytes.Buffer
	require.Equal(t, 0, run(t, []string{"draw", path, "--save", saved, "--trust-chain", developmentChain}, beforeRound, &out, &problems), out.String())
	require.Equal(t, 1, run(t, []string{"draw", path}, yearsLater, &out, &problems))
	require.Contains(t, out.String(), "FAULT RESULT_OVERDUE: the result was due at 2026-11-01T13:00:00.000Z")
	require.Equal(t, 0, run(t, []string{"draw", saved, "--trust-chain", developmentChain}, yearsLater, &out, &problems))
}
