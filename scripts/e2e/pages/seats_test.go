package pages_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
)

// setValue sets the value of a form field and triggers the page's events, as a user would.
func setValue(selector, value string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`{
		const e = document.querySelector(%q); e.value = %q; e.dispatchEvent(new Event("change", {bubbles: true}))
	}`, selector, value))
}

// setLocation opens a path unchanged, without the normalization of the browser's address bar.
func setLocation(path string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](fmt.Sprintf("void (location.href = %q)", path))
}

// openSeatMap joins the line as a signed-in user and opens the seats.
func (b *tab) openSeatMap(event, user string) {
	b.t.Helper()
	b.startSession(user)
	b.visit("/queue/" + event)
	b.waitForPath("/events/" + event + "/seats")
	b.waitFor("canvas")
	b.until("free seats", `/[1-9]/.test(document.querySelector("#row option")?.textContent.replace(/^\D*\d+/, "") ?? "")`)
}

// tabTo presses Tab until an element has the focus.
func (b *tab) tabTo(selector string) {
	b.t.Helper()
	for range 80 {
		if eval[bool](b, fmt.Sprintf("document.activeElement?.matches(%q) ?? false", selector)) {
			return
		}
		b.press(kb.Tab)
	}
	b.t.Fatalf("the keyboard does not reach %s at %s", selector, b.path())
}

// testKeyboardOnly buys two seats without touching mouse or screen.
func testKeyboardOnly(t *testing.T) {
	parallelTab(t)
	event := sale{}.open(t)
	b := openTab(t, platformURL, desktop, "en")
	b.openSeatMap(event, uniqueID("keys"))
	b.press(kb.Tab)
	require.True(t, eval[bool](b, "document.activeElement.matches('.skip')"), "the first stop skips the frame")
	b.tabTo("canvas")
	b.press(kb.ArrowDown)
	b.press(kb.Enter)
	b.press(kb.ArrowRight)
	b.press(kb.Enter)
	b.until("two seats side by side", "document.querySelectorAll('.selection li').length === 2")
	require.Contains(t, b.text(".visited"), "Section VIP, row 2, seat 2")
	require.Contains(t, b.text(".visited"), "chosen")
	b.checkPage("chosen by keys")
	b.tabTo(".selection .wide")
	b.press(kb.Enter)
	b.waitForPath("/checkout/")
	b.waitFor("form button[type=submit]")
	b.tabTo("form button[type=submit]")
	b.press(kb.Enter)
	b.waitFor("input[value=ok]:enabled")
	b.tabTo("form button[type=submit]")
	b.press(kb.Enter)
	b.waitFor(".notice.good")
}

// testMouseOnTheMap zooms in and clicks a seat.
func testMouseOnTheMap(t *testing.T) {
	parallelTab(t)
	event := sale{sections: []object{{"section": "A", "price": 1000, "rows": 1, "seatsPerRow": 1}}}.open(t)
	b := openTab(t, platformURL, desktop, "en")
	b.openSeatMap(event, uniqueID("mouse"))
	b.click("canvas")
	b.until("the only seat", "document.querySelectorAll('.selection li').length === 1")
	b.click(".selection li button")
	b.until("no seat", "document.querySelectorAll('.selection li').length === 0")
	require.Equal(t, "selection", eval[string](b, "document.activeElement.id"), "the focus stays near")
}

// testSeatsTakenMeanwhile: the page lists the seats that another visitor has taken, and deselects
// them. The remaining seats can be bought.
func testSeatsTakenMeanwhile(t *testing.T) {
	parallelTab(t)
	event := sale{}.open(t)
	var frozen atomic.Bool
	base := intercept(t, func(w http.ResponseWriter, r *http.Request) bool {
		// The visitor's page receives no update, so that the hold itself is refused.
		switch {
		case strings.HasSuffix(r.URL.Path, "/changes"):
			w.WriteHeader(http.StatusServiceUnavailable)
		case strings.HasSuffix(r.URL.Path, "/availability") && frozen.Load():
			w.WriteHeader(http.StatusNotModified)
		default:
			return false
		}
		return true
	})
	b := openTab(t, base, phone, "en")
	b.openSeatMap(event, uniqueID("slow"))
	b.chooseFromList(2)
	frozen.Store(true)
	other := signIn(t)
	other.enter(event)
	other.call(http.MethodPost, "/api/v1/seats/reserve", object{"eventId": event, "seatIds": []string{"VIP-1-1"}})
	b.click(".selection .wide")
	b.waitForText("Somebody was faster")
	b.until("the other seat to stay chosen", "document.querySelectorAll('.selection li').length === 1")
	b.checkPage("taken")
	frozen.Store(false)
	b.until("the seat to be shown as taken", `document.querySelector(".seat input").disabled`)
	b.click(".selection .wide")
	b.waitForPath("/checkout/")
}

