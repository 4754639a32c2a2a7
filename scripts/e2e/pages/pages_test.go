package pages_test

import (
	"net/http"
	"testing"

	"github.com/chromedp/cdproto/emulation"
)

// testLeavingTheLine gives the place up and takes a new one.
func testLeavingTheLine(t *testing.T) {
	t.Parallel()
	event := sale{threshold: 1}.open(t)
	inside := signIn(t)
	inside.enter(event)
	b := open(t, platformURL, phone, "ko")
	b.visit("/queue/" + event)
	b.logIn(unused("leaver"))
	b.arrive("/queue/" + event)
	b.see("#position")
	b.click("main button")
	b.say(words(t, "ko")["queue"]["left"])
	b.inspect("left")
	b.click("main button")
	b.see("#position")
}

// testGivingSeatsBack cancels a hold at the checkout, and another one in the own list.
func testGivingSeatsBack(t *testing.T) {
	t.Parallel()
	event := sale{}.open(t)
	b := open(t, platformURL, desktop, "en")
	b.goInside(event, unused("giver"))
	b.chooseFromList(1)
	b.click(".selection .wide")
	b.arrive("/checkout/")
	b.see("form button[type=submit]")
	b.click(`section[aria-labelledby="order"] button`)
	b.say(words(t, "en")["checkout"]["CANCELLED"])
	b.inspect("cancelled")

	b.visit("/events/" + event + "/seats")
	b.chooseFromList(1)
	b.click(".selection .wide")
	b.arrive("/checkout/")
	b.visit("/my")
	b.see(".actions button")
	b.inspect("held")
	b.click(".actions button")
	b.until("no held reservation", "!document.querySelector('.actions button')")
}

// testRefusalsInWords shows the API's own words, in the visitor's language.
func testRefusalsInWords(t *testing.T) {
	t.Parallel()
	for lang, sentence := range map[string]string{"en": "This event does not exist.", "ko": "존재하지 않는 이벤트입니다."} {
		t.Run(lang, func(t *testing.T) {
			t.Parallel()
			b := open(t, platformURL, phone, lang)
			b.visit("/events/" + unused("nowhere"))
			b.say(sentence)
			b.inspect("unknown event")
		})
	}
}

// testSwitchingTheLanguage: the choice is kept, and counts for the API's words too.
func testSwitchingTheLanguage(t *testing.T) {
	t.Parallel()
	b := open(t, platformURL, phone, "ko")
	path := "/events/" + unused("nowhere")
	b.visit(path)
	b.say("존재하지 않는 이벤트입니다.")
	b.click("#language")
	b.say("This event does not exist.")
	b.visit("/")
	b.until("English", "document.documentElement.lang === 'en'")
}

// testSigningOut forgets who was there.
func testSigningOut(t *testing.T) {
	t.Parallel()
	b := open(t, platformURL, desktop, "en")
	b.visit("/my")
	b.arrive("/login")
	b.logIn(unused("leaver"))
	b.arrive("/my")
	b.say(words(t, "en")["my"]["noTickets"])
	b.inspect("nothing yet")
	b.click("#sign-out")
	b.until("the sign-in link", "document.querySelector('#sign-in')")
	b.visit("/my")
	b.arrive("/login")
}

// testReturnPathsStayHere: nobody can make the sign-in page lead to another site.
func testReturnPathsStayHere(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"https://example.org/", "//example.org/", `/\example.org/`, "javascript:alert(1)"} {
		b := open(t, platformURL, desktop, "en")
		b.visit("/login")
		b.do(setLocation("/login?returnTo=" + path))
		b.arrive("/login")
		b.logIn(unused("returner"))
		b.until("the list of events", "location.pathname === '/' && document.querySelector('body[data-page=events]')")
	}
}

// testServerFailure: a failure of the server is said with the number under which operators find it.
func testServerFailure(t *testing.T) {
	t.Parallel()
	base := through(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/api/v1/events" {
			return false
		}
		refuse(w, http.StatusInternalServerError, `{"status": 500, "code": "INTERNAL", "detail": "It broke.", "requestId": "req-77"}`)
		return true
	})
	b := open(t, base, phone, "en")
	b.visit("/")
	b.say("It broke.")
	b.say("Reference req-77")
	b.inspect("broken")
}

// testNarrowAndDark: the pages hold at 320 pixels (WCAG 2.2, 1.4.10) and in dark colours.
func testNarrowAndDark(t *testing.T) {
	t.Parallel()
	event := sale{}.open(t)
	b := open(t, platformURL, device{name: "narrow", width: 320, height: 568, scale: 2, mobile: true}, "ko")
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}},
	})
	b.visit("/")
	b.see(".event-card")
	b.inspect("events")
	b.visit("/events/" + event)
	b.see(".facts")
	b.inspect("event")
	b.goInside(event, unused("narrow"))
	b.chooseFromList(1)
	b.inspect("seats")
	b.click(".selection .wide")
	b.payTwice()
	b.seeTickets(1)
	other := sale{}.open(t)
	openRoom(t, other, 3)
	b.visit("/vwr/" + other)
	b.see("#line")
	b.inspect("waiting room")
}
