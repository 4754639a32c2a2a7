package pages_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testRefund buys two tickets and returns one. The order shows the refund in progress and when it
// is done, and the other ticket stays valid.
func testRefund(t *testing.T) {
	t.Parallel()
	for _, p := range variants {
		t.Run(p.String(), func(t *testing.T) {
			parallelTab(t)
			event := sale{}.open(t)
			says := words(t, p.lang)["order"]
			b := openTab(t, platformURL, p.device, p.lang)
			b.startSession(uniqueID("refund"))
			b.visit("/events/" + event)
			b.waitForText(words(t, p.lang)["event"]["refunds"])
			b.visit("/queue/" + event)
			b.waitForPath("/events/" + event + "/seats")
			b.chooseFromList(2)
			b.click(".selection .wide")
			b.waitForPath("/checkout/")
			b.payWith("ok")
			b.waitFor(".notice.good")
			b.click(`main a[href="/my"]`)
			b.waitForPath("/my")
			b.waitFor(`main a[href^="/orders/"]`)
			b.checkPage("tickets with orders")
			b.click(`main a[href^="/orders/"]`)
			b.waitForPath("/orders/")

			b.waitFor("input[type=checkbox]:enabled")
			b.waitForText(says["noRefunds"])
			require.Equal(t, 2, eval[int](b, "document.querySelectorAll('input[type=checkbox]:enabled').length"))
			require.True(t, eval[bool](b, "document.querySelector('form button[type=submit]').disabled"), "nothing is chosen")
			b.checkPage("order")
			b.click("input[type=checkbox]:enabled")
			b.waitFor("form button[type=submit]:enabled")
			b.checkPage("order with a choice")
			b.click("form button[type=submit]")
			b.waitFor(".refund")
			_, help, _ := strings.Cut(says["DONE_HELP"], "{time}")
			b.waitForText(help)
			b.until("one ticket that can be given back", "document.querySelectorAll('input[type=checkbox]:enabled').length === 1")
			b.waitForText(words(t, p.lang)["refund"]["REFUNDED"])
			b.checkPage("order with a refund")
			statuses := eval[[]string](b, "fetch('/api/v1/my/tickets').then(r => r.json()).then(l => l.items.map(i => i.status).sort())")
			require.Equal(t, []string{"REFUNDED", "VALID"}, statuses)
		})
	}
}
