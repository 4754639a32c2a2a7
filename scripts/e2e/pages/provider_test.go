package pages_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/platform"
)

// payPage is a provider's payment page, and how buyers use it.
type payPage struct {
	provider string
	// path is the beginning of the page's path. link is a part of the URL that leads there.
	path, link string
	servers    []string // the other servers that pages may call
	// The ids of buttons. late approves the payment after some seconds.
	pay, late, decline, stay string
	// ours is true if a page of the shop leads to the provider's; the back button leads there.
	ours bool
	// unseen is true if a payment is unknown until the buyer comes back. again is true if the page
	// accepts another card after a decline.
	unseen, again bool
	// receipts has the site of the provider's receipts, if it has any.
	receipts []string
	variants []variant
}

// payPages returns the pages of the sandbox and of the fakes.
func payPages() []payPage {
	w := services.Wiring()
	sandbox, host := "http://"+services.Service(platform.Sandbox).Addr(0), "http://"+w.PayHost
	return []payPage{
		{
			provider: platform.Sandbox, path: "/pay/", link: "/pay/", servers: []string{sandbox}, pay: "approve", late: "slow", decline: "decline", stay: "stay",
			receipts: []string{},
		},
		{
			provider: platform.Stripe, path: "/c/pay/", link: "/c/pay/", servers: []string{w.StripeURL}, pay: "pay", late: "pay", decline: "decline",
			stay: "close", again: true, receipts: []string{"https://pay.stripe.com"},
		},
		{
			provider: platform.Toss, path: "/window/", link: host + "/toss#", servers: []string{host, w.TossURL}, pay: "pay", late: "pay",
			decline: "decline", stay: "stay", ours: true, unseen: true, receipts: []string{"https://dashboard.tosspayments.com"},
		},
	}
}

func (p payPage) continueLink() string { return fmt.Sprintf(`main .card a.button[href*="%s"]`, p.link) }

func (p payPage) stopButton() string {
	return fmt.Sprintf(`main .card:has(a.button[href*="%s"]) > button.quiet`, p.link)
}

// openCheckout holds a seat and opens its checkout, which leads to the provider's page.
func openCheckout(t *testing.T, at payPage, p variant) (b *tab, user string) {
	t.Helper()
	user = uniqueID("payer")
	b = openTab(t, platformURL, p.device, p.lang)
	b.otherServers = at.servers
	b.reserveSeat(sale{}.open(t), user)
	return b, user
}

// goToPage presses the pay button. The checkout may be reloaded at that moment; then the test
// clicks its link to the page.
func (b *tab) goToPage(at payPage) {
	b.t.Helper()
	b.waitFor("form button[type=submit]:enabled")
	b.click(fmt.Sprintf("form input[value=%s]", at.provider))
	b.click("form button[type=submit]")
	b.until("the page "+at.path, fmt.Sprintf("location.pathname.startsWith(%q) && document.readyState === 'complete' || "+
		"document.querySelector('%s') && !window.follows && (window.follows = true) && document.querySelector('%[2]s').click()", at.path, at.continueLink()))
}

// choose clicks a button on the provider's page, by its id.
func (b *tab) choose(at payPage, button string) {
	b.t.Helper()
	b.waitForPath(at.path)
	b.waitFor("#" + button)
	b.click("#" + button)
}

// leavePage goes back to the checkout by the browser's button.
func (b *tab) leavePage(at payPage) {
	b.t.Helper()
	b.back()
	if at.ours {
		b.waitForPath("/toss")
		b.waitFor("#continue")
		b.back()
	}
	b.waitForPath("/checkout/")
}

func eachVariant(t *testing.T, at payPage, test func(t *testing.T, p variant)) {
	t.Helper()
	t.Parallel()
	for _, p := range at.variants {
		t.Run(p.String(), func(t *testing.T) {
			parallelTab(t)
			test(t, p)
		})
	}
}

