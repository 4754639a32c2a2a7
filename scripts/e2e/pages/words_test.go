package pages_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
)

// testUnknownEvent: the URL of an event that does not exist returns 404 with a link home, in the
// visitor's language; once the event exists, so does its page.
func testUnknownEvent(t *testing.T) {
	t.Parallel()
	for _, p := range variants {
		t.Run(p.String(), func(t *testing.T) {
			parallelTab(t)
			b := openTab(t, platformURL, p.device, p.lang)
			path := "/events/" + uniqueID("nowhere")
			// A gateway that does not learn in time whether the event exists serves its page.
			testkit.Until(t, func() bool {
				b.visit(path)
				return eval[int](b, "performance.getEntriesByType('navigation')[0].responseStatus") == 404
			}, "the page of an unknown event has the status 404")
			says := words(t, p.lang)["problem"]
			b.waitForText(says["noEvent"])
			require.Equal(t, says["noEventTitle"], b.text("h1"))
			b.checkPage("unknown event")
			b.click(`main a[href="/"]`)
			b.until("the list of events", "location.pathname === '/' && document.querySelector('body[data-page=events]')")
		})
	}
}

// testSignInReason: the sign-in page gives the reason for the sign-in.
func testSignInReason(t *testing.T) {
	t.Parallel()
	for _, lang := range []string{"en", "ko"} {
		t.Run(lang, func(t *testing.T) {
			parallelTab(t)
			event := sale{}.open(t)
			b := openTab(t, platformURL, phone, lang)
			says := words(t, lang)["login"]
			for path, reason := range map[string]string{
				"/queue/" + event: says["toQueue"],
				"/checkout/01990f5e-7b5a-7c3e-9d1a-3b5c7d9e1f20": says["toCheckout"],
				"/orders/01990f5e-7b5a-7c3e-9d1a-3b5c7d9e1f20":   says["toOrder"],
				"/my": says["toMy"],
			} {
				b.visit(path)
				b.waitForPath("/login")
				b.waitFor("#user")
				require.Equal(t, reason, b.text(".reason"), path)
			}
			b.checkPage("sign in")
			b.visit("/login?returnTo=" + url.QueryEscape("/events/"+event+"/seats"))
			b.waitFor("#user")
			require.Equal(t, says["toChoice"], b.text(".reason"))
			b.visit("/login")
			b.waitFor("#user")
			require.Empty(t, b.text(".reason"), "who signs in unasked knows why")
		})
	}
}

// chooseSeat selects one seat from the list; rows and seats count from 1.
func (b *tab) chooseSeat(row, seat int) {
	b.t.Helper()
	chosen := eval[int](b, "document.querySelectorAll('.selection li').length")
	b.do(setValue("#row", fmt.Sprint(row-1)))
	label := fmt.Sprintf(".seat-row li:nth-child(%d) .seat", seat)
	b.until("the row", fmt.Sprintf("document.querySelector('.seat-row').ariaLabel.startsWith('Row %d ')", row))
	b.click(label)
	b.until("a chosen seat", fmt.Sprintf("document.querySelectorAll('.selection li').length === %d", chosen+1))
}

// seatsIn lists the seats named in a part of the page, in order.
func (b *tab) seatsIn(selector string) []string {
	b.t.Helper()
	return eval[[]string](b, fmt.Sprintf(
		`[...document.querySelectorAll(%q)].flatMap(e => e.innerText.match(/Section A, row \d+, seat \d+/) ?? [])`, selector))
}

// testNaturalOrder: the seats are in the order of the hall, regardless of the order of selection.
func testNaturalOrder(t *testing.T) {
	parallelTab(t)
	event := sale{sections: []object{{"section": "A", "price": 1000, "rows": 10, "seatsPerRow": 10}}}.open(t)
	b := openTab(t, platformURL, desktop, "en")
	b.openSeatMap(event, uniqueID("orderly"))
	b.chooseSeat(10, 1)
	b.chooseSeat(2, 10)
	b.chooseSeat(2, 2)
	inOrder := []string{"Section A, row 2, seat 2", "Section A, row 2, seat 10", "Section A, row 10, seat 1"}
	require.Empty(t, cmp.Diff(inOrder, b.seatsIn(".selection li")), "the choice")
	b.checkPage("chosen")
	b.click(".selection .wide")
	b.waitForPath("/checkout/")
	b.waitFor("form button[type=submit]")
	require.Empty(t, cmp.Diff(inOrder, b.seatsIn(`[aria-labelledby="order"] li`)), "the checkout")
	b.payWith("ok")
	b.waitFor(".notice.good")
	b.checkTickets(3)
	require.Empty(t, cmp.Diff(inOrder, b.seatsIn(`[aria-labelledby="tickets"] .card`)), "the tickets")
	require.Empty(t, cmp.Diff(inOrder, b.seatsIn(`[aria-labelledby="reservations"] li li`)), "the reservation")
}

// requireNoSeatWords requires that a page for standing places does not mention seats.
func (b *tab) requireNoSeatWords() {
	b.t.Helper()
	require.NotRegexp(b.t, `(?i)\bseats?\b|좌석|\d석|자리`, b.text("body"), "the page %s", b.path())
}

// testTimeZoneName: beside the abbreviation in each time, an event's page shows the full name of
// the event's time zone, which is that of Seoul unless set.
func testTimeZoneName(t *testing.T) {
	parallelTab(t)
	event := sale{}.open(t)
	for lang, name := range map[string]string{"en": "Korean Standard Time", "ko": "한국 표준시"} {
		b := openTab(t, platformURL, phone, lang)
		call(b, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "America/New_York"})
		b.visit("/events/" + event)
		b.waitFor(".facts")
		require.Contains(t, b.text(".facts"), strings.ReplaceAll(words(t, lang)["event"]["eventZone"], "{zone}", name))
		b.checkPage("zone")
		b.visit("/")
		eventTime := `.event-card:has(a[href^="/events/"]) time` // promotions have no venue
		b.waitFor(eventTime)
		require.Contains(t, b.text(eventTime), "GMT+9")
		require.Regexp(t, `GMT-[45]|E[SD]T`, b.text(eventTime))
		b.checkPage("zones of the list")
	}
}
