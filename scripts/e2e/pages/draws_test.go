package pages_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/fairdraw"
)

// drawVectors are the test draws of package fairdraw.
type drawVectors struct {
	Draw struct {
		Document object
		Entries  string
		Receipts []string
	}
	Cases []struct {
		Base, Name string
		Changes    object
		Entries    string
		Fault      string
		Report     struct{ Receipts []struct{ RequestID string } }
	}
}

// drawServer is a proxy in front of the platform. It publishes one of the test draws.
type drawServer struct {
	t       *testing.T
	vectors drawVectors
	event   string

	mu       sync.Mutex
	document object
	entries  fairdraw.Entries
}

// publishDraws starts the proxy, which publishes the finished draw.
func publishDraws(t *testing.T) (base string, s *drawServer) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "pkg/fairdraw/testdata/vectors.json"))
	require.NoError(t, err)
	s = &drawServer{t: t}
	require.NoError(t, json.Unmarshal(raw, &s.vectors))
	s.event, _ = s.vectors.Draw.Document["eventId"].(string)
	s.publish("drawn")
	path := "/api/v1/draws/" + s.event
	base = intercept(t, func(w http.ResponseWriter, r *http.Request) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch r.URL.Path {
		case path:
			writeJSON(w, http.StatusOK, s.document)
		case path + "/entries/0":
			w.Header().Set("Content-Type", "application/octet-stream")
			_, _ = w.Write(s.entries)
		case "/api/v1/promotions/" + s.event:
			writeJSON(w, http.StatusOK, object{"eventId": s.event, "title": "Autumn lottery", "eventType": "LOTTERY"})
		default:
			id, isProof := strings.CutPrefix(r.URL.Path, path+"/proof/")
			if isProof {
				s.prove(w, id)
			}
			return isProof
		}
		return true
	})
	return base, s
}

// prove responds with the proof of an entry.
func (s *drawServer) prove(w http.ResponseWriter, id string) {
	request, err := uuid.Parse(id)
	proof, found := fairdraw.NewProver(s.entries).Prove(request)
	if err != nil || !found {
		writeProblem(w, http.StatusNotFound, `{"status": 404, "code": "REQUEST_NOT_FOUND"}`)
		return
	}
	writeJSON(w, http.StatusOK, proof)
}

// requestIDs returns the ids of the requests to which the receipts belong, in the same order.
func (s *drawServer) requestIDs() (ids []string) {
	for _, c := range s.vectors.Cases {
		if c.Base == "draw" && c.Name == "drawn" {
			for _, r := range c.Report.Receipts {
				ids = append(ids, r.RequestID)
			}
		}
	}
	return ids
}

// setClock sets the browser's clock to a time between the root and the round of the test draws. By
// the real time their results are overdue.
func (s *drawServer) setClock(b *tab) {
	b.shiftClock(time.Until(time.Date(2026, 11, 1, 12, 5, 0, 0, time.UTC)))
}