// testDeclinedThenPaid: after a decline the page accepts another card, or the checkout leads to
// another page.
func testDeclinedThenPaid(t *testing.T, at payPage) {
	t.Helper()
	eachVariant(t, at, func(t *testing.T, p variant) {
		t.Helper()
		b, _ := openCheckout(t, at, p)
		says := words(t, p.lang)["checkout"]
		b.checkPage("before the page")
		b.goToPage(at)
		b.choose(at, at.decline)
		if at.again {
			b.waitFor("#message")
		} else {
			b.waitForPath("/checkout/")
			b.waitForText(says["declined"])
			require.Empty(t, b.link(), "a reload is to show the latest payment")
			b.checkPage("declined on the page")
			b.goToPage(at)
		}
		b.choose(at, at.pay)
		b.waitForPath("/checkout/")
		b.waitForText(says["confirmed"])
		b.checkTickets(1)
		b.click(`a[href^="/orders/"]`)
		b.waitForPath("/orders/")
		b.waitFor("#order")
		b.checkPage("the order")
		receipts := eval[[]string](b, "[...document.querySelectorAll('#receipt')].map(a => a.href.replace(/(\\.com).*/, '$1'))")
		require.Equal(t, at.receipts, receipts)
	})
}

// testBackAndReload: the back button and a reload lead to the open payment, which goes on.
func testBackAndReload(t *testing.T, at payPage) {
	t.Helper()
	eachVariant(t, at, func(t *testing.T, p variant) {
		t.Helper()
		b, _ := openCheckout(t, at, p)
		b.goToPage(at)
		page := b.path()
		if at.ours {
			page = at.path // each visit opens another page
			b.back()
			b.waitFor("#continue")
			b.checkPage("before the page")
			b.click("#continue")
			b.waitForPath(page)
		}
		b.leavePage(at)
		b.waitFor(at.continueLink())
		b.checkPage("open payment")
		b.reload()
		b.waitFor(at.continueLink())
		b.click(at.continueLink())
		b.waitForPath(page)
		b.choose(at, "back") // without paying
		b.waitForPath("/checkout/")
		b.waitFor(at.continueLink())
		b.click(at.continueLink())
		b.waitForPath(page)
		b.choose(at, at.late)
		b.waitForPath("/checkout/")
		b.waitForText(words(t, p.lang)["checkout"]["confirmed"])
	})
}

// testSecondTab: another tab shows the open payment, and its outcome.
func testSecondTab(t *testing.T, at payPage) {
	t.Helper()
	eachVariant(t, at, func(t *testing.T, p variant) {
		t.Helper()
		b, _ := openCheckout(t, at, p)
		checkout := b.path()
		b.goToPage(at)
		other := b.openBeside()
		other.otherServers = b.otherServers
		other.visit(checkout)
		other.waitFor(at.continueLink())
		b.choose(at, at.pay)
		b.waitForPath("/checkout/")
		for _, each := range []*tab{b, other} {
			each.waitForText(words(t, p.lang)["checkout"]["confirmed"])
		}
	})
}

// testChangeOfMind: a payment can be stopped, and at most three pages can be opened. Then the
// checkout says why there is no other page.
func testChangeOfMind(t *testing.T, at payPage) {
	t.Helper()
	eachVariant(t, at, func(t *testing.T, p variant) {
		t.Helper()
		b, _ := openCheckout(t, at, p)
		says := words(t, p.lang)["checkout"]
		for range 3 {
			b.goToPage(at)
			b.leavePage(at)
			b.waitFor(at.stopButton())
			b.click(at.stopButton())
			b.waitForText(says["unpaid"])
			b.waitFor("form button[type=submit]:enabled")
		}
		b.checkPage("stopped")
		b.click("form button[type=submit]")
		b.waitForText(says["noMorePages"])
		b.checkPage("no more pages")
	})
}

// testNeverBack: a buyer who pays and closes the page gets the ticket. Where the payment stays
// unknown, the buyer continues it from the checkout.
func testNeverBack(t *testing.T, at payPage) {
	t.Helper()
	eachVariant(t, at, func(t *testing.T, p variant) {
		t.Helper()
		b, _ := openCheckout(t, at, p)
		checkout := b.path()
		b.goToPage(at)
		b.choose(at, at.stay)
		b.waitFor("#message")
		b.visit(checkout)
		if at.unseen {
			b.waitFor(at.continueLink())
			b.click(at.continueLink())
			b.choose(at, at.pay)
			b.waitForPath("/checkout/")
		}
		b.waitForText(words(t, p.lang)["checkout"]["confirmed"])
	})
}

