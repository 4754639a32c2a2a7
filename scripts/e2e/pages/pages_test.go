package pages_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// testLeavingTheLine leaves the line and joins it again. Another tab of the same browser does not
// rejoin it automatically.
func testLeavingTheLine(t *testing.T) {
	parallelTab(t)
	event := sale{threshold: 1}.open(t)
	inside := signIn(t)
	inside.occupy(event)
	b := openTab(t, platformURL, phone, "ko")
	b.startSession(uniqueID("leaver"))
	b.visit("/queue/" + event)
	b.waitForPath("/queue/" + event)
	b.waitFor("#position")
	other := b.openBeside()
	other.visit("/queue/" + event)
	other.waitFor("#position")
	b.click("main button")
	b.waitForText(words(t, "ko")["queue"]["left"])
	other.waitForText(words(t, "ko")["queue"]["left"])
	b.checkPage("left")
	b.click("main button")
	b.waitFor("#position")
}

// testCancellingHolds cancels one hold at the checkout, and another in the list of reservations.
func testCancellingHolds(t *testing.T) {
	parallelTab(t)
	event := sale{}.open(t)
	b := openTab(t, platformURL, desktop, "en")
	b.openSeatMap(event, uniqueID("giver"))
	b.chooseFromList(1)
	b.click(".selection .wide")
	b.waitForPath("/checkout/")
	b.waitFor("form button[type=submit]")
	b.click(`section[aria-labelledby="order"] button`)
	b.waitForText(words(t, "en")["checkout"]["CANCELLED"])
	b.checkPage("cancelled")

	b.visit("/events/" + event + "/seats")
	b.chooseFromList(1)
	b.click(".selection .wide")
	b.waitForPath("/checkout/")
	b.visit("/my")
	b.waitFor(".actions button")
	b.checkPage("held")
	b.click(".actions button")
	b.until("no held reservation", "!document.querySelector('.actions button')")
}

// testRefusalMessages shows the API's messages in the visitor's language.
func testRefusalMessages(t *testing.T) {
	t.Parallel()
	for lang, sentence := range map[string]string{"en": "This event does not exist.", "ko": "존재하지 않는 공연입니다."} {
		t.Run(lang, func(t *testing.T) {
			parallelTab(t)
			b := openTab(t, platformURL, phone, lang)
			b.startSession(uniqueID("lost"))
			b.visit("/queue/" + uniqueID("nowhere"))
			b.waitForText(sentence)
			b.waitFor(`main .notice a[href="/"]`)
			b.checkPage("unknown line")
		})
	}
}

// testSwitchingTheLanguage: the chosen language is kept, and applies to the API's messages too.
func testSwitchingTheLanguage(t *testing.T) {
	parallelTab(t)
	b := openTab(t, platformURL, phone, "ko")
	path := "/events/" + uniqueID("nowhere")
	b.visit(path)
	b.waitForText("존재하지 않는 공연입니다.")
	// Repeated, because the failure was intermittent: a reload before the cookie was stored came
	// back in the old language.
	for range 10 {
		b.switchTo("en")
		b.switchTo("ko")
	}
	b.switchTo("en")
	b.waitForText("This event does not exist.")
	b.visit("/")
	b.until("English", "document.documentElement.lang === 'en'")
}

// switchTo changes the language once the page's scripts run. The click runs inside the page: during
// a reload, a node found by the test may belong to the previous page.
func (b *tab) switchTo(lang string) {
	b.t.Helper()
	other := fmt.Sprintf("document.readyState === 'complete' && document.documentElement.lang !== %q", lang)
	b.until("the page in the other language", other)
	b.do(chromedp.Evaluate[chromedp.Void](`void setTimeout(() => document.querySelector("#language").click())`))
	b.until("the page in "+lang, fmt.Sprintf("document.documentElement.lang === %q", lang))
}

// testSigningOut: signing out removes the user's data from the pages.
func testSigningOut(t *testing.T) {
	parallelTab(t)
	b := openTab(t, platformURL, desktop, "en")
	b.visit("/my")
	b.waitForPath("/login")
	b.logIn(uniqueID("leaver"))
	b.waitForPath("/my")
	b.waitForText(words(t, "en")["my"]["noTickets"])
	b.checkPage("nothing yet")
	b.click("#sign-out:not([hidden])")
	b.until("the sign-in link", "document.querySelector('#sign-in:not([hidden])')")
	b.visit("/my")
	b.waitForPath("/login")
}

// foreignPaths returns the paths to which the pages refuse to return after the sign-in.
func foreignPaths(t *testing.T) (paths []string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "services/gateway/web/test/return-paths.json"))
	require.NoError(t, err)
	var cases []struct {
		Path string `json:"path"`
		Own  bool   `json:"own"`
	}
	require.NoError(t, json.Unmarshal(raw, &cases))
	for _, c := range cases {
		if !c.Own {
			paths = append(paths, c.Path)
		}
	}
	require.NotEmpty(t, paths)
	return paths
}

// testReturnPathsStayOnSite: no link can make the sign-in page redirect to another site.
func testReturnPathsStayOnSite(t *testing.T) {
	parallelTab(t)
	b := openTab(t, platformURL, desktop, "en")
	b.visit("/")
	for _, path := range foreignPaths(t) {
		b.do(setLocation("/login?returnTo=" + url.QueryEscape(path)))
		b.waitForPath("/login")
		b.logIn(uniqueID("returner"))
		b.until("the list of events", "location.pathname === '/' && document.querySelector('body[data-page=events]')")
	}
}

// testServerFailure: a server error is shown with the request id by which operators find it.
func testServerFailure(t *testing.T) {
	parallelTab(t)
	base := intercept(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/api/v1/events" {
			return false
		}
		writeProblem(w, http.StatusInternalServerError, `{"status": 500, "code": "INTERNAL", "detail": "It broke.", "requestId": "req-77"}`)
		return true
	})
	b := openTab(t, base, phone, "en")
	b.visit("/")
	b.waitForText("It broke.")
	b.waitForText("Reference req-77")
	b.checkPage("broken")
}

// testNarrowScreenAndDarkColours: the pages fit 320 pixels (WCAG 2.2, 1.4.10) and have sufficient
// contrast in dark colours.
func testNarrowScreenAndDarkColours(t *testing.T) {
	parallelTab(t)
	event := sale{}.open(t)
	b := openTab(t, platformURL, device{name: "narrow", width: 320, height: 568, scale: 2, mobile: true}, "ko")
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}},
	})
	b.visit("/")
	b.waitFor(".event-card")
	b.checkPage("events")
	b.visit("/events/" + event)
	b.waitFor(".facts")
	b.checkPage("event")
	b.openSeatMap(event, uniqueID("narrow"))
	b.chooseFromList(1)
	b.checkPage("seats")
	b.click(".selection .wide")
	b.payAfterDecline()
	b.checkTickets(1)
	other := sale{}.open(t)
	openRoom(t, other, 3)
	b.visit("/vwr/" + other)
	b.waitFor("#line")
	b.checkPage("waiting room")
}
