package pages_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/stretchr/testify/require"
)

// hold goes the whole way to a checkout of one seat.
func (b *tab) hold(event, user string) {
	b.t.Helper()
	b.goInside(event, user)
	b.chooseFromList(1)
	b.click(".selection .wide")
	b.arrive("/checkout/")
	b.see("form button[type=submit]")
}

// answer has the provider answer in one way.
func (b *tab) answer(how string) {
	b.t.Helper()
	b.see("input[value=" + how + "]:enabled")
	b.click("input[value=" + how + "]")
	b.click("form button[type=submit]")
}

// testWrongClock: a browser whose clock is minutes off counts down to the server's end, and gives nothing up early.
func testWrongClock(t *testing.T) {
	t.Parallel()
	event := sale{}.open(t)
	b := open(t, platformURL, desktop, "en")
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: "const real = Date.now; Date.now = () => real() + 7 * 60_000",
	})
	b.hold(event, unused("fast"))
	b.until("five minutes or little less", "/^(5|4) min/.test(document.querySelector('.countdown').textContent)")
	b.click("form button[type=submit]")
	b.see(".notice.good")
}

// testHoldRunsOut: the end of a hold is said, by the server's word.
func testHoldRunsOut(t *testing.T) {
	t.Parallel()
	event := sale{hold: 40}.open(t)
	b := open(t, platformURL, phone, "ko")
	b.hold(event, unused("slowly"))
	b.see(".countdown.soon")
	b.inspect("last minute")
	b.say(words(t, "ko")["checkout"]["EXPIRED"])
	b.inspect("expired")
}

// testEveryAnswerOfTheProvider: whatever the provider does, the page ends where the money is.
func testEveryAnswerOfTheProvider(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]string{"slow": "confirmed", "timeout": "confirmed", "lost": "declined"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			event := sale{}.open(t)
			b := open(t, platformURL, phone, "en")
			b.hold(event, unused(how))
			b.answer(how)
			b.say(words(t, "en")["checkout"][end])
			b.inspect(end)
		})
	}
}

// testRetryAtOnce: after a decline nothing can be sent until the next payment is open, or the declined one would be sent again.
func testRetryAtOnce(t *testing.T) {
	t.Parallel()
	event := sale{}.open(t)
	base, prepare := holdingBack(t, "/payments/prepare")
	b := open(t, base, phone, "en")
	b.hold(event, unused("quick"))
	b.answer("decline")
	b.see(".notice.bad")
	b.see("form button[type=submit]:disabled")
	b.inspect("declined, not open again")
	prepare()
	b.answer("ok")
	b.say(words(t, "en")["checkout"]["confirmed"])
}

// testReloadWhileBeingPaid: a page that is opened again learns how the payment went, and pays anew, not the dead one.
func testReloadWhileBeingPaid(t *testing.T) {
	t.Parallel()
	event := sale{}.open(t)
	base, end := holdingBack(t, "/my/reservations/") // the page does not hear of the end before it was seen to wait for it
	b := open(t, base, desktop, "en")
	b.hold(event, unused("reload"))
	b.answer("late-decline")
	b.say(words(t, "en")["checkout"]["pending"])
	b.inspect("pending")
	end()
	b.reload()
	b.say(words(t, "en")["checkout"]["declined"])
	b.answer("ok")
	b.say(words(t, "en")["checkout"]["confirmed"])
}

// testLostAnswerToAHold: seats are held once, and found, though the answer never came.
func testLostAnswerToAHold(t *testing.T) {
	t.Parallel()
	event := sale{}.open(t)
	var holds atomic.Int32
	base := losing(t, func(r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, "/seats/reserve") && holds.Add(1) == 1
	})
	b := open(t, base, desktop, "en")
	b.hold(event, unused("unlucky"))
	require.GreaterOrEqual(t, holds.Load(), int32(2))
}

// testBackToTheSeats: the way back leads to a page that works and knows what is held.
func testBackToTheSeats(t *testing.T) {
	t.Parallel()
	event := sale{limit: 1}.open(t)
	b := open(t, platformURL, phone, "ko")
	b.hold(event, unused("back"))
	b.back()
	b.arrive("/events/" + event + "/seats")
	b.see(`.notice a[href^="/checkout/"]`)
	b.inspect("held already")
	b.chooseFromList(1)
	b.click(".selection .wide")
	b.say("1인당 예매 한도를 초과했습니다.")
	b.click(`.notice a[href^="/checkout/"]`)
	b.arrive("/checkout/")
	b.see("form button[type=submit]")
}

// testPaidElsewhere: what another tab or device does with the hold is said here too.
func testPaidElsewhere(t *testing.T) {
	t.Parallel()
	event := sale{}.open(t)
	user := unused("twice")
	b := open(t, platformURL, phone, "en")
	b.hold(event, user)
	id := strings.TrimPrefix(b.path(), "/checkout/")
	same := signInAs(t, user)
	same.key = unused("key")
	prepared := same.call(http.MethodPost, "/api/v1/payments/prepare", object{"paymentType": "reservation", "referenceId": id})
	same.key = unused("key")
	same.call(http.MethodPost, "/api/v1/payments/confirm", object{
		"orderId": prepared["orderId"], "paymentKey": unused("ok-elsewhere"), "amount": prepared["amount"],
	})
	b.say(words(t, "en")["checkout"]["confirmed"])
}

// testStrangersReservation is refused like one that does not exist.
func testStrangersReservation(t *testing.T) {
	t.Parallel()
	event := sale{}.open(t)
	owner := signIn(t)
	owner.enter(event)
	id, _ := owner.call(http.MethodPost, "/api/v1/seats/reserve", object{"eventId": event, "seatIds": []string{"A-1-1"}})["reservationId"].(string)
	b := open(t, platformURL, phone, "ko")
	b.visit("/checkout/" + id)
	b.logIn(unused("stranger"))
	b.arrive("/checkout/" + id)
	b.say("존재하지 않는 예약입니다.")
	b.inspect("refused")
}
