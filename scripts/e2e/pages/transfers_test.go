package pages_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
)

// buySeats buys seats of an event, without the pages, and returns the id of the payment.
func (v *visitor) buySeats(event string, seats ...string) (paymentID string) {
	v.t.Helper()
	v.enter(event)
	id, _ := v.call(http.MethodPost, "/api/v1/seats/reserve", object{"eventId": event, "seatIds": seats})["reservationId"].(string)
	v.key = uniqueID("key")
	prepared := v.call(http.MethodPost, "/api/v1/payments/prepare", object{"paymentType": "reservation", "referenceId": id})
	v.key = uniqueID("key")
	paid := object{"orderId": prepared["orderId"], "paymentKey": uniqueID("ok-seats"), "amount": prepared["amount"]}
	v.call(http.MethodPost, "/api/v1/payments/confirm", paid)
	v.key = ""
	testkit.Until(v.t, func() bool { return len(v.tickets()) == len(seats) }, "the tickets")
	paymentID, _ = prepared["paymentId"].(string)
	return paymentID
}

// tickets returns the ids of the visitor's valid tickets.
func (v *visitor) tickets() (found []string) {
	v.t.Helper()
	items, _ := v.call(http.MethodGet, "/api/v1/my/tickets", nil)["items"].([]any)
	for _, item := range items {
		if ticket, _ := item.(object); ticket["status"] == "VALID" {
			id, _ := ticket["ticketId"].(string)
			found = append(found, id)
		}
	}
	return found
}

// offerTicket offers a ticket by the form on the page of tickets, to a user or, if to is empty, to
// anybody. It returns the path of the link.
func (b *tab) offerTicket(price, to string) string {
	b.t.Helper()
	b.visit("/my")
	says := words(b.t, b.lang)["transfer"]
	button := `[...document.querySelectorAll(".card > button")].find(e => e.innerText === "` + says["pass"] + `")`
	b.until("the button", button)
	eval[bool](b, button+".click() === undefined")
	b.waitFor(".pass")
	b.checkPage("form to pass on")
	b.do(setValue(".pass input[name=price]", price), setValue(".pass input[name=to]", to))
	b.click(".pass button[type=submit]")
	b.waitFor("input.link")
	b.waitFor(".offered")
	b.waitForText(says["made"])
	b.checkPage("link")
	link, found := strings.CutPrefix(eval[string](b, "document.querySelector('input.link').value"), b.base)
	require.True(b.t, found)
	require.Regexp(b.t, "^/transfers#/[A-Za-z0-9_-]{22}$", link)
	return link
}

// openSeller opens a sale whose tickets may be passed on for money, and sells two of them to the
// user of a new tab.
func openSeller(t *testing.T, p variant) (seller *tab, event string) {
	t.Helper()
	event = sale{transferable: "PRICED"}.open(t)
	user := uniqueID("seller")
	signInAs(t, user).buySeats(event, "A-1-1", "A-1-2")
	seller = openTab(t, platformURL, p.device, p.lang)
	seller.startSession(user)
	return seller, event
}

