package pages_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// reserveSeat goes to the checkout of one seat.
func (b *tab) reserveSeat(event, user string) {
	b.t.Helper()
	b.openSeatMap(event, user)
	b.chooseFromList(1)
	b.click(".selection .wide")
	b.waitForPath("/checkout/")
	b.waitFor("form button[type=submit]")
}

// payWith pays by the form of the sandbox, with a key that selects the provider's behaviour.
func (b *tab) payWith(how string) {
	b.t.Helper()
	b.waitFor("form button[type=submit]:enabled")
	if !eval[bool](b, visible("input[value="+how+"]")+" ?? false") {
		b.click("form button[type=submit]")
	}
	b.waitFor("input[value=" + how + "]:enabled")
	b.click("input[value=" + how + "]")
	b.click("form button[type=submit]")
}

// testWrongClock: in a browser whose clock is minutes off, the countdown of a hold ends at the
// server's time and not earlier.
func testWrongClock(t *testing.T) {
	parallelTab(t)
	event := sale{}.open(t)
	b := openTab(t, platformURL, desktop, "en")
	b.shiftClock(7 * time.Minute)
	b.reserveSeat(event, uniqueID("fast"))
	b.until("five minutes or little less", "/^(5|4) min/.test(document.querySelector('.countdown').textContent)")
	b.payWith("ok")
	b.waitFor(".notice.good")
}

// testHoldExpires: the last minute of a hold is highlighted, and the page says when the server has
// ended the hold. If the hold ended before its last minute was checked, the test retries with a
// longer one.
func testHoldExpires(t *testing.T) {
	parallelUnlimited(t)
	expired := words(t, "ko")["checkout"]["EXPIRED"]
	for seconds := 15; ; seconds *= 2 {
		b := openTab(t, platformURL, phone, "ko")
		b.openSeatMap(sale{hold: seconds}.open(t), uniqueID("slowly"))
		b.chooseFromList(1)
		b.click(".selection .wide")
		b.waitForPath("/checkout/")
		if b.untilAny("the hold", visible(".countdown.soon")+" && "+visible("form button[type=submit]"), says(expired)) == 1 {
			continue
		}
		b.checkPage("last minute")
		checked := eval[bool](b, visible(".countdown.soon")+" ?? false")
		b.waitForText(expired)
		if checked {
			b.checkPage("expired")
			return
		}
	}
}

// testEveryProviderOutcome: for every outcome at the provider, the page finally shows whether
// the money was charged.
func testEveryProviderOutcome(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]string{"slow": "confirmed", "timeout": "confirmed", "lost": "declined"} {
		t.Run(how, func(t *testing.T) {
			parallelUnlimited(t)
			event := sale{}.open(t)
			b := openTab(t, platformURL, phone, "en")
			b.reserveSeat(event, uniqueID(how))
			b.payWith(how)
			b.waitForText(words(t, "en")["checkout"][end])
			b.checkPage(end)
		})
	}
}

// testImmediateRetry: after a decline no payment can be sent until the next one is prepared; the
// declined one would be sent again.
func testImmediateRetry(t *testing.T) {
	parallelTab(t)
	event := sale{}.open(t)
	base, prepare := blockAfterPayment(t, "/payments/prepare")
	b := openTab(t, base, phone, "en")
	b.reserveSeat(event, uniqueID("quick"))
	b.payWith("decline")
	b.waitFor(".notice.bad")
	b.waitFor("form button[type=submit]:enabled")
	b.click("form button[type=submit]")
	b.waitFor("form button[type=submit]:disabled")
	b.checkPage("declined, not open again")
	prepare()
	b.waitFor("input[value=ok]:enabled")
	b.payWith("ok")
	b.waitForText(words(t, "en")["checkout"]["confirmed"])
}

// testReloadDuringPayment: a reloaded page shows the outcome of the payment, and pays with a new
// one.
func testReloadDuringPayment(t *testing.T) {
	parallelTab(t)
	event := sale{}.open(t)
	base, end := blockAfterPayment(t, "/my/reservations/") // the page must not see the end before the test has seen it wait
	b := openTab(t, base, desktop, "en")
	b.reserveSeat(event, uniqueID("reload"))
	b.payWith("late-decline")
	b.waitForText(words(t, "en")["checkout"]["pending"])
	b.checkPage("pending")
	b.reload()
	end() // only after the reload: the old page would otherwise see the end, and the new one would have nothing to show
	b.waitForText(words(t, "en")["checkout"]["declined"])
	b.payWith("ok")
	b.waitForText(words(t, "en")["checkout"]["confirmed"])
}

// testLostHoldResponse: when the response to a hold is lost, the seats are held once and found.
func testLostHoldResponse(t *testing.T) {
	parallelTab(t)
	event := sale{}.open(t)
	var holds atomic.Int32
	base := dropResponses(t, func(r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, "/seats/reserve") && holds.Add(1) == 1
	})
	b := openTab(t, base, desktop, "en")
	b.reserveSeat(event, uniqueID("unlucky"))
	require.GreaterOrEqual(t, holds.Load(), int32(2))
}

// testBackToTheSeats: the back button leads to a working page that shows what is held.
func testBackToTheSeats(t *testing.T) {
	parallelTab(t)
	event := sale{limit: 1}.open(t)
	b := openTab(t, platformURL, phone, "ko")
	b.reserveSeat(event, uniqueID("back"))
	b.back()
	b.waitForPath("/events/" + event + "/seats")
	b.waitFor(`.notice a[href^="/checkout/"]`)
	b.checkPage("held already")
	b.chooseFromList(1)
	b.click(".selection .wide")
	b.waitForText("1인당 예매 한도를 초과했습니다.")
	b.click(`.notice a[href^="/checkout/"]`)
	b.waitForPath("/checkout/")
	b.waitFor("form button[type=submit]")
}

// testPaidElsewhere: the page shows changes of the hold by another tab or device.
func testPaidElsewhere(t *testing.T) {
	parallelUnlimited(t)
	event := sale{}.open(t)
	user := uniqueID("twice")
	b := openTab(t, platformURL, phone, "en")
	b.reserveSeat(event, user)
	id := strings.TrimPrefix(b.path(), "/checkout/")
	same := signInAs(t, user)
	same.key = uniqueID("key")
	prepared := same.call(http.MethodPost, "/api/v1/payments/prepare", object{"paymentType": "reservation", "referenceId": id})
	same.key = uniqueID("key")
	same.call(http.MethodPost, "/api/v1/payments/confirm", object{
		"orderId": prepared["orderId"], "paymentKey": uniqueID("ok-elsewhere"), "amount": prepared["amount"],
	})
	b.waitForText(words(t, "en")["checkout"]["confirmed"])
}

// testOtherUsersReservation: another user's reservation is refused like one that does not exist.
func testOtherUsersReservation(t *testing.T) {
	parallelTab(t)
	event := sale{}.open(t)
	owner := signIn(t)
	owner.enter(event)
	id, _ := owner.call(http.MethodPost, "/api/v1/seats/reserve", object{"eventId": event, "seatIds": []string{"A-1-1"}})["reservationId"].(string)
	b := openTab(t, platformURL, phone, "ko")
	b.visit("/checkout/" + id)
	b.logIn(uniqueID("stranger"))
	b.waitForPath("/checkout/" + id)
	b.waitForText("존재하지 않는 예약입니다.")
	b.checkPage("refused")
}