// testBackElsewhere: a browser without a session shows the outcome, and asks for the sign-in.
func testBackElsewhere(t *testing.T, at payPage) {
	t.Helper()
	eachVariant(t, at, func(t *testing.T, p variant) {
		t.Helper()
		b, user := openCheckout(t, at, p)
		says := words(t, p.lang)["checkout"]
		for _, how := range []struct{ choice, text string }{{"decline", "declinedThere"}, {"approve", "paidThere"}} {
			b.goToPage(at)
			elsewhere := openTab(t, platformURL, p.device, p.lang)
			elsewhere.otherServers = b.otherServers
			elsewhere.visitElsewhere(eval[string](b, "location.href"))
			elsewhere.choose(at, how.choice)
			elsewhere.waitForPath("/checkout/")
			elsewhere.waitForText(says[how.text])
			elsewhere.checkPage(how.text)
			b.back()
			b.waitForPath("/checkout/")
			if how.choice == "decline" {
				b.waitForText(says["declined"])
				continue
			}
			b.waitForText(says["confirmed"])
			elsewhere.click(`main a.button[href^="/login"]`)
			elsewhere.logIn(user)
			elsewhere.waitForPath("/checkout/")
			elsewhere.waitForText(says["confirmed"])
		}
	})
}

// testPlacesGivenUp: giving up the held places also ends an open payment, even on its page.
func testPlacesGivenUp(t *testing.T, at payPage) {
	t.Helper()
	eachVariant(t, at, func(t *testing.T, p variant) {
		t.Helper()
		b, _ := openCheckout(t, at, p)
		says := words(t, p.lang)["checkout"]
		b.goToPage(at)
		page := b.path()
		b.back()
		b.waitForPath("/checkout/")
		id := strings.TrimPrefix(b.path(), "/checkout/")
		b.waitFor(at.continueLink())
		payment := eval[string](b, "fetch('/api/v1/my/reservations/"+id+"').then(r => r.json()).then(r => r.paymentId)")
		b.click(`section[aria-labelledby="order"] button`)
		b.waitForText(says["CANCELLED"])
		b.until("the end of the payment", "(window.ended ||= fetch('/api/v1/payments/"+payment+
			"').then(r => r.json()).then(p => (window.ended = p.status === 'EXPIRED'))) === true")
		b.visitElsewhere(at.servers[0] + page)
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

// testDisputed: a ticket whose payer disputes the charge admits, and the door shows the dispute.
func testDisputed(t *testing.T) {
	stripe := payPages()[1]
	stripe.variants = variants
	eachVariant(t, stripe, func(t *testing.T, p variant) {
		t.Helper()
		b, _ := openCheckout(t, stripe, p)
		b.goToPage(stripe)
		b.choose(stripe, stripe.pay)
		b.waitForPath("/checkout/")
		b.waitForText(words(t, p.lang)["checkout"]["confirmed"])
		id := strings.TrimPrefix(b.path(), "/checkout/")
		ticket := eval[[]string](b, "fetch('/api/v1/my/tickets').then(r => r.json()).then(l => [l.items[0].ticketId, l.items[0].code, l.items[0].eventId])")
		shared := services.ForTest(t)
		var order string
		require.NoError(t, shared.DB(platform.Payment).QueryRow(t.Context(), `SELECT order_id FROM payments WHERE reference_id = $1`, id).Scan(&order))
		shared.Fake(platform.Stripe).Control(http.MethodPost, "dispute", map[string]string{"order": order})
		tickets := shared.DB(platform.Ticket)
		shared.Eventually(func(ctx context.Context) error {
			var disputed bool
			err := tickets.QueryRow(ctx, `SELECT disputed FROM tickets WHERE ticket_id = $1`, ticket[0]).Scan(&disputed)
			if err == nil && !disputed {
				err = errors.New("the ticket is not disputed")
			}
			return err
		})
		b.startSession(uniqueID("door"), "staff")
		b.visit("/check-in?event=" + ticket[2])
		b.waitFor("#code")
		b.checkIn(ticket[1])
		b.waitFor(".notice.warn #disputed")
		b.waitForText(words(t, p.lang)["check-in"]["admitted"])
		b.checkPage("disputed")
	})
}
