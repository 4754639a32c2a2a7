package pages_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
)

// requireNoMorePolls requires that the page of an event has stopped polling: it sends no poll while
// the page of another event, opened from the same address, sends three.
func requireNoMorePolls(t *testing.T, s *saleStatus, event, otherEvent string) {
	t.Helper()
	before, otherBefore := s.polls(event), s.polls(otherEvent)
	testkit.Until(t, func() bool { return s.polls(otherEvent) >= otherBefore+3 }, "the polls of who still waits")
	require.Equal(t, before, s.polls(event), "the page still asks")
}

// shortenLongPauses shortens waits of half a minute or more in the tab's pages, from the next page
// on, and returns a function that reads their original lengths in seconds.
func (b *tab) shortenLongPauses() (skipped func() []float64) {
	b.t.Helper()
	b.runFirst(`
		window.skippedPauses = [];
		const post = Worker.prototype.postMessage;
		Worker.prototype.postMessage = function (pause) {
			if (pause.ms < 30_000) return post.call(this, pause);
			window.skippedPauses.push(pause.ms / 1000);
			return post.call(this, { ...pause, ms: 100 });
		}`)
	return func() []float64 { return eval[[]float64](b, "window.skippedPauses") }
}

// testRoomShowsTheSaleStatus: the waiting room shows the status of the sale, and ends with the
// sale.
func testRoomShowsTheSaleStatus(t *testing.T) {
	t.Parallel()
	for _, p := range variants {
		t.Run(p.String(), func(t *testing.T) {
			parallelTab(t)
			says := words(t, p.lang)["sale"]
			event, otherEvent := sale{opens: time.Hour}.open(t), sale{}.open(t)
			openRoom(t, event, 3)
			openRoom(t, otherEvent, 3)
			base, saleStatus := proxyRooms(t)
			saleStatus.set("SCHEDULED")
			b := openTab(t, base, p.device, p.lang)
			b.shortenLongPauses()
			b.visit("/vwr/" + event)
			b.waitForText(says["SCHEDULED"] + " " + says["kept"])
			b.waitFor("#line")
			require.True(t, eval[bool](b, `document.querySelector("#sale").matches("[role=status]")`), "changes are read out")
			b.checkPage("scheduled")
			saleStatus.set("PAUSED")
			b.waitForText(says["PAUSED"])
			b.checkPage("paused")
			saleStatus.set("ON_SALE")
			b.until("nothing to say", `document.querySelector("#sale").textContent === ""`)
			saleStatus.set("SOLD_OUT")
			b.waitForText(says["SOLD_OUT"] + " " + says["stay"])
			b.checkPage("sold out")
			b.click("#language")
			other := map[string]string{"en": "ko", "ko": "en"}[p.lang]
			b.waitForText(words(t, other)["sale"]["SOLD_OUT"])
			b.click("#language")

			otherTab := openTab(t, base, p.device, p.lang)
			otherTab.visit("/vwr/" + otherEvent)
			otherTab.waitFor("#line")
			saleStatus.endSale(event, "CANCELLED")
			b.waitForText(says["CANCELLED"])
			b.until("no number", `!document.querySelector("#line").checkVisibility()`)
			b.checkPage("cancelled")
			testkit.Until(t, func() bool { return saleStatus.endResponses(event) == 3 }, "the page is sure")
			requireNoMorePolls(t, saleStatus, event, otherEvent)
			b.click(`main a[href="/"]`)
			b.until("the list of events", "location.pathname === '/'")
		})
	}
}

// testRoomIgnoresStaleEnds: single stale responses that say that the sale has ended, as after it
// was reopened, do not end the wait.
func testRoomIgnoresStaleEnds(t *testing.T) {
	parallelTab(t)
	says := words(t, "ko")["sale"]
	event := sale{}.open(t)
	openRoom(t, event, 3)
	base, saleStatus := proxyRooms(t)
	saleStatus.set("ON_SALE")
	b := openTab(t, base, phone, "ko")
	skipped := b.shortenLongPauses()
	b.visit("/vwr/" + event)
	b.waitFor("#line")
	number := b.storedPlace(event)
	for range 2 { // fewer than would end the wait
		saleStatus.endSaleTimes(event, "CLOSED", 2)
		testkit.Until(t, func() bool { return saleStatus.endResponses(event) == 2 }, "the page asks again")
		b.waitFor("#line")
	}
	require.Equal(t, number, b.storedPlace(event))
	require.GreaterOrEqual(t, len(skipped()), 4, "%v", skipped()) // also polls, a minute apart
	for _, seconds := range skipped() {
		require.InDelta(t, 48.5, seconds, 18.5, "half a minute to a minute, or a poll")
	}
	saleStatus.set("CLOSED")
	b.waitForText(says["CLOSED"])
	b.until("no number", `!document.querySelector("#line").checkVisibility()`)
}

