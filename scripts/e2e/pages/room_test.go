package pages_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

type standing struct {
	RequestID string `json:"requestId"`
	Position  int    `json:"position"`
	Ticket    string `json:"ticket"`
}

// kept is what the waiting room remembers in the browser.
func (b *tab) kept(event string) standing {
	b.t.Helper()
	raw := eval[string](b, "localStorage.getItem('urr-vwr-"+event+"') ?? 'null'")
	var s standing
	require.NoError(b.t, json.Unmarshal([]byte(raw), &s))
	return s
}

// testRoomKeepsTheNumber: the number survives a reload, is the same for a second tab, and is forgotten once it is used.
func testRoomKeepsTheNumber(t *testing.T) {
	t.Parallel()
	event := sale{}.open(t)
	openRoom(t, event, 3)
	b := open(t, platformURL, phone, "ko")
	b.visit("/vwr/" + event)
	b.see("#line")
	first := b.kept(event)
	require.Equal(t, 4, first.Position)
	require.NotEmpty(t, first.RequestID)
	require.NotEmpty(t, first.Ticket)
	require.Equal(t, "4", b.text("#position"))
	require.Equal(t, "3", b.text("#ahead"), "people, not steps of the counter")

	b.visit("/vwr/" + event)
	b.see("#line")
	require.Equal(t, first, b.kept(event))

	b.click("#language")
	b.until("the other language", "document.documentElement.lang === 'en'")
	b.say(words(t, "en")["vwr"]["keep"])
	serve(t, event, 4)
	b.arrive("/events/" + event)
	b.see(".facts")
	require.Zero(t, b.kept(event))
	require.Equal(t, "en", eval[string](b, "document.documentElement.lang"), "the choice counts on every page")
}

// testRoomOutlastsFailures: the page goes on after refusals that pass, and takes a new number when its own is unknown.
func testRoomOutlastsFailures(t *testing.T) {
	t.Parallel()
	event := sale{}.open(t)
	openRoom(t, event, 6)
	var assigns, checks atomic.Int32
	base := through(t, func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.HasPrefix(r.URL.Path, "/vwr-api/vwr/assign/"):
			if assigns.Add(1) == 1 {
				refuse(w, http.StatusServiceUnavailable, `{"status": 503, "code": "OVERLOADED", "detail": "MANY PEOPLE ARE HERE"}`)
				return true
			}
		case strings.HasPrefix(r.URL.Path, "/vwr-api/vwr/check/"):
			if checks.Add(1) == 1 {
				refuse(w, http.StatusNotFound, `{"status": 404, "code": "VWR_REQUEST_UNKNOWN"}`)
				return true
			}
		case strings.HasPrefix(r.URL.Path, "/vwr-api/vwr/serving/"):
			// No answer at all.
			c, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = c.Close()
			}
			return true
		}
		return false
	})
	b := open(t, base, desktop, "en")
	b.visit("/vwr/" + event)
	b.say("MANY PEOPLE ARE HERE")
	b.inspect("overloaded")
	b.see("#line")
	b.say("No connection.")
	serve(t, event, 7)
	b.arrive("/events/" + event)
	require.GreaterOrEqual(t, assigns.Load(), int32(3), "once refused, once for the first number, once for the second")
}

// testClosedRoomLetsEverybodyIn: who comes to the page of a room that is not open goes straight to the event.
func testClosedRoomLetsEverybodyIn(t *testing.T) {
	t.Parallel()
	event := sale{}.open(t)
	b := open(t, platformURL, phone, "en")
	b.visit("/vwr/" + event)
	b.arrive("/events/" + event)
	b.see(".facts")
}

// testRoomIsOneFile: the page asks for nothing but itself and its counter, and a cache may keep it.
func testRoomIsOneFile(t *testing.T) {
	t.Parallel()
	event := sale{}.open(t)
	openRoom(t, event, 3)
	b := open(t, platformURL, phone, "ko")
	b.visit("/vwr/" + event)
	b.see("#line")
	loaded := eval[[]string](b, "performance.getEntriesByType('resource').map(e => new URL(e.name).pathname)")
	for _, path := range loaded {
		require.True(t, strings.HasPrefix(path, "/vwr-api/vwr/"), path)
	}
	answer, err := http.Get(platformURL + "/vwr/" + event)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Contains(t, answer.Header.Get("Cache-Control"), "s-maxage=")
	require.Empty(t, answer.Cookies())
}
