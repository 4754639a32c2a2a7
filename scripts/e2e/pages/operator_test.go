package pages_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// operate pauses, resumes, cancels or postpones an event.
func operate(t *testing.T, event, act string, body object) {
	t.Helper()
	signIn(t, "admin").call(http.MethodPost, "/api/v1/admin/events/"+event+"/"+act, body)
}

// skipOnForeignPlatform skips tests that need the stores of the platform.
func skipOnForeignPlatform(t *testing.T) {
	t.Helper()
	if os.Getenv("URR_E2E_URL") != "" {
		t.Skip("a foreign platform does not share its stores")
	}
}

// pausedSale opens a sale and pauses it. It returns the event, and the texts of the pages about
// each status in the language.
func pausedSale(t *testing.T, language string) (event string, says map[string]string) {
	t.Helper()
	parallelTab(t)
	event = sale{}.open(t)
	operate(t, event, "pause", object{})
	return event, words(t, language)["sale"]
}

// testPausedSale: while a sale is paused, its line and its page say so and visitors wait. Once it
// is open again, they are admitted.
func testPausedSale(t *testing.T) {
	event, says := pausedSale(t, "ko")
	b := openTab(t, platformURL, phone, "ko")
	b.startSession(uniqueID("patient"))
	b.visit("/events/" + event)
	b.waitForText(says["PAUSED"])
	b.checkPage("paused event")
	b.visit("/queue/" + event)
	b.waitFor("#position")
	b.waitForText(says["PAUSED"])
	b.checkPage("paused line")
	operate(t, event, "resume", object{})
	b.waitForPath("/events/" + event + "/seats")
}

// testCancelledSale: while a cancellation can be undone, line, room and event say that the event is
// cancelled, and places are kept. Once its refunds have begun, the wait in the line ends.
func testCancelledSale(t *testing.T) {
	event, says := pausedSale(t, "en")
	b := openTab(t, platformURL, desktop, "en")
	b.startSession(uniqueID("disappointed"))
	b.visit("/queue/" + event)
	b.waitFor("#position")
	openRoom(t, event, 3)
	inRoom := openTab(t, platformURL, phone, "en")
	inRoom.visit("/vwr/" + event)
	inRoom.waitFor("#line")
	inRoom.waitForText(says["PAUSED"])
	operate(t, event, "cancel", object{"graceSeconds": 3600})
	b.waitForText(says["CANCELLED"])
	b.checkPage("cancelled line")
	inRoom.waitForText(says["CANCELLED"])
	operate(t, event, "cancel/undo", object{})
	b.waitFor("#position")
	inRoom.waitForText(says["PAUSED"])

	operate(t, event, "cancel", object{"graceSeconds": 3600})
	operate(t, event, "cancel/refund", object{})
	b.waitForText(says["refundsBegun"])
	b.until("the way home", fmt.Sprintf("!document.querySelector('#position') && %s", visible(`main a[href="/"]`)))
	b.visit("/events/" + event)
	b.waitForText(says["CANCELLED"])
	require.True(t, eval[bool](b, `document.querySelector(".enter a") === null`))
	b.checkPage("cancelled event")
}

// testPostponedSale: a postponed event shows its old and its new date.
func testPostponedSale(t *testing.T) {
	parallelTab(t)
	event := sale{}.open(t)
	operate(t, event, "postpone", object{"startsAt": time.Now().UTC().AddDate(0, 3, 0)})
	for _, language := range []string{"en", "ko"} {
		b := openTab(t, platformURL, phone, language)
		before, _, _ := strings.Cut(words(t, language)["sale"]["postponed"], "{before}")
		b.visit("/events/" + event)
		b.until("the old and the new date", fmt.Sprintf(`[...document.querySelectorAll(".notice")].some((n) => n.textContent.startsWith(%q))`, before))
		b.checkPage("postponed event")
	}
}
