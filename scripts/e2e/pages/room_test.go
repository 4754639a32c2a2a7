package pages_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// roomPosition is a visitor's position in a waiting room.
type roomPosition struct {
	RequestID string `json:"requestId"`
	Position  int    `json:"position"`
	Ticket    string `json:"ticket"`
}

// storedPlace returns the waiting room's state that the browser has stored.
func (b *tab) storedPlace(event string) roomPosition {
	b.t.Helper()
	raw := eval[string](b, "localStorage.getItem('urr-vwr-"+event+"') ?? 'null'")
	var n roomPosition
	require.NoError(b.t, json.Unmarshal([]byte(raw), &n))
	return n
}

// testRoomKeepsThePosition: a visitor's position survives a reload, is the same in a second tab,
// and is deleted after its use.
func testRoomKeepsThePosition(t *testing.T) {
	parallelTab(t)
	event := sale{}.open(t)
	openRoom(t, event, 3)
	b := openTab(t, platformURL, phone, "ko")
	b.visit("/vwr/" + event)
	b.waitFor("#line")
	first := b.storedPlace(event)
	require.GreaterOrEqual(t, first.Position, 4)
	require.NotEmpty(t, first.RequestID)
	require.NotEmpty(t, first.Ticket)
	require.Equal(t, strconv.Itoa(first.Position), b.text("#position"))
	require.Equal(t, strconv.Itoa(first.Position-1), b.text("#ahead"), "people, not steps of the counter")

	b.visit("/vwr/" + event)
	b.waitFor("#line")
	require.Equal(t, first, b.storedPlace(event))

	b.click("#language")
	b.until("the other language", "document.documentElement.lang === 'en'")
	b.waitForText(words(t, "en")["vwr"]["keep"])
	serveAll(t, event)
	b.waitForPath("/events/" + event)
	b.waitFor(".facts")
	require.Zero(t, b.storedPlace(event))
	require.Equal(t, "en", eval[string](b, "document.documentElement.lang"), "the choice counts on every page")
}

// testRoomSurvivesFailures: the page continues after temporary refusals, and gets a new position
// when the platform does not know the position it has.
func testRoomSurvivesFailures(t *testing.T) {
	parallelTab(t)
	event := sale{}.open(t)
	openRoom(t, event, 6)
	var assigns, checks atomic.Int32
	base := intercept(t, func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.HasPrefix(r.URL.Path, "/vwr-api/vwr/assign/"):
			if assigns.Add(1) == 1 {
				writeProblem(w, http.StatusServiceUnavailable, `{"status": 503, "code": "OVERLOADED", "detail": "MANY PEOPLE ARE HERE"}`)
				return true
			}
		case strings.HasPrefix(r.URL.Path, "/vwr-api/vwr/check/"):
			if checks.Add(1) == 1 {
				writeProblem(w, http.StatusNotFound, `{"status": 404, "code": "VWR_REQUEST_UNKNOWN"}`)
				return true
			}
		case strings.HasPrefix(r.URL.Path, "/vwr-api/vwr/serving/"):
			// No response at all.
			c, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = c.Close()
			}
			return true
		}
		return false
	})
	b := openTab(t, base, desktop, "en")
	b.visit("/vwr/" + event)
	b.waitForText("MANY PEOPLE ARE HERE")
	b.checkPage("overloaded")
	b.waitFor("#line")
	b.waitForText("No connection.")
	serveAll(t, event)
	b.waitForPath("/events/" + event)
	require.GreaterOrEqual(t, assigns.Load(), int32(3), "once refused, once for the first number, once for the second")
}

// testRoomLeadsOn: a room before a promotion or a campaign leads to its page, even when the room is
// no longer active.
func testRoomLeadsOn(t *testing.T) {
	t.Parallel()
	for next, open := range map[string]func(t *testing.T) (event, page string){
		"PROMO": func(t *testing.T) (string, string) {
			t.Helper()
			event := promotion{}.open(t)
			return event, "/promo/" + event
		},
		"REWARD": func(t *testing.T) (string, string) {
			t.Helper()
			event := campaign{}.open(t)
			return event, "/rewards/" + event
		},
	} {
		t.Run(next, func(t *testing.T) {
			parallelTab(t)
			event, page := open(t)
			openRoomBefore(t, next, event, 1)
			b := openTab(t, platformURL, phone, "en")
			b.startSession(uniqueID("guest"))
			const link = "?x=1&utm_source=a#y"
			b.visit(page + link)
			b.waitFor(".enter button")
			b.click(".enter button") // refused: it needs a token of the room
			b.waitForPath("/vwr/" + event)
			b.waitFor("#line")
			require.Equal(t, link, b.link())
			serveAll(t, event)
			b.waitForPath(page)
			b.waitFor(".enter button")
			require.Equal(t, link, b.link())

			signIn(t, "admin").call(http.MethodPost, "/api/v1/admin/vwr/deactivate/"+event, nil)
			b.visit("/vwr/" + event)
			b.waitForPath(page)
		})
	}
}