// testPassingOn: a ticket is passed on for money, by a link that another browser opens, and another
// ticket as a gift to a named user. An offer that is withdrawn cannot be accepted.
func testPassingOn(t *testing.T) {
	t.Parallel()
	for _, p := range variants {
		t.Run(p.String(), func(t *testing.T) {
			parallelTab(t)
			all := words(t, p.lang)
			says, transfer := all["transfers"], all["transfer"]
			seller, event := openSeller(t, p)
			seller.visit("/events/" + event)
			seller.waitForText(all["event"]["PRICED"])

			link, user := seller.offerTicket("50000", ""), uniqueID("friend")
			buyer := openTab(t, platformURL, p.device, p.lang)
			buyer.visit(link)
			buyer.waitForPath("/login")
			require.Equal(t, all["login"]["toTransfers"], buyer.text(".reason"))
			buyer.logIn(user)
			buyer.waitForPath("/transfers")
			buyer.waitForText(says["acceptHelp"])
			require.Contains(t, buyer.text("#main"), "₩110,000")
			buyer.checkPage("offer")
			buyer.click("main .card button:enabled")
			buyer.waitFor(".countdown")
			buyer.checkPage("accepted offer")
			buyer.payWith("decline")
			buyer.waitFor(".notice.bad")
			buyer.reload()
			buyer.waitFor(".countdown")
			seller.visit("/transfers")
			seller.waitForText(transfer["waits"])
			buyer.payWith("ok")
			buyer.waitForText(says["yours"])
			buyer.checkPage("bought from somebody")
			require.Len(t, signInAs(t, user).tickets(), 1)
			seller.reload()
			seller.waitFor(".badge.good")
			seller.checkPage("sold to somebody")
			seller.visit("/my")
			seller.waitForText(all["my"]["TRANSFERRED"])

			withdrawn := seller.offerTicket("0", "")
			seller.click(".offered button")
			seller.waitForDialog(transfer["cancelSure"])
			seller.until("no offer", "!document.querySelector('.offered')")
			buyer.visit(withdrawn)
			buyer.waitForText(map[string]string{"en": "This offer has ended.", "ko": "종료된 제안입니다."}[p.lang])
			buyer.checkPage("taken back")
			seller.offerTicket("0", user)
			buyer.visit("/transfers")
			buyer.waitForText(says["forYou"])
			buyer.click(`main a.button[href^="/transfers/"]`)
			buyer.waitForText(says["accept"])
			buyer.click("main .card button:enabled")
			buyer.waitForText(says["yours"])
			buyer.click(`main a[href="/my"]`)
			buyer.waitForPath("/my")
			buyer.waitFor("details")
			require.Len(t, signInAs(t, user).tickets(), 2)
			buyer.visit("/transfers")
			buyer.waitFor(".badge.good")
			buyer.checkPage("all offers")
		})
	}
}

// testPassedOnByPage: a buyer who pays for a ticket on a provider's page comes back to the offer,
// which another tab shows too. Another buyer can accept an offer that was given up.
func testPassedOnByPage(t *testing.T, at payPage) {
	t.Helper()
	eachVariant(t, at, func(t *testing.T, p variant) {
		t.Helper()
		says := words(t, p.lang)["transfers"]
		seller, _ := openSeller(t, p)
		friend := func() *tab {
			b := openTab(t, platformURL, p.device, p.lang)
			b.otherServers = at.servers
			b.startSession(uniqueID("friend"))
			return b
		}
		link, undecided, buyer := seller.offerTicket("70000", ""), friend(), friend()
		undecided.visit(link)
		undecided.waitForText(says["acceptHelp"])
		undecided.click("main .card button:enabled")
		undecided.goToPage(at)
		undecided.back()
		undecided.waitForPath("/transfers")
		undecided.waitFor(at.continueLink())
		undecided.click(`section[aria-labelledby="offer"] button`)
		undecided.waitForText(says["gaveUp"])
		undecided.checkPage("given up")
		undecided.visit("/transfers")
		undecided.visit(link)
		undecided.waitForText(says["acceptHelp"])
		undecided.click("main .card button:enabled")
		undecided.waitForText(map[string]string{
			"en": "You have given this offer up, and cannot accept it again.", "ko": "받지 않기로 하신 제안은 다시 수락하실 수 없습니다.",
		}[p.lang])

		buyer.visit(link)
		buyer.waitForText(says["acceptHelp"])
		buyer.click("main .card button:enabled")
		buyer.goToPage(at)
		other := buyer.openBeside()
		other.otherServers = at.servers
		other.visit("/transfers")
		other.waitFor(`main a.button[href^="/transfers/"]`)
		other.click(`main a.button[href^="/transfers/"]`)
		other.waitFor(at.continueLink())
		other.checkPage("open payment of an offer")
		buyer.choose(at, at.pay)
		buyer.waitForPath("/transfers/")
		for _, each := range []*tab{buyer, other} {
			each.waitForText(says["yours"])
		}
		require.Empty(t, buyer.link(), "a reload is to show the latest payment")
	})
}
