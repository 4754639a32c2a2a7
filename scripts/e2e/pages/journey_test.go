package pages_test

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/stretchr/testify/require"
)

const sessionCookie = "urr-session"

// variant is a language at a screen size.
type variant struct {
	device
	lang string
}

// variants has each language and each width once. checkPage checks the layout at both widths.
var variants = []variant{{phone, "ko"}, {desktop, "en"}}

func (p variant) String() string { return p.name + "-" + p.lang }

// testJourney runs the whole journey: waiting room, event, line, seats, a declined and a late
// payment, tickets.
func testJourney(t *testing.T) {
	t.Parallel()
	for _, p := range variants {
		t.Run(p.String(), func(t *testing.T) {
			parallelTab(t)
			event := sale{threshold: 1}.open(t)
			inside := signIn(t)
			inside.occupy(event)
			openRoom(t, event, 3)
			b := openTab(t, platformURL, p.device, p.lang)

			b.visit("/")
			b.waitFor(".event-card")
			b.checkPage("events")

			b.visit("/events/" + event)
			b.waitForPath("/vwr/" + event)
			b.waitFor("#line")
			b.checkPage("waiting-room")
			serveAll(t, event)
			b.waitForPath("/events/" + event)
			b.waitFor(".facts")
			b.checkPage("event")

			b.click(`a[href="/queue/` + event + `"]`)
			b.waitForPath("/login")
			b.waitFor("#user")
			b.checkPage("login")
			b.logIn(uniqueID("journey"))

			b.waitForPath("/queue/" + event)
			b.waitFor("#position")
			require.Equal(t, "1", b.text("#position"))
			b.checkPage("line")
			inside.leave(event)

			b.waitForPath("/events/" + event + "/seats")
			b.chooseFromList(2)
			b.checkPage("seats")
			b.click(".selection .wide")
			b.payAfterDecline()
			b.checkTickets(2)
		})
	}
}

// startSession signs a user in without the sign-in page.
func (b *tab) startSession(user string, roles ...string) {
	b.t.Helper()
	for name, value := range map[string]string{sessionCookie: signInAs(b.t, user, roles...).token, "urr-signed-in": "1"} {
		call(b, network.SetCookie, network.SetCookieParams{Name: name, Value: value, URL: b.base})
	}
}

// logIn submits the development sign-in form.
func (b *tab) logIn(user string) {
	b.t.Helper()
	b.waitFor("#user")
	b.fill("#user", user)
	b.click("main button[type=submit]")
}

// chooseFromList selects the first free seats of the list.
func (b *tab) chooseFromList(n int) {
	b.t.Helper()
	b.waitFor("canvas")
	for i := 1; i <= n; i++ {
		b.waitFor(".seat:has(input:enabled:not(:checked))")
		b.click(".seat:has(input:enabled:not(:checked))")
		b.until("a chosen seat", "document.querySelectorAll('.selection li').length === "+strconv.Itoa(i))
	}
}

// payAfterDecline pays twice: the first payment is declined and the second confirmed late.
func (b *tab) payAfterDecline() {
	b.t.Helper()
	b.waitForPath("/checkout/")
	b.waitFor("form button[type=submit]")
	b.checkPage("checkout")
	b.click("form button[type=submit]")
	b.waitFor("input[value=decline]:enabled")
	b.checkPage("sandbox")
	b.payWith("decline")
	b.waitFor(".notice.bad")
	b.checkPage("declined")
	b.payWith("late")
	b.waitFor(".notice.good")
	b.checkPage("booked")
}

// checkTickets goes from the booking to the user's tickets and compares them with the API.
func (b *tab) checkTickets(n int) {
	b.t.Helper()
	b.click(`main a[href="/my"]`)
	b.waitForPath("/my")
	b.waitFor("details")
	b.until("the events' titles", "[...document.querySelectorAll('h3')].every(h => h.textContent.includes('Autumn'))")
	b.click("summary")
	b.waitFor(".code")
	b.checkPage("tickets")
	require.Equal(b.t, n, eval[int](b, "document.querySelectorAll('details').length"))
	codes := eval[[]string](b, "fetch('/api/v1/my/tickets').then(r => r.json()).then(l => l.items.map(i => i.code))")
	require.Len(b.t, codes, n)
	require.Contains(b.t, codes, b.text(".code"))
}

// testGeneralAdmission buys places in a standing area, without a seat map.
func testGeneralAdmission(t *testing.T) {
	t.Parallel()
	for _, p := range variants {
		t.Run(p.String(), func(t *testing.T) {
			parallelTab(t)
			event := sale{seating: "GENERAL", sections: []object{
				{"section": "FLOOR", "price": 88000, "capacity": 50}, {"section": "GONE", "price": 99000, "capacity": 1},
			}}.open(t)
			other := signIn(t)
			other.enter(event)
			other.call(http.MethodPost, "/api/v1/reservations", object{"eventId": event, "section": "GONE", "quantity": 1})

			b := openTab(t, platformURL, p.device, p.lang)
			b.startSession(uniqueID("general"))
			b.visit("/events/" + event)
			b.waitFor(`main a[href="/queue/` + event + `"]`)
			b.requireNoSeatWords()
			b.checkPage("event")
			b.visit("/queue/" + event)
			b.waitForPath("/events/" + event + "/book")
			b.waitFor("#quantity")
			b.until("the sold-out section to be closed", "document.querySelector('input[value=GONE]').disabled")
			b.do(setValue("#quantity", "3"))
			b.checkPage("book")
			b.requireNoSeatWords()
			b.click("main button[type=submit]")
			b.waitForPath("/checkout/")
			b.waitFor("form button[type=submit]")
			b.requireNoSeatWords()
			b.payWith("ok")
			b.waitFor(".notice.good")
			b.checkTickets(3)
			b.requireNoSeatWords()
		})
	}
}

// testBestSeats lets the platform choose the seats, and shows a refusal in the visitor's language.
func testBestSeats(t *testing.T) {
	t.Parallel()
	for lang, refusal := range map[string]string{"en": "You have reached the limit per person.", "ko": "1인당 예매 한도를 초과했습니다."} {
		t.Run(lang, func(t *testing.T) {
			parallelTab(t)
			event := sale{limit: 2}.open(t)
			b := openTab(t, platformURL, desktop, lang)
			b.startSession(uniqueID("best"))
			b.visit("/queue/" + event)
			b.waitForPath("/events/" + event + "/seats")
			b.waitFor(`a[href="/events/` + event + `/book"]`)
			b.click(`main a[href="/events/` + event + `/book"]`)
			b.waitForPath("/events/" + event + "/book")
			b.waitFor("#quantity")
			b.do(setValue("#quantity", "2"))
			b.click("main button[type=submit]")
			b.waitForPath("/checkout/")
			b.waitFor(".plain .row:nth-child(2)")

			b.visit("/events/" + event + "/book")
			b.waitFor("#quantity")
			b.click("main button[type=submit]")
			b.waitForText(refusal)
			b.checkPage("refused")
		})
	}
}