// testRoomsKeepTheLink: the query and the fragment of a link to an event go along through both
// rooms and the sign-in, over a reload and the back button too.
func testRoomsKeepTheLink(t *testing.T) {
	parallelTab(t)
	event := sale{}.open(t)
	openRoom(t, event, 1)
	b := openTab(t, platformURL, phone, "en")
	const link = "?x=1&utm_source=a#y"
	b.visit("/events/" + event + link)
	b.waitForPath("/vwr/" + event)
	b.waitFor("#line")
	require.Equal(t, link, b.link())
	b.reload()
	b.waitFor("#line")
	require.Equal(t, link, b.link())
	serveAll(t, event)
	b.waitForPath("/events/" + event)
	b.waitFor(".enter a")
	require.Equal(t, link, b.link())
	b.click(".enter a")
	b.waitForPath("/login")
	b.logIn(uniqueID("guest"))
	b.waitForPath("/events/" + event + "/seats")
	b.waitFor(".selection")
	require.Equal(t, link, b.link())
	b.back()
	b.waitFor(".enter a")
	require.Equal(t, "/events/"+event, b.path())
	require.Equal(t, link, b.link())
}

// testRoomAsksForWork: if a position requires a proof of work, the page says so, solves it in a
// worker, and gets the position.
func testRoomAsksForWork(t *testing.T) {
	parallelTab(t)
	event := sale{}.open(t)
	activateRoom(t, event, object{"batch": 1, "intervalSeconds": 3600, "proofOfWork": 12})
	for i, lang := range []string{"en", "ko"} {
		var proven, unproven atomic.Int32
		seen := make(chan struct{})
		base := intercept(t, func(_ http.ResponseWriter, r *http.Request) bool {
			switch {
			case strings.HasPrefix(r.URL.Path, "/vwr-api/vwr/challenge/"):
				<-seen // until the test has looked at the page
			case !strings.HasPrefix(r.URL.Path, "/vwr-api/vwr/assign/"):
			case r.Header.Get("X-Vwr-Proof") == "":
				unproven.Add(1)
			default:
				proven.Add(1)
			}
			return false
		})
		release := sync.OnceFunc(func() { close(seen) })
		t.Cleanup(release)
		b := openTab(t, base, phone, lang)
		b.visit("/vwr/" + event)
		b.waitForText(words(t, lang)["vwr"]["solving"])
		b.checkPage("solving-" + lang)
		release()
		b.waitFor("#line")
		require.Equal(t, 1+i, b.storedPlace(event).Position)
		require.Positive(t, unproven.Load(), "refused")
		done := proven.Load()
		require.Positive(t, done)
		b.visit("/vwr/" + event)
		b.waitFor("#line")
		require.Equal(t, done, proven.Load(), "the position is kept")
	}
}

// testTabsShareOneVisitor: two tabs of a browser without a visitor id get the same id. With two
// ids, the browser would keep one, and lose the position of the other.
func testTabsShareOneVisitor(t *testing.T) {
	parallelTab(t)
	events := []string{sale{}.open(t), sale{}.open(t)}
	var ids atomic.Int32
	asked, answer := make(chan struct{}, 1), make(chan struct{})
	base := intercept(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/vwr-api/vwr/assign/") {
			return false
		}
		if _, err := r.Cookie("urr-anon"); err != nil {
			ids.Add(1)
		}
		if strings.HasSuffix(r.URL.Path, events[0]) {
			select {
			case asked <- struct{}{}:
			default: // asked again
			}
			<-answer
		}
		return false
	})
	for _, event := range events {
		openRoom(t, event, 1)
	}
	release := sync.OnceFunc(func() { close(answer) })
	t.Cleanup(release)
	// A slow machine must not end the wait: after 15 s for an answer, or 10 s for the other tab.
	const noTimeouts = `
		AbortSignal.timeout = () => new AbortController().signal;
		const real = window.setTimeout;
		window.setTimeout = (act, ms) => real(act, ms < 10_000 ? ms : 1e9)`
	first := openTab(t, base, phone, "en")
	first.runFirst(noTimeouts)
	first.visit("/vwr/" + events[0])
	<-asked
	second := first.openBeside()
	second.runFirst(noTimeouts)
	second.visit("/vwr/" + events[1])
	second.untilAny("a tab that asks too", says(words(t, "en")["vwr"]["taking"]), visible("#line"))
	release()
	for _, b := range []*tab{first, second} {
		b.waitFor("#line")
	}
	require.Equal(t, int32(1), ids.Load())
}

// testInactiveRoomAdmitsAll: the page of a waiting room that is not open leads directly to the
// event.
func testInactiveRoomAdmitsAll(t *testing.T) {
	parallelTab(t)
	event := sale{}.open(t)
	b := openTab(t, platformURL, phone, "en")
	b.visit("/vwr/" + event)
	b.waitForPath("/events/" + event)
	b.waitFor(".facts")
}

// testRoomIsOneFile: the page loads only itself and the counter, and a shared cache may store it.
func testRoomIsOneFile(t *testing.T) {
	parallelTab(t)
	event := sale{}.open(t)
	openRoom(t, event, 3)
	b := openTab(t, platformURL, phone, "ko")
	b.visit("/vwr/" + event)
	b.waitFor("#line")
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