// testLineIgnoresStaleEnds: the line ends the wait only when the sale itself reports its end.
func testLineIgnoresStaleEnds(t *testing.T) {
	parallelTab(t)
	event := sale{}.open(t)
	base, saleStatus := proxyLine(t)
	saleStatus.set("ON_SALE")
	b := openTab(t, base, phone, "ko")
	b.startSession(uniqueID("patient"))
	b.visit("/queue/" + event)
	b.waitFor("#position")
	saleStatus.endSale(event, "CLOSED")
	b.until("no place", `!document.querySelector("#position")`)
	testkit.Until(t, func() bool { return saleStatus.endResponses(event) >= 3 }, "the page goes on asking")
	saleStatus.clearSaleEnd(event)
	b.waitFor("#position")
}

// testLineShowsTheSaleStatus: a visitor in the line before a sale keeps the place, and sees the
// opening time and changes of the sale.
func testLineShowsTheSaleStatus(t *testing.T) {
	t.Parallel()
	for _, p := range variants {
		t.Run(p.String(), func(t *testing.T) {
			parallelTab(t)
			says := words(t, p.lang)["sale"]
			event, otherEvent := sale{opens: time.Hour}.open(t), sale{}.open(t)
			base, saleStatus := proxyLine(t)
			saleStatus.set("SCHEDULED")
			b := openTab(t, base, p.device, p.lang)
			call(b, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Seoul"})
			b.startSession(uniqueID("early"))
			b.visit("/queue/" + event)
			b.waitForText(says["SCHEDULED"] + " " + says["kept"])
			require.Equal(t, "3", b.text("#position"))
			require.Contains(t, b.text(".notice"), "GMT+9", "the opening, in a zone that is named")
			b.waitFor(".notice[role=status] .countdown")
			b.checkPage("scheduled")
			saleStatus.set("PAUSED")
			b.waitForText(says["PAUSED"])
			b.checkPage("paused")
			saleStatus.set("ON_SALE")
			b.until("nothing to say", `!document.querySelector(".notice")`)
			saleStatus.set("SOLD_OUT")
			b.waitForText(says["SOLD_OUT"] + " " + says["stay"])
			b.checkPage("sold out")

			otherTab := openTab(t, base, p.device, p.lang)
			otherTab.startSession(uniqueID("another"))
			otherTab.visit("/queue/" + otherEvent)
			otherTab.waitFor("#position")
			sale{closes: -time.Minute}.put(t, event)
			saleStatus.endSale(event, "CLOSED")
			b.waitForText(says["CLOSED"])
			b.until("no place", `!document.querySelector("#position")`)
			b.checkPage("closed")
			requireNoMorePolls(t, saleStatus, event, otherEvent)
			b.click(`main a[href="/"]`)
			b.until("the list of events", "location.pathname === '/'")
		})
	}
}

// testLineEndsWithTheSale: when a sale is closed early, its line ends the wait of all visitors.
func testLineEndsWithTheSale(t *testing.T) {
	parallelUnlimited(t)
	open := sale{threshold: 1}
	event := open.open(t)
	inside := signIn(t)
	inside.enter(event)
	b := openTab(t, platformURL, phone, "ko")
	b.startSession(uniqueID("late"))
	b.visit("/queue/" + event)
	b.waitFor("#position")
	open.closes = -time.Minute
	open.put(t, event)
	b.waitForText(words(t, "ko")["sale"]["CLOSED"])
	b.until("the way home", fmt.Sprintf("!document.querySelector('#position') && %s", visible(`main a[href="/"]`)))
}
