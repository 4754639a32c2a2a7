package pages_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// testCheckIn buys a ticket, shows its QR code, and checks it in at a door, which then says that it
// is used. An unknown code is refused, and a user who is not staff sees no door.
func testCheckIn(t *testing.T) {
	t.Parallel()
	for _, p := range variants {
		t.Run(p.String(), func(t *testing.T) {
			parallelTab(t)
			says := words(t, p.lang)["check-in"]
			event := sale{}.open(t)
			b := openTab(t, platformURL, p.device, p.lang)
			b.reserveSeat(event, uniqueID("guest"))
			b.payWith("ok")
			b.waitFor(".notice.good")
			b.visit("/my")
			b.waitFor("details")
			b.click("summary")
			b.until("the image of the code", "(i => i.complete && i.naturalWidth > 0)(document.querySelector('.qr img'))")
			b.checkPage("ticket")
			code := b.text(".code")

			b.visit("/check-in")
			b.waitForText(map[string]string{"en": "Your account may not do this.", "ko": "이 작업을 수행할 권한이 없는 계정입니다."}[p.lang])
			b.startSession(uniqueID("door"), "staff")
			b.visit("/check-in?event=" + event)
			b.waitFor("#counts")
			b.checkPage("door")
			b.checkIn(code)
			b.waitFor(".notice.good")
			b.waitForText(says["admitted"])
			b.checkPage("admitted")
			b.checkIn(code)
			b.waitFor(".notice.warn")
			b.waitForText(says["used"])
			b.checkPage("used")
			b.checkIn("forged")
			b.waitFor(".notice.bad")
			b.waitForText(says["UNKNOWN_CODE"])
			b.checkPage("unknown")

			b.reload()
			b.waitFor("#counts")
			require.Equal(t, event, eval[string](b, "document.querySelector('#event').value"), "a reload keeps the event")
		})
	}
}

// testUndoneCheckIn: a ticket whose check-in was undone is valid again.
func testUndoneCheckIn(t *testing.T) {
	parallelTab(t)
	says := words(t, "ko")["check-in"]
	event := sale{}.open(t)
	b := openTab(t, platformURL, phone, "ko")
	b.reserveSeat(event, uniqueID("guest"))
	b.payWith("ok")
	b.waitFor(".notice.good")
	code := eval[string](b, "fetch('/api/v1/my/tickets').then(r => r.json()).then(l => l.items[0].code)")
	b.startSession(uniqueID("door"), "staff")
	b.visit("/check-in?event=" + event)
	b.waitFor("#code")
	for range 2 {
		b.checkIn(code)
		b.waitFor("#undo")
		b.click("#undo")
		b.waitForText(says["undone"])
	}
	b.checkPage("undone")
}

// checkIn types a code at the door.
func (b *tab) checkIn(code string) {
	b.t.Helper()
	b.waitFor("form button[type=submit]:enabled")
	b.fill("#code", code)
	b.click("form button[type=submit]")
	b.until("an answer", "document.querySelector('#code').value === '' && !document.querySelector('form button').disabled")
}
