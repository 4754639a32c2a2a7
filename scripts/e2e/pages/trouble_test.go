package pages_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/stretchr/testify/require"
)

// testForgedAddresses: who follows a broken link sees a page with words and a way on, not a program's answer.
func testForgedAddresses(t *testing.T) {
	t.Parallel()
	for path, said := range map[string]map[string]string{
		"/nonsense":     {"en": "There is nothing at this address.", "ko": "요청하신 주소를 찾을 수 없습니다."},
		"/checkout/abc": {"en": "An id in the request is not well-formed.", "ko": "요청에 포함된 ID의 형식이 올바르지 않습니다."},
		"/vwr/a%20b":    {"en": "An id in the request is not well-formed.", "ko": "요청에 포함된 ID의 형식이 올바르지 않습니다."},
	} {
		for _, p := range everywhere {
			b := open(t, platformURL, p.device, p.lang)
			b.visit(path)
			b.say(said[p.lang])
			b.inspect("refused " + p.String())
			b.click(`main a[href="/"]`)
			b.until("the list of events", "location.pathname === '/'")
		}
	}
}

// testChoiceSurvivesAReload: another language, or a reload, costs nobody the seats they have picked.
func testChoiceSurvivesAReload(t *testing.T) {
	t.Parallel()
	event := sale{}.open(t)
	b := open(t, platformURL, phone, "en")
	b.goInside(event, unused("picky"))
	b.chooseFromList(2)
	b.click("#language")
	b.until("Korean", "document.documentElement.lang === 'ko'")
	b.until("both seats", "document.querySelectorAll('.selection li').length === 2")
}

// testSessionEnds: an ended session leads to the sign-in page and back; it is not called the end of a turn.
func testSessionEnds(t *testing.T) {
	t.Parallel()
	event := sale{}.open(t)
	user := unused("ended")
	b := open(t, platformURL, desktop, "ko")
	b.goInside(event, user)
	call(b, network.DeleteCookies, network.DeleteCookiesParams{Name: "urr-session", URL: b.base})
	b.arrive("/login")
	b.logIn(user)
	b.arrive("/events/" + event + "/seats")
	b.see("canvas")
}

// testSilentServer: a server that takes requests and says nothing is a failure that the page tells and waits out.
func testSilentServer(t *testing.T) {
	t.Parallel()
	var silent atomic.Bool
	silent.Store(true)
	base := through(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/api/v1/events") || !silent.Load() {
			return false
		}
		<-r.Context().Done()
		return true
	})
	b := open(t, base, phone, "ko")
	b.visit("/")
	b.say(words(t, "ko")["common"]["offline"] + " " + words(t, "ko")["common"]["retrying"])
	b.inspect("silent")
	silent.Store(false)
	b.see(".event-card")
}

// testBackFromSigningIn: the browser's way back is no trap.
func testBackFromSigningIn(t *testing.T) {
	t.Parallel()
	b := open(t, platformURL, desktop, "en")
	b.visit("/")
	b.click(`nav a[href="/my"]`)
	b.arrive("/login")
	b.see("#user")
	b.back()
	b.until("the list of events", "location.pathname === '/'")
}

// testSigningOutFails: nobody is told to be signed out who is not.
func testSigningOutFails(t *testing.T) {
	t.Parallel()
	base := through(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/api/v1/auth/logout" {
			refuse(w, http.StatusServiceUnavailable, `{"status": 503, "code": "UNAVAILABLE", "detail": "NOT NOW"}`)
			return true
		}
		return false
	})
	b := open(t, base, desktop, "en")
	b.visit("/my")
	b.logIn(unused("stays"))
	b.arrive("/my")
	b.see("#sign-out")
	b.click("#sign-out")
	b.heard("NOT NOW")
	require.Equal(t, "/my", b.path())
}

// testLineOutlastsFailures: while the line cannot be asked, its last figures and their time stay to be read, beside why.
func testLineOutlastsFailures(t *testing.T) {
	t.Parallel()
	event := sale{threshold: 1}.open(t)
	inside := signIn(t)
	inside.enter(event)
	var broken atomic.Bool
	base := through(t, func(w http.ResponseWriter, r *http.Request) bool {
		if !broken.Load() || !strings.HasPrefix(r.URL.Path, "/api/v1/queue/") {
			return false
		}
		refuse(w, http.StatusServiceUnavailable, `{"status": 503, "code": "UNAVAILABLE", "detail": "NOT NOW", "requestId": "req-9"}`)
		return true
	})
	b := open(t, base, phone, "ko")
	b.visit("/queue/" + event)
	b.logIn(unused("patient"))
	b.arrive("/queue/" + event)
	b.see(".updated")
	broken.Store(true)
	b.say("NOT NOW " + words(t, "ko")["common"]["retrying"])
	b.say("req-9")
	require.Equal(t, "1", b.text("#position"))
	b.inspect("broken line")
	broken.Store(false)
	inside.leave(event)
	b.arrive("/events/" + event + "/seats")
}
