package pages_test

import (
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// reserveSeat holds a seat for a user and waits for its checkout.
func (b *tab) reserveSeat(event, user string) {
	b.t.Helper()
	b.openSeatMap(event, user)
	b.chooseFromList(1)
	b.click(".selection .wide")
	b.waitForPath("/checkout/")
	b.waitFor("form button[type=submit]")
}

// payWith pays by the form of the sandbox. behaviour selects what the provider does.
func (b *tab) payWith(behaviour string) {
	b.t.Helper()
	b.waitFor("form button[type=submit]:enabled")
	if !eval[bool](b, visible("input[value="+behaviour+"]")+" ?? false") {
		b.click("form button[type=submit]")
	}
	b.waitFor("input[value=" + behaviour + "]:enabled")
	b.click("input[value=" + behaviour + "]")
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
// ended the hold. If the hold ends before the test has checked its last minute, the test retries
// with a longer hold.
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
	for behaviour, outcome := range map[string]string{"slow": "confirmed", "timeout": "confirmed", "lost": "declined"} {
		t.Run(behaviour, func(t *testing.T) {
			parallelUnlimited(t)
			event := sale{}.open(t)
			b := openTab(t, platformURL, phone, "en")
			b.reserveSeat(event, uniqueID(behaviour))
			b.payWith(behaviour)
			b.waitForText(words(t, "en")["checkout"][outcome])
			b.checkPage(outcome)
		})
	}
}

// testImmediateRetry: after a decline no payment can be sent until the next one is prepared, since
// the declined one would be sent again.
func testImmediateRetry(t *testing.T) {
	parallelTab(t)
	event := sale{}.open(t)
	base, release := blockAfterPayment(t, "/payments/prepare")
	b := openTab(t, base, phone, "en")
	b.reserveSeat(event, uniqueID("quick"))
	b.payWith("decline")
	b.waitFor(".notice.bad")
	b.waitFor("form button[type=submit]:enabled")
	b.click("form button[type=submit]")
	b.waitFor("form button[type=submit]:disabled")
	b.checkPage("declined, not open again")
	release()
	b.waitFor("input[value=ok]:enabled")
	b.payWith("ok")
	b.waitForText(words(t, "en")["checkout"]["confirmed"])
}

// testReloadDuringPayment: a reloaded page shows the outcome of the payment, and pays with a new
// one.
func testReloadDuringPayment(t *testing.T) {
	parallelTab(t)
	event := sale{}.open(t)
	base, release := blockAfterPayment(t, "/my/reservations/") // until the test has seen "pending"
	b := openTab(t, base, desktop, "en")
	b.reserveSeat(event, uniqueID("reload"))
	b.payWith("late-decline")
	b.waitForText(words(t, "en")["checkout"]["pending"])
	b.checkPage("pending")
	b.reload()
	release() // so that the new page shows the outcome, not the old one
	b.waitForText(words(t, "en")["checkout"]["declined"])
	b.payWith("ok")
	b.waitForText(words(t, "en")["checkout"]["confirmed"])
}

// testTurnToPay: while the provider's limits are used up, the page says how long it takes until the
// buyer's turn, and then shows the outcome.
func testTurnToPay(t *testing.T) {
	t.Parallel()
	for _, p := range variants {
		t.Run(p.String(), func(t *testing.T) {
			parallelTab(t)
			event := sale{}.open(t)
			var behind atomic.Bool
			behind.Store(true)
			ofPayment := func(r *http.Request) bool {
				return strings.Contains(r.URL.Path, "/reservations/") && strings.Contains(r.URL.Path, "/payments/")
			}
			base := alterAnswers(t, func(r *http.Request) bool { return behind.Load() && ofPayment(r) }, func(r *http.Request, members object) {
				members["payment"] = object{"paymentId": path.Base(r.URL.Path), "status": "PENDING", "waitSeconds": 42}
				members["reservation"].(map[string]any)["status"] = "PAYING" //nolint:forcetypeassert // the API's form
			})
			b := openTab(t, base, p.device, p.lang)
			b.reserveSeat(event, uniqueID("behind"))
			b.payWith("ok")
			b.waitForText(words(t, p.lang)["checkout"]["confirmed"])
			b.reload()
			b.waitForText(strings.ReplaceAll(words(t, p.lang)["checkout"]["behind"], "{n}", "45"))
			b.checkPage("behind")
			behind.Store(false)
			b.waitForText(words(t, p.lang)["checkout"]["confirmed"])
		})
	}
}

// testLostHoldResponse: if the response to a hold is lost, the page finds the seats, held once.
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
	sameUser := signInAs(t, user)
	sameUser.key = uniqueID("key")
	prepared := sameUser.call(http.MethodPost, "/api/v1/payments/prepare", object{"paymentType": "reservation", "referenceId": id})
	sameUser.key = uniqueID("key")
	sameUser.call(http.MethodPost, "/api/v1/payments/confirm", object{
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