// publish publishes the draw of a test case, and returns the code of its fault.
func (s *drawServer) publish(name string) (fault string) {
	s.t.Helper()
	for _, c := range s.vectors.Cases {
		if c.Base != "draw" || c.Name != name {
			continue
		}
		file := s.vectors.Draw.Entries
		if c.Entries != "" {
			file = c.Entries
		}
		entries, err := base64.StdEncoding.DecodeString(file)
		require.NoError(s.t, err)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.document, s.entries = maps.Clone(s.vectors.Draw.Document), entries
		maps.Copy(s.document, c.Changes)
		return c.Fault
	}
	require.Fail(s.t, "no such case", name)
	return ""
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// verify presses the button that verifies a draw, and returns the verdict on the page.
func (b *tab) verify() string {
	b.t.Helper()
	b.click("section:has(#check) button.wide:enabled")
	b.waitFor("#verdict")
	return b.text("#verdict")
}

// testVerifiableDraws: the page of a draw shows what is published so far. It verifies this with the
// receipts and the first statement that the browser has kept, and only then loads the curves.
func testVerifiableDraws(t *testing.T) {
	t.Parallel()
	for _, p := range []variant{{phone, "ko"}, {desktop, "en"}} {
		t.Run(p.String(), func(t *testing.T) {
			parallelTab(t)
			says := words(t, p.lang)["draw"]
			base, server := publishDraws(t)
			b := openTab(t, base, p.device, p.lang)
			server.setClock(b)
			server.publish("open")
			b.visit("/draws/" + server.event)
			b.waitForText(says["copyNone"])
			require.Equal(t, strings.ReplaceAll(says["heading"], "{title}", "Autumn lottery"), b.text("h1"))
			require.Contains(t, b.text("#app"), says["noReceipts"])
			b.checkPage("open")
			loaded := eval[int](b, scriptsLoaded)
			require.Contains(t, b.verify(), says["goodSoFar"])
			require.Greater(t, eval[int](b, scriptsLoaded), loaded, "the curves are a script of their own")

			var receipts []object
			requests := server.requestIDs()
			for i, receipt := range server.vectors.Draw.Receipts {
				receipts = append(receipts, object{"requestId": requests[i], "receipt": receipt})
			}
			b.store("urr-receipts-"+server.event, receipts)
			server.publish("root")
			b.reload()
			b.waitForText(strings.ReplaceAll(says["ownReceipts"], "{n}", fmt.Sprint(len(receipts))))
			require.Contains(t, b.verify(), says["goodSoFar"])
			require.Contains(t, b.text("#receipts"), says["outEntered"])
			require.NotContains(t, b.text("body"), says["copyNone"], "the statement is kept")
			b.click("section:has(#check) button.quiet:enabled") // by proofs, without the file of the entries
			b.until("no verdict about the whole draw", "!document.querySelector('#verdict') && document.querySelector('#receipts')")
			require.Contains(t, b.text("#receipts"), says["outEntered"])
			require.Contains(t, b.text("#receipts"), "WITHDRAWN")

			server.publish("drawn")
			b.reload()
			b.waitFor("ol.winners .badge") // the visitor's own request
			verdict := b.verify()
			require.Contains(t, verdict, says["good"])
			require.Contains(t, verdict, says["trustsOwner"], "the beacon of the vectors is no public network")
			seen, _, _ := strings.Cut(says["okTime"], "{time}")
			require.Contains(t, verdict, seen, "the browser saw the statement before the round")
			require.Regexp(t, strings.ReplaceAll(regexp.QuoteMeta(says["outWon"]), `\{rank\}`, `[1-3]`), b.text("#receipts"))
			b.checkPage("verified")

			// The browser remembers the statement that it saw first.
			fault := server.publish("second root")
			b.reload()
			b.waitForText(says["second"])
			verdict = b.verify()
			require.Contains(t, verdict, says["bad"])
			require.Contains(t, verdict, says[fault])
			require.Contains(t, verdict, "ROOT_SECOND")
			b.checkPage("second root")
		})
	}
}

// testSuspiciousDraws: the page shows the first fault of a draw, and what visitors have to trust if
// the draw has no beacon.
func testSuspiciousDraws(t *testing.T) {
	parallelTab(t)
	says := words(t, "en")["draw"]
	base, server := publishDraws(t)
	b := openTab(t, base, phone, "en")
	server.setClock(b)
	show := func(name string) (fault string) {
		fault = server.publish(name)
		b.visit("/draws/" + server.event)
		b.waitFor("section:has(#check) button.wide")
		eval[bool](b, "(localStorage.clear(), true)") // each case is a separate draw
		b.reload()
		b.waitFor("section:has(#check) button.wide")
		return fault
	}
	for _, name := range []string{"removed entry", "false beacon value", "a beacon whose rounds are of other times", "changed seed", "changed winner"} {
		fault := show(name)
		verdict := b.verify()
		require.Contains(t, verdict, says["bad"], name)
		require.Contains(t, verdict, says[fault], name)
	}
	show("without a beacon")
	require.Contains(t, b.text("#app"), says["limitBeacon"])
	require.Contains(t, b.verify(), says["good"])
	require.Contains(t, b.text("section:has(#check)"), says["noBeacon"])
	b.checkPage("without a beacon")
	show("void")
	b.waitForText(says["void"])
	require.Contains(t, b.verify(), says["goodSoFar"])
	b.checkPage("void")
	show("drawn")
	b.click("section:has(#check) summary")
	b.fill("#receipt-text", "AAAA")
	require.Contains(t, b.verify(), says["badReceipt"])
	b.visit("/draws/" + uniqueID("nowhere"))
	b.waitFor("main .notice.bad")
	b.checkPage("unknown")
}

const scriptsLoaded = `performance.getEntriesByType("resource").filter(e => e.name.endsWith(".js")).length`

// store puts a value into the browser's storage of the site.
func (b *tab) store(key string, value any) {
	b.t.Helper()
	raw, err := json.Marshal(value)
	require.NoError(b.t, err)
	eval[bool](b, fmt.Sprintf("(localStorage.setItem(%q, %q), true)", key, string(raw)))
}
