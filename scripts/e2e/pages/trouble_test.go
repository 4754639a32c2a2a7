package pages_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/stretchr/testify/require"
)

// testInvalidLinks: an invalid link leads to a page with an explanation and a link, not to a
// problem document.
func testInvalidLinks(t *testing.T) {
	t.Parallel()
	for _, p := range variants {
		t.Run(p.String(), func(t *testing.T) {
			parallelTab(t)
			nothing := map[string]string{"en": "There is nothing at this address.", "ko": "요청하신 주소를 찾을 수 없습니다."}[p.lang]
			b := openTab(t, platformURL, p.device, p.lang)
			b.visit("/checkout/abc")
			b.waitForText(nothing)
			b.visit("/vwr/a%20b")
			b.waitForText(nothing)
			b.visit("/nonsense")
			b.waitForText(nothing)
			b.checkPage("refused")
			b.click(`main a[href="/"]`)
			b.until("the list of events", "location.pathname === '/'")
		})
	}
}

// testChoiceSurvivesAReload: the selected seats survive a reload, for example by a change of the
// language.
func testChoiceSurvivesAReload(t *testing.T) {
	parallelTab(t)
	event := sale{}.open(t)
	b := openTab(t, platformURL, phone, "en")
	b.openSeatMap(event, uniqueID("picky"))
	b.chooseFromList(2)
	b.click("#language")
	b.until("Korean", "document.documentElement.lang === 'ko'")
	b.until("both seats", "document.querySelectorAll('.selection li').length === 2")
}

// testSessionEnds: an ended session leads to the sign-in page and back; it is not mistaken for the
// end of a slot.
func testSessionEnds(t *testing.T) {
	parallelTab(t)
	event := sale{}.open(t)
	user := uniqueID("ended")
	b := openTab(t, platformURL, desktop, "ko")
	b.openSeatMap(event, user)
	call(b, network.DeleteCookies, network.DeleteCookiesParams{Name: sessionCookie, URL: b.base})
	b.waitForPath("/login")
	b.logIn(user)
	b.waitForPath("/events/" + event + "/seats")
	b.waitFor("canvas")
}

// testUnresponsiveServer: the page says that the server does not respond, and retries until it
// does.
func testUnresponsiveServer(t *testing.T) {
	parallelUnlimited(t)
	var silent atomic.Bool
	silent.Store(true)
	base := intercept(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/api/v1/events") || !silent.Load() {
			return false
		}
		<-r.Context().Done()
		return true
	})
	b := openTab(t, base, phone, "ko")
	b.visit("/")
	b.waitForText(words(t, "ko")["common"]["offline"] + " " + words(t, "ko")["common"]["retrying"])
	b.checkPage("silent")
	silent.Store(false)
	b.waitFor(".event-card")
}

// testBackFromSignIn: the back button leaves the sign-in page.
func testBackFromSignIn(t *testing.T) {
	parallelTab(t)
	b := openTab(t, platformURL, desktop, "en")
	b.visit("/")
	b.click(`nav a[href="/my"]`)
	b.waitForPath("/login")
	b.waitFor("#user")
	b.back()
	b.until("the list of events", "location.pathname === '/'")
}

// testSignOutFails: a visitor whose sign-out fails is not shown as signed out.
func testSignOutFails(t *testing.T) {
	parallelTab(t)
	base := intercept(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/api/v1/auth/logout" {
			writeProblem(w, http.StatusServiceUnavailable, `{"status": 503, "code": "UNAVAILABLE", "detail": "NOT NOW"}`)
			return true
		}
		return false
	})
	b := openTab(t, base, desktop, "en")
	b.startSession(uniqueID("stays"))
	b.visit("/my")
	b.waitForPath("/my")
	b.waitFor("#sign-out:not([hidden])")
	b.click("#sign-out:not([hidden])")
	b.waitForDialog("NOT NOW")
	require.Equal(t, "/my", b.path())
}

// testLineSurvivesFailures: while the line is unavailable, its last figures stay visible beside the
// reason.
func testLineSurvivesFailures(t *testing.T) {
	parallelTab(t)
	event := sale{threshold: 1}.open(t)
	inside := signIn(t)
	inside.occupy(event)
	var broken atomic.Bool
	base := intercept(t, func(w http.ResponseWriter, r *http.Request) bool {
		if !broken.Load() || !strings.HasPrefix(r.URL.Path, "/api/v1/queue/") {
			return false
		}
		writeProblem(w, http.StatusServiceUnavailable, `{"status": 503, "code": "UNAVAILABLE", "detail": "NOT NOW", "requestId": "req-9"}`)
		return true
	})
	b := openTab(t, base, phone, "ko")
	b.startSession(uniqueID("patient"))
	b.visit("/queue/" + event)
	b.waitForPath("/queue/" + event)
	b.waitFor(".updated")
	broken.Store(true)
	b.waitForText("NOT NOW " + words(t, "ko")["common"]["retrying"])
	b.waitForText("req-9")
	require.Equal(t, "1", b.text("#position"))
	b.checkPage("broken line")
	broken.Store(false)
	inside.leave(event)
	b.waitForPath("/events/" + event + "/seats")
}
