package pages_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// testOrders buys two tickets, returns one, shows the QR code of the other and checks it in. An
// operator finds the order by its user and by the ticket's code, sees both tickets, and voids the
// used one. Its holder then sees that it is void.
func testOrders(t *testing.T) {
	t.Parallel()
	for _, p := range variants {
		t.Run(p.String(), func(t *testing.T) {
			parallelTab(t)
			says := words(t, p.lang)["orders"]
			event, user := sale{}.open(t), uniqueID("buyer")
			b := openTab(t, platformURL, p.device, p.lang)
			b.openSeatMap(event, user)
			b.chooseFromList(2)
			b.click(".selection .wide")
			b.waitForPath("/checkout/")
			b.payWith("ok")
			b.waitFor(".notice.good")
			b.visit("/my")
			b.waitForText("Autumn Light " + event) // the list moves until its titles are shown
			b.waitFor(`main a[href^="/orders/"]`)
			b.click(`main a[href^="/orders/"]`)
			b.waitFor("input[type=checkbox]:enabled")
			b.click("input[type=checkbox]:enabled")
			b.waitFor("form button[type=submit]:enabled")
			b.click("form button[type=submit]")
			b.waitFor(".refund")
			b.visit("/my")
			b.waitFor("details")
			b.click("summary")
			b.until("the image of the code", "(i => i.complete && i.naturalWidth > 0)(document.querySelector('.qr img'))")
			// When the other ticket is refunded, the page reloads its list and hides the code: ask the API.
			code := eval[string](b, "fetch('/api/v1/my/tickets').then(r => r.json()).then(l => l.items.find(i => i.status === 'VALID').code)")
			b.startSession(uniqueID("door"), "staff")
			b.visit("/check-in?event=" + event)
			b.waitFor("#code")
			b.checkIn(code)
			b.waitFor(".notice.good")

			b.visit("/admin/orders")
			b.waitForText(map[string]string{"en": "Your account may not do this.", "ko": "이 작업을 수행할 권한이 없는 계정입니다."}[p.lang])
			b.startSession(uniqueID("operator"), "admin")
			b.visit("/admin/orders")
			b.waitFor("#user")
			b.checkPage("search for orders")
			b.fill("#user", uniqueID("nobody"))
			b.click("main button[type=submit]")
			b.waitForText(says["none"])
			b.visit("/admin/orders")
			b.waitFor("#user")
			b.fill("#user", user)
			b.click("main button[type=submit]")
			b.waitFor(`main a[href^="/admin/orders/"]`)
			b.checkPage("found orders")
			b.visit("/admin/orders")
			b.waitFor("#code")
			b.fill("#code", code)
			b.click("main button[type=submit]")
			b.waitFor(`main a[href^="/admin/orders/"]`)
			require.NotContains(t, eval[string](b, "location.href"), "code=")
			b.click(`main a[href^="/admin/orders/"]`)
			b.waitForPath("/admin/orders/")
			b.waitFor("section[aria-labelledby=timeline]")
			tickets := eval[[]string](b, "[...document.querySelectorAll('section[aria-labelledby=tickets] .badge')].map(b => b.textContent).sort()")
			require.Equal(t, []string{"REFUNDED", "USED"}, tickets)
			payments := eval[[]string](b, "[...document.querySelectorAll('section[aria-labelledby=payments] .badge')].map(b => b.textContent)")
			require.Equal(t, []string{"CONFIRMED", "DONE"}, payments)
			b.waitForText("ADMITTED")
			b.checkPage("an order")
			b.voidUsedTicket()
			b.waitForText("stolen card")
			b.checkPage("an order with a voided ticket")
			b.startSession(user)
			b.visit("/my")
			b.waitForText(words(t, p.lang)["my"]["VOIDED"])
			b.waitForText("Autumn Light " + event)
			require.Zero(t, eval[int](b, "document.querySelectorAll('details, .code').length"), "a voided ticket has no code")
			b.checkPage("a voided ticket")
			b.click(`main a[href^="/orders/"]`)
			b.waitForText(words(t, p.lang)["refund"]["VOIDED"])
			b.checkPage("the order of a voided ticket")
		})
	}
}

// voidUsedTicket voids the used ticket of the order that the operator's page shows, and loads the
// page again.
func (b *tab) voidUsedTicket() {
	b.t.Helper()
	status := eval[int](b, `fetch('/api/v1' + location.pathname).then(r => r.json())
		.then(o => fetch('/api/v1/admin/tickets/' + o.tickets.find(x => x.status === 'USED').ticketId + '/void',
			{ method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"reason":"stolen card"}' }))
		.then(r => r.status)`)
	require.Equal(b.t, 200, status)
	b.visit(eval[string](b, "location.pathname"))
}
