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
)

// setValue chooses in a select as a person would: the page hears of it.
func setValue(selector, value string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`{
		const e = document.querySelector(%q); e.value = %q; e.dispatchEvent(new Event("change", {bubbles: true}))
	}`, selector, value))
}

// setLocation goes to a path as it is written, without the browser's address line in between.
func setLocation(path string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](fmt.Sprintf("void (location.href = %q)", path))
}

// goInside signs in by the line and arrives at the seats.
func (b *tab) goInside(event, user string) {
	b.t.Helper()
	b.visit("/queue/" + event)
	b.logIn(user)
	b.arrive("/events/" + event + "/seats")
	b.see("canvas")
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

// testKeyboardAlone buys two seats without touching mouse or screen.
func testKeyboardAlone(t *testing.T) {
	t.Parallel()
	event := sale{}.open(t)
	b := open(t, platformURL, desktop, "en")
	b.goInside(event, unused("keys"))
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
	b.inspect("chosen by keys")
	b.tabTo(".selection .wide")
	b.press(kb.Enter)
	b.arrive("/checkout/")
	b.see("form button[type=submit]")
	b.tabTo("form button[type=submit]")
	b.press(kb.Enter)
	b.see(".notice.good")
}

// testMouseOnTheMap zooms in and clicks a seat.
func testMouseOnTheMap(t *testing.T) {
	t.Parallel()
	event := sale{sections: []object{{"section": "A", "price": 1000, "rows": 1, "seatsPerRow": 1}}}.open(t)
	b := open(t, platformURL, desktop, "en")
	b.goInside(event, unused("mouse"))
	b.click("canvas")
	b.until("the only seat", "document.querySelectorAll('.selection li').length === 1")
	b.click(".selection li button")
	b.until("no seat", "document.querySelectorAll('.selection li').length === 0")
	require.Equal(t, "selection", eval[string](b, "document.activeElement.id"), "the focus stays near")
}

// testSeatsTakenMeanwhile: what another one took is named, dropped from the choice, and the rest can be bought.
func testSeatsTakenMeanwhile(t *testing.T) {
	t.Parallel()
	event := sale{}.open(t)
	var still atomic.Bool
	base := through(t, func(w http.ResponseWriter, r *http.Request) bool {
		// The visitor's page hears nothing new, so that the hold itself is refused.
		if strings.HasSuffix(r.URL.Path, "/availability") && still.Load() {
			w.WriteHeader(http.StatusNotModified)
			return true
		}
		return false
	})
	b := open(t, base, phone, "en")
	b.goInside(event, unused("slow"))
	b.chooseFromList(2)
	still.Store(true)
	other := signIn(t)
	other.enter(event)
	other.call(http.MethodPost, "/api/v1/seats/reserve", object{"eventId": event, "seatIds": []string{"VIP-1-1"}})
	b.click(".selection .wide")
	b.say("Somebody was faster")
	b.until("the other seat to stay chosen", "document.querySelectorAll('.selection li').length === 1")
	b.inspect("taken")
	still.Store(false)
	b.until("the seat to be shown as taken", `document.querySelector(".seat input").disabled`)
	b.click(".selection .wide")
	b.arrive("/checkout/")
}

// testTurnOver: when the slot ends, the page says so and offers the line.
func testTurnOver(t *testing.T) {
	t.Parallel()
	event := sale{}.open(t)
	user := unused("over")
	b := open(t, platformURL, desktop, "ko")
	b.goInside(event, user)
	same := signInAs(t, user)
	same.enter(event)
	same.leave(event)
	b.say(words(t, "ko")["common"]["turnOver"])
	b.inspect("over")
	b.click(`main a[href="/queue/` + event + `"]`)
	b.arrive("/events/" + event + "/seats")
}

// testLargeHall draws 50,000 seats and goes on answering.
func testLargeHall(t *testing.T) {
	t.Parallel()
	var sections []object
	for i := range 5 {
		sections = append(sections, object{"section": fmt.Sprintf("S%d", i), "price": 50000, "rows": 100, "seatsPerRow": 100})
	}
	event := sale{sections: sections}.open(t)
	b := open(t, platformURL, desktop, "en")
	b.goInside(event, unused("large"))
	b.inspect("large")
	const frames = `new Promise(done => {
		const canvas = document.querySelector("canvas"), box = canvas.getBoundingClientRect(), times = [];
		let last = performance.now();
		const step = n => {
			canvas.dispatchEvent(new WheelEvent("wheel", {deltaY: n % 2 ? 60 : -60, clientX: box.x + 100, clientY: box.y + 100, cancelable: true}));
			requestAnimationFrame(now => { times.push(now - last); last = now; n < 40 ? step(n + 1) : done(times.sort((a, b) => a - b)[20]) });
		};
		step(0);
	})`
	require.Less(t, eval[float64](b, frames), 60.0, "median milliseconds per frame while zooming: 17 on an idle machine")
	b.click("canvas")
}
