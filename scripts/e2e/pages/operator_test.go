package pages_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/scripts/platform"
)

// setState pauses, cancels or reopens a sale in ticket's database, since no RPC does that yet.
func setState(t *testing.T, event, state string) {
	t.Helper()
	ctx, cancel := testkit.Context(t)
	defer cancel()
	changed, err := services.DB(platform.Ticket).Exec(ctx, `UPDATE events SET state = $2 WHERE event_id = $1`, event, state)
	require.NoError(t, err)
	require.EqualValues(t, 1, changed.RowsAffected())
}

// skipOnForeignPlatform skips tests that need the stores of the platform.
func skipOnForeignPlatform(t *testing.T) {
	t.Helper()
	if os.Getenv("URR_E2E_URL") != "" {
		t.Skip("a foreign platform does not share its stores")
	}
}

// pausedSale opens a sale and pauses it. It returns the sale, and what the pages say of each status
// in the language.
func pausedSale(t *testing.T, language string) (event string, says map[string]string) {
	t.Helper()
	skipOnForeignPlatform(t)
	parallelTab(t)
	event = sale{}.open(t)
	setState(t, event, "PAUSED")
	return event, words(t, language)["sale"]
}

// testPausedSale: while a sale is paused, its line and its page say so and visitors wait; once it
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
	setState(t, event, "OPEN")
	b.waitForPath("/events/" + event + "/seats")
}

// testCancelledSale: a cancelled event ends the wait in its line, and its page no longer links to
// the line.
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
	setState(t, event, "CANCELLED")
	b.waitForText(says["CANCELLED"])
	b.until("the way home", fmt.Sprintf("!document.querySelector('#position') && %s", visible(`main a[href="/"]`)))
	b.checkPage("cancelled line")
	b.visit("/events/" + event)
	b.waitForText(says["CANCELLED"])
	require.True(t, eval[bool](b, `document.querySelector(".enter a") === null`))
	b.checkPage("cancelled event")
}