// testSeatsByStream: the page polls once, and then receives changes by the stream.
func testSeatsByStream(t *testing.T) {
	parallelTab(t)
	event := sale{}.open(t)
	var frozen, streamed atomic.Bool
	base := intercept(t, func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/changes") {
			streamed.Store(true)
		}
		if strings.HasSuffix(r.URL.Path, "/availability") && frozen.Load() {
			w.WriteHeader(http.StatusNotModified)
			return true
		}
		return false
	})
	b := openTab(t, base, desktop, "ko")
	b.openSeatMap(event, uniqueID("watcher"))
	b.chooseFromList(1)
	frozen.Store(true)
	other := signIn(t)
	other.enter(event)
	other.call(http.MethodPost, "/api/v1/seats/reserve", object{"eventId": event, "seatIds": []string{"VIP-1-1"}})
	b.until("the chosen seat to be gone", "document.querySelectorAll('.selection li').length === 0")
	b.until("the seat to be shown as taken", `document.querySelector(".seat input").disabled`)
	require.True(t, streamed.Load())
	b.checkPage("taken by others")
}

// testSlotEnds: when the visitor's slot ends, the page says so and offers the line.
func testSlotEnds(t *testing.T) {
	parallelUnlimited(t)
	event := sale{}.open(t)
	user := uniqueID("over")
	b := openTab(t, platformURL, desktop, "ko")
	b.openSeatMap(event, user)
	sameUser := signInAs(t, user)
	sameUser.enter(event)
	sameUser.leave(event)
	b.waitForText(words(t, "ko")["common"]["turnOver"])
	b.checkPage("over")
	b.click(`main a[href="/queue/` + event + `"]`)
	b.waitForPath("/events/" + event + "/seats")
}

// testHoldPause: who has held seats three times without paying reads why no hold is made, and how
// long. The page does not try again by itself.
func testHoldPause(t *testing.T) {
	t.Parallel()
	for _, p := range variants {
		t.Run(p.String(), func(t *testing.T) {
			parallelTab(t)
			event, user := sale{}.open(t), uniqueID("undecided")
			before := signInAs(t, user)
			before.enter(event)
			for range 3 {
				held := before.call(http.MethodPost, "/api/v1/seats/reserve", object{"eventId": event, "seatIds": []string{"VIP-1-1"}})
				before.call(http.MethodDelete, fmt.Sprint("/api/v1/my/reservations/", held["reservationId"]), nil)
			}
			b := openTab(t, platformURL, p.device, p.lang)
			b.openSeatMap(event, user)
			b.chooseFromList(1)
			b.click(".selection .wide")
			b.waitForText(map[string]string{"en": "several times without paying", "ko": "여러 번 선점하고"}[p.lang])
			require.Regexp(t, map[string]string{"en": `You can try again in \d+ s`, "ko": `\d+초 뒤에 다시`}[p.lang], b.text("main"))
			b.checkPage("a pause between holds")
		})
	}
}

// testTooManyReturns: who has given back a place and wants more than may be given back too reads how
// many can be held.
func testTooManyReturns(t *testing.T) {
	t.Parallel()
	for _, p := range variants {
		t.Run(p.String(), func(t *testing.T) {
			parallelTab(t)
			event, user := sale{limit: 2, returns: 2}.open(t), uniqueID("returner")
			before := signInAs(t, user)
			paid := before.buySeats(event, "VIP-1-1")
			before.key = uniqueID("key")
			before.call(http.MethodPost, "/api/v1/payments/"+paid+"/refund", object{"reason": "cannot come"})
			testkit.Until(t, func() bool { return len(before.tickets()) == 0 }, "it is given back")
			b := openTab(t, platformURL, p.device, p.lang)
			b.openSeatMap(event, user)
			b.chooseFromList(2)
			b.click(".selection .wide")
			b.waitForText(map[string]string{"en": "may be 2 in all: you can still hold 1", "ko": "2장까지 가능하며, 앞으로 1장을"}[p.lang])
			b.checkPage("too many given back")
		})
	}
}
