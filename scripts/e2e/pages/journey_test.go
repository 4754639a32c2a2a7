package pages_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// place is a language at a size of screen.
type place struct {
	device
	lang string
}

// everywhere is what the pages are walked through in.
var everywhere = []place{{phone, "ko"}, {phone, "en"}, {desktop, "ko"}, {desktop, "en"}}

func (p place) String() string { return p.name + "-" + p.lang }

// testJourney goes the whole way: waiting room, event, line, seats, a declined and a late payment, tickets.
func testJourney(t *testing.T) {
	t.Parallel()
	for _, p := range everywhere {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			event := sale{threshold: 1}.open(t)
			inside := signIn(t)
			inside.enter(event)
			openRoom(t, event, 3)
			b := open(t, platformURL, p.device, p.lang)

			b.visit("/")
			b.see(".event-card")
			b.inspect("events")

			b.visit("/events/" + event)
			b.arrive("/vwr/" + event)
			b.see("#line")
			b.inspect("waiting-room")
			serve(t, event, 4)
			b.arrive("/events/" + event)
			b.see(".facts")
			b.inspect("event")

			b.click(`a[href="/queue/` + event + `"]`)
			b.arrive("/login")
			b.see("#user")
			b.inspect("login")
			inside.enter(event) // who is not heard of for two minutes loses the slot
			b.logIn(unused("journey"))

			b.arrive("/queue/" + event)
			b.see("#position")
			require.Equal(t, "1", b.text("#position"))
			b.inspect("line")
			inside.leave(event)

			b.arrive("/events/" + event + "/seats")
			b.chooseFromList(2)
			b.inspect("seats")
			b.click(".selection .wide")
			b.payTwice()
			b.seeTickets(2)
		})
	}
}

// logIn fills in the development form.
func (b *tab) logIn(user string) {
	b.t.Helper()
	b.see("#user")
	b.fill("#user", user)
	b.click("main button[type=submit]")
}

// chooseFromList takes the first free seats of the list.
func (b *tab) chooseFromList(n int) {
	b.t.Helper()
	b.see("canvas")
	for i := 1; i <= n; i++ {
		b.see(".seat:has(input:enabled:not(:checked))")
		b.click(".seat:has(input:enabled:not(:checked))")
		b.until("a chosen seat", "document.querySelectorAll('.selection li').length === "+string(rune('0'+i)))
	}
}

// payTwice is declined first and confirmed late afterwards.
func (b *tab) payTwice() {
	b.t.Helper()
	b.arrive("/checkout/")
	b.see("form button[type=submit]")
	b.inspect("checkout")
	b.click("input[value=decline]")
	b.click("form button[type=submit]")
	b.see(".notice.bad")
	b.inspect("declined")
	b.see("input[value=late]:enabled")
	b.click("input[value=late]")
	b.click("form button[type=submit]")
	b.see(".notice.good")
	b.inspect("booked")
}

// seeTickets goes from the booking to the own tickets and compares with the API.
func (b *tab) seeTickets(n int) {
	b.t.Helper()
	b.click(`main a[href="/my"]`)
	b.arrive("/my")
	b.see("details")
	b.until("the events' titles", "[...document.querySelectorAll('h3')].every(h => h.textContent.includes('Autumn'))")
	b.click("summary")
	b.see(".code")
	b.inspect("tickets")
	require.Equal(b.t, n, eval[int](b, "document.querySelectorAll('details').length"))
	codes := eval[[]string](b, "fetch('/api/v1/my/tickets').then(r => r.json()).then(l => l.items.map(i => i.code))")
	require.Len(b.t, codes, n)
	require.Contains(b.t, codes, b.text(".code"))
}

// testGeneralAdmission buys without a map.
func testGeneralAdmission(t *testing.T) {
	t.Parallel()
	for _, p := range everywhere {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			event := sale{seating: "GENERAL", sections: []object{
				{"section": "FLOOR", "price": 88000, "capacity": 50}, {"section": "GONE", "price": 99000, "capacity": 1},
			}}.open(t)
			other := signIn(t)
			other.enter(event)
			other.call(http.MethodPost, "/api/v1/reservations", object{"eventId": event, "section": "GONE", "quantity": 1})

			b := open(t, platformURL, p.device, p.lang)
			b.visit("/queue/" + event)
			b.logIn(unused("general"))
			b.arrive("/events/" + event + "/book")
			b.see("#quantity")
			b.until("the sold-out section to be closed", "document.querySelector('input[value=GONE]').disabled")
			b.do(setValue("#quantity", "3"))
			b.inspect("book")
			b.click("main button[type=submit]")
			b.arrive("/checkout/")
			b.see("form button[type=submit]")
			b.click("form button[type=submit]")
			b.see(".notice.good")
			b.seeTickets(3)
		})
	}
}

// testBestSeats has the platform choose, and shows a refusal in the visitor's language.
func testBestSeats(t *testing.T) {
	t.Parallel()
	for lang, refusal := range map[string]string{"en": "You have reached the limit per person.", "ko": "1인당 예매 한도를 초과했습니다."} {
		t.Run(lang, func(t *testing.T) {
			t.Parallel()
			event := sale{limit: 2}.open(t)
			b := open(t, platformURL, desktop, lang)
			b.visit("/queue/" + event)
			b.logIn(unused("best"))
			b.arrive("/events/" + event + "/seats")
			b.see(`a[href="/events/` + event + `/book"]`)
			b.click(`main a[href="/events/` + event + `/book"]`)
			b.arrive("/events/" + event + "/book")
			b.see("#quantity")
			b.do(setValue("#quantity", "2"))
			b.click("main button[type=submit]")
			b.arrive("/checkout/")
			b.see(".plain .row:nth-child(2)")

			b.visit("/events/" + event + "/book")
			b.see("#quantity")
			b.click("main button[type=submit]")
			b.say(refusal)
			b.inspect("refused")
		})
	}
}
