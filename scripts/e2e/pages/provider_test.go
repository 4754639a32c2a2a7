package pages_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/platform"
)

// openCheckout holds a seat, whose checkout leads to the page of the sandbox.
func openCheckout(t *testing.T, p variant) (b *tab, user string) {
	t.Helper()
	user = uniqueID("payer")
	b = openTab(t, platformURL, p.device, p.lang)
	b.other = providerURL()
	b.reserveSeat(sale{}.open(t), user)
	return b, user
}

func providerURL() string { return "http://" + services.Service(platform.Sandbox).Addr(0) }

// goToPage presses pay.
func (b *tab) goToPage() {
	b.t.Helper()
	b.waitFor("form button[type=submit]:enabled")
	b.click("form button[type=submit]")
	b.waitForPath("/pay/")
}

// choose decides on the page of the sandbox.
func (b *tab) choose(choice string) {
	b.t.Helper()
	b.waitForPath("/pay/")
	b.waitFor("#" + choice)
	b.click("#" + choice)
}

// openPage is what the checkout shows of a payment that is open.
const (
	continuePaying = `main .card a.button[href*="/pay/"]`
	stopPaying     = `main .card:has(a.button[href*="/pay/"]) > button.quiet`
)

func eachVariant(t *testing.T, test func(t *testing.T, p variant)) {
	t.Helper()
	t.Parallel()
	for _, p := range variants {
		t.Run(p.String(), func(t *testing.T) {
			parallelTab(t)
			test(t, p)
		})
	}
}

// testDeclinedThenPaid: after a decline on the page the checkout leads to another one.
func testDeclinedThenPaid(t *testing.T) {
	eachVariant(t, func(t *testing.T, p variant) {
		t.Helper()
		b, _ := openCheckout(t, p)
		says := words(t, p.lang)["checkout"]
		b.checkPage("before the page")
		b.goToPage()
		b.choose("decline")
		b.waitForPath("/checkout/")
		b.waitForText(says["declined"])
		require.Empty(t, b.link(), "a reload is to show the latest payment")
		b.checkPage("declined on the page")
		b.goToPage()
		b.choose("approve")
		b.waitForPath("/checkout/")
		b.waitForText(says["confirmed"])
		b.checkTickets(1)
	})
}

// testBackAndReload: the back button and a reload lead to the open payment, which goes on.
func testBackAndReload(t *testing.T) {
	eachVariant(t, func(t *testing.T, p variant) {
		t.Helper()
		b, _ := openCheckout(t, p)
		b.goToPage()
		page := b.path()
		b.back()
		b.waitForPath("/checkout/")
		b.waitFor(continuePaying)
		b.checkPage("open payment")
		b.reload()
		b.waitFor(continuePaying)
		b.click(continuePaying)
		b.waitForPath(page)
		b.choose("back") // without paying
		b.waitForPath("/checkout/")
		b.waitFor(continuePaying)
		b.click(continuePaying)
		b.waitForPath(page)
		b.choose("slow")
		b.waitForPath("/checkout/")
		b.waitForText(words(t, p.lang)["checkout"]["confirmed"])
	})
}

// testSecondTab: another tab shows the open payment, and its outcome.
func testSecondTab(t *testing.T) {
	eachVariant(t, func(t *testing.T, p variant) {
		t.Helper()
		b, _ := openCheckout(t, p)
		checkout := b.path()
		b.goToPage()
		other := b.openBeside()
		other.other = b.other
		other.visit(checkout)
		other.waitFor(continuePaying)
		b.choose("approve")
		b.waitForPath("/checkout/")
		for _, each := range []*tab{b, other} {
			each.waitForText(words(t, p.lang)["checkout"]["confirmed"])
		}
	})
}

// testChangeOfMind: a payment can be stopped, three pages at most can be opened, and then the page
// says why there is no other.
func testChangeOfMind(t *testing.T) {
	eachVariant(t, func(t *testing.T, p variant) {
		t.Helper()
		b, _ := openCheckout(t, p)
		says := words(t, p.lang)["checkout"]
		for range 3 {
			b.goToPage()
			b.back()
			b.waitForPath("/checkout/")
			b.waitFor(stopPaying)
			b.click(stopPaying)
			b.waitForText(says["unpaid"])
			b.waitFor("form button[type=submit]:enabled")
		}
		b.checkPage("stopped")
		b.click("form button[type=submit]")
		b.waitForText(says["noMorePages"])
		b.checkPage("no more pages")
	})
}

// testNeverBack: whoever pays and closes the page has the ticket.
func testNeverBack(t *testing.T) {
	eachVariant(t, func(t *testing.T, p variant) {
		t.Helper()
		b, _ := openCheckout(t, p)
		checkout := b.path()
		b.goToPage()
		b.choose("stay")
		b.waitFor("#message")
		b.visit(checkout)
		b.waitForText(words(t, p.lang)["checkout"]["confirmed"])
	})
}

// testBackElsewhere: a browser without a session shows the outcome, and asks for the sign-in.
func testBackElsewhere(t *testing.T) {
	eachVariant(t, func(t *testing.T, p variant) {
		t.Helper()
		b, user := openCheckout(t, p)
		says := words(t, p.lang)["checkout"]
		for _, how := range []struct{ choice, text string }{{"decline", "declinedThere"}, {"approve", "paidThere"}} {
			b.goToPage()
			app := openTab(t, platformURL, p.device, p.lang)
			app.other = b.other
			app.visitElsewhere(eval[string](b, "location.href"))
			app.choose(how.choice)
			app.waitForPath("/checkout/")
			app.waitForText(says[how.text])
			app.checkPage(how.text)
			b.back()
			b.waitForPath("/checkout/")
			if how.choice == "decline" {
				b.waitForText(says["declined"])
				continue
			}
			b.waitForText(says["confirmed"])
			app.click(`main a.button[href^="/login"]`)
			app.logIn(user)
			app.waitForPath("/checkout/")
			app.waitForText(says["confirmed"])
		}
	})
}

// testPlacesGivenUp: giving the tickets back ends an open payment too, on its page as well.
func testPlacesGivenUp(t *testing.T) {
	eachVariant(t, func(t *testing.T, p variant) {
		t.Helper()
		b, _ := openCheckout(t, p)
		says := words(t, p.lang)["checkout"]
		b.goToPage()
		page := b.path()
		b.back()
		b.waitForPath("/checkout/")
		id := strings.TrimPrefix(b.path(), "/checkout/")
		b.waitFor(continuePaying)
		payment := eval[string](b, "fetch('/api/v1/my/reservations/"+id+"').then(r => r.json()).then(r => r.paymentId)")
		b.click(`section[aria-labelledby="order"] button`)
		b.waitForText(says["CANCELLED"])
		b.until("the end of the payment", "(window.ended ||= fetch('/api/v1/payments/"+payment+
			"').then(r => r.json()).then(p => (window.ended = p.status === 'EXPIRED'))) === true")
		b.visitElsewhere(providerURL() + page)
		if b.untilAny("the page", visible("#approve"), visible("#return")) == 0 {
			b.click("#approve")
		}
		// The page may be closed at any moment; then it leads back to the shop.
		if b.untilAny("an end", "location.pathname.startsWith('/checkout/')", visible("#return")) == 1 {
			b.click("#return")
		}
		b.waitForPath("/checkout/")
		b.waitForText(says["CANCELLED"])
	})
}
