package pages_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
)

// visitBeforeOpening opens a page of a sale that is about to begin, and returns the event once the
// page counts down. If a sale has begun before its page was loaded, it retries with a later one.
func (b *tab) visitBeforeOpening(path string) (event string) {
	b.t.Helper()
	for ahead := 5 * time.Second; ; ahead *= 2 {
		event = sale{opens: ahead}.open(b.t)
		b.visit(path + event)
		begun := `document.querySelector(".enter a") && !document.querySelector(".countdown") || location.pathname.endsWith("/seats")`
		if b.untilAny("the sale", begun, visible(".countdown")) == 1 {
			return event
		}
	}
}

// testSaleOpens: before the sale the page counts down, shows the opening time, and offers a place
// in the line. After the opening it offers tickets.
func testSaleOpens(t *testing.T) {
	t.Parallel()
	for _, p := range variants {
		t.Run(p.String(), func(t *testing.T) {
			parallelTab(t)
			says := words(t, p.lang)
			b := openTab(t, platformURL, p.device, p.lang)
			call(b, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Seoul"})
			b.visit("/events/" + sale{opens: time.Hour}.open(t))
			b.waitForText(says["sale"]["SCHEDULED"])
			b.waitFor(".countdown")
			require.Equal(t, says["event"]["enterEarly"], b.text(".enter a"))
			require.Contains(t, b.text(".enter > .muted"), "GMT+9", "the opening, in a zone that is named")
			b.checkPage("before")
			event := b.visitBeforeOpening("/events/")
			b.until("the sale", fmt.Sprintf("document.querySelector('.enter a').textContent === %q", says["event"]["enter"]))
			require.True(t, eval[bool](b, `document.querySelector(".countdown") === null`))
			b.waitFor(`main a[href="/queue/` + event + `"]`)
			b.checkPage("open")
		})
	}
}

// testPlaceBeforeTheSale: before the sale, the event's page leads to the line, which keeps places.
func testPlaceBeforeTheSale(t *testing.T) {
	parallelTab(t)
	event := sale{opens: time.Hour}.open(t)
	b := openTab(t, platformURL, phone, "en")
	b.startSession(uniqueID("early"))
	b.visit("/events/" + event)
	b.click(".enter a")
	b.waitForPath("/queue/" + event)
	b.waitFor("#position")
	says := words(t, "en")["sale"]
	b.waitForText(says["SCHEDULED"] + " " + says["kept"])
}

// testLineWithoutSaleStatus: a line that does not report the sale's status would use up a slot
// before the sale, so the page does not join it before the sale.
func testLineWithoutSaleStatus(t *testing.T) {
	parallelTab(t)
	event := sale{opens: time.Hour}.open(t)
	var queried, joined atomic.Int32
	base := intercept(t, func(w http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Path {
		case "/api/v1/queue/status/" + event:
			queried.Add(1)
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(object{"status": "none", "nextPoll": 1})
			return true
		case "/api/v1/queue/check/" + event:
			joined.Add(1)
		}
		return false
	})
	b := openTab(t, base, phone, "ko")
	pauses := b.shortenLongPauses()
	b.startSession(uniqueID("early"))
	b.visit("/events/" + event)
	b.click(".enter a")
	b.waitForPath("/queue/" + event)
	// The page polls a few times, in case the queue service does not know the sale yet. Then it
	// queries the sale and the line only about every five minutes.
	testkit.Until(t, func() bool { return len(pauses()) > 0 }, "the page waits for the sale")
	require.Greater(t, queried.Load(), int32(1))
	require.GreaterOrEqual(t, slices.Min(pauses()), 270.0)
	require.Zero(t, joined.Load())
	b.waitForText(words(t, "ko")["sale"]["SCHEDULED"])
	b.waitFor(".countdown")
}

// testLineOpensWithTheSale: a visitor who waits on the line's page is admitted when the sale opens.
func testLineOpensWithTheSale(t *testing.T) {
	parallelTab(t)
	b := openTab(t, platformURL, phone, "ko")
	far := sale{opens: time.Hour}.open(t)
	b.visit("/queue/" + far)
	b.logIn(uniqueID("early"))
	b.waitForPath("/queue/" + far)
	b.waitForText(words(t, "ko")["sale"]["SCHEDULED"])
	b.checkPage("before")
	event := b.visitBeforeOpening("/queue/")
	b.waitForPath("/events/" + event + "/seats")
}

// testNoLineAfterTheSale: the line of an ended sale says so instead of keeping visitors waiting.
func testNoLineAfterTheSale(t *testing.T) {
	parallelTab(t)
	closed := sale{opens: -2 * time.Hour, closes: -time.Hour}.open(t)
	b := openTab(t, platformURL, phone, "en")
	b.visit("/events/" + closed)
	b.waitForText(words(t, "en")["sale"]["CLOSED"])
	b.checkPage("closed")
	b.visit("/queue/" + closed)
	b.waitForText(words(t, "en")["sale"]["CLOSED"])
	b.checkPage("closed line")
	require.False(t, eval[bool](b, "document.querySelector('#position') !== null"))
	b.visit("/queue/" + uniqueID("nowhere"))
	b.waitForText("This event does not exist.")
	b.checkPage("unknown line")
}

// testSoldOut: the pages say that a sale is sold out, and sell places that become free.
func testSoldOut(t *testing.T) {
	parallelUnlimited(t)
	event := sale{seating: "GENERAL", sections: []object{{"section": "FLOOR", "price": 1000, "capacity": 1}}}.open(t)
	other := signIn(t)
	other.enter(event)
	id, _ := other.call(http.MethodPost, "/api/v1/reservations", object{"eventId": event, "section": "FLOOR", "quantity": 1})["reservationId"].(string)
	b := openTab(t, platformURL, phone, "ko")
	b.startSession(uniqueID("hopeful"))
	b.visit("/queue/" + event)
	b.waitForPath("/events/" + event + "/book")
	b.waitForText(words(t, "ko")["sale"]["SOLD_OUT"])
	b.checkPage("sold out")
	require.True(t, eval[bool](b, "document.querySelector('main button[type=submit]').disabled"))
	other.call(http.MethodDelete, "/api/v1/my/reservations/"+id, nil)
	b.until("the ticket that came back", "!document.querySelector('main button[type=submit]').disabled")
}

// testTimesShowTheirZone: times of an event are in the zone of its venue, and also in the visitor's
// zone if clocks differ there. Each time is shown with its zone.
func testTimesShowTheirZone(t *testing.T) {
	parallelTab(t)
	event := sale{timeZone: "Asia/Tokyo"}.open(t)
	for zone, visitorOffset := range map[string]string{"Asia/Tokyo": "", "Asia/Seoul": "", "Asia/Kolkata": "GMT+5:30"} {
		b := openTab(t, platformURL, desktop, "ko")
		call(b, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: zone})
		b.visit("/events/" + event)
		b.waitFor(".facts")
		require.Equal(t, 4, strings.Count(b.text(".facts"), "GMT+9"), "the event, the sale's opening and its end, and that of refunds")
		if visitorOffset == "" {
			require.NotContains(t, b.text(".facts"), "이용자", "a second time would be the same")
			continue
		}
		require.Contains(t, b.text(".facts time"), "이용자 시간대")
		require.Equal(t, 4, strings.Count(b.text(".facts"), visitorOffset))
		b.checkPage("both zones")
	}
}
