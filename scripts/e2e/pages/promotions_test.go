package pages_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// promotion describes a test's first-come promotion. The zero value has one place and is open.
type promotion struct {
	places int
	// opens and closes are relative to now; zero means a minute ago and in an hour.
	opens, closes time.Duration
}

// open creates the promotion and returns its id.
func (p promotion) open(t *testing.T) string {
	t.Helper()
	if p.opens == 0 {
		p.opens = -time.Minute
	}
	if p.closes == 0 {
		p.closes = time.Hour
	}
	now := time.Now().UTC()
	id, _ := signIn(t, "admin").call(http.MethodPost, "/api/v1/admin/promotions", object{
		"title": "Fan meeting", "eventType": "FIRST_COME", "capacityTotal": max(1, p.places),
		"opensAt": now.Add(p.opens), "closesAt": now.Add(p.closes),
	})["eventId"].(string)
	require.NotEmpty(t, id)
	return id
}

// testFirstCome: a visitor signs in from the page of a promotion, applies, and gets the only place.
// The next visitor, whose page was open before, reads that all places are gone. Both see their
// result after a reload, on the way back, and among their own requests.
func testFirstCome(t *testing.T) {
	t.Parallel()
	for _, p := range variants {
		t.Run(p.String(), func(t *testing.T) {
			parallelTab(t)
			says, event := words(t, p.lang), promotion{}.open(t)
			first, last := openTab(t, platformURL, p.device, p.lang), openTab(t, platformURL, p.device, p.lang)
			last.startSession(uniqueID("late"))
			last.visit("/promo/" + event)
			last.waitFor(".enter button")
			first.visit("/promo/" + event)
			first.waitForText(says["promo"]["signIn"])
			require.Equal(t, "Fan meeting", first.text("h1"))
			first.checkPage("signed out")
			first.click(".enter a.button")
			first.waitForPath("/login")
			first.waitFor("#user")
			require.Equal(t, says["login"]["toPromotion"], first.text(".reason"))
			first.logIn(uniqueID("early"))

			first.waitForPath("/promo/" + event)
			first.waitForText(says["promo"]["none"])
			first.checkPage("open")
			first.click(".enter button")
			applyUntil(first, says, says["request"]["place"])
			first.until("the focus near the button, which is gone", "document.activeElement.id === 'main'")
			first.checkPage("place")
			last.click(".enter button")
			applyUntil(last, says, says["promo"]["soldOut"])
			last.checkPage("sold out")
			last.until("the record of the refusal", fmt.Sprintf(`(() => {
				const call = new XMLHttpRequest();
				call.open("GET", "/api/v1/promotions/%s/me", false);
				call.send();
				return call.status === 200;
			})()`, event))
			last.reload()
			last.waitForText(says["request"]["REJECTED_CAPACITY"])
			require.True(t, eval[bool](last, "document.querySelector('.enter button') === null"), "one request per person")

			first.click(`main a[href="/my"]`)
			first.waitForPath("/my")
			card := `[aria-labelledby="requests"] .card`
			first.until("the title", fmt.Sprintf("document.querySelector(%q).innerText.includes('Fan meeting')", card))
			require.Contains(t, first.text(card), says["request"]["place"])
			first.click(card + " summary")
			first.until("the timeline", fmt.Sprintf("document.querySelectorAll(%q).length >= 3", card+" .steps li"))
			require.Contains(t, first.text(card+" .steps li:first-child"), says["request"]["stepRECEIVED"])
			require.Contains(t, first.text(card+" .steps li:last-child"), says["request"]["stepSUCCEEDED"])
			first.checkPage("own requests")
			first.back()
			first.waitForPath("/promo/" + event)
			first.waitForText(says["request"]["place"])
		})
	}
}

// testPromotionStates: the page says why nobody can apply, offers the application when the
// promotion is open, and distinguishes a repeated application from a first one.
func testPromotionStates(t *testing.T) {
	parallelTab(t)
	says := words(t, "ko")["promo"]
	admin, user := signIn(t, "admin"), uniqueID("visitor")
	operate := func(event, act string) {
		admin.call(http.MethodPost, "/api/v1/admin/promotions/"+event+"/"+act, object{})
	}
	b := openTab(t, platformURL, phone, "ko")
	b.startSession(user)
	event := promotion{opens: 6 * time.Second, places: 20}.open(t)
	b.visit("/promo/" + event)
	if b.untilAny("the promotion", visible(".enter button"), visible(".countdown")) == 1 {
		b.checkPage("scheduled")
	}
	b.waitFor(".enter button") // once it opens, without a reload

	applyTwice(t, b, event, user)

	operate(event, "pause")
	visitor := openTab(t, platformURL, phone, "ko")
	visitor.startSession(uniqueID("visitor"))
	visitor.visit("/promo/" + event)
	visitor.waitForText(says["Paused"])
	require.True(t, eval[bool](visitor, "document.querySelector('.enter button') === null"))
	visitor.checkPage("paused")
	operate(event, "resume")
	operate(event, "close")
	visitor.reload()
	visitor.waitForText(says["Closed"])
	visitor.waitForText(says["noneAnyMore"])
	visitor.checkPage("closed")
	visitor.visit("/promo/" + uniqueID("nowhere"))
	visitor.waitFor(`main .notice.bad a[href="/"]`)
	visitor.checkPage("unknown")
	visitor.visit("/")
	visitor.waitFor(`.event-card a[href="/promo/` + event + `"]`)
	visitor.checkPage("the list")
}

// applyTwice applies in a tab that shows the open promotion, and again in a second tab of the same
// visitor, which says that they had applied before. If the second response is lost on a busy machine,
// that page only shows the result, and two tabs of another visitor try.
func applyTwice(t *testing.T, b *tab, event, user string) {
	t.Helper()
	says := words(t, "ko")
	again := openTab(t, platformURL, desktop, "ko")
	again.startSession(user)
	again.visit("/promo/" + event)
	again.waitFor(".enter button")
	b.click(".enter button")
	applyUntil(b, says, says["request"]["place"])
	require.NotContains(t, b.text("body"), says["promo"]["duplicate"])
	again.click(".enter button")
	applyUntil(again, says, says["request"]["place"])
	if again.requests.failed("POST " + platformURL + "/api/v1/promotions/" + event + "/requests") {
		user = uniqueID("visitor")
		b = openTab(t, platformURL, phone, "ko")
		b.startSession(user)
		b.visit("/promo/" + event)
		b.waitFor(".enter button")
		applyTwice(t, b, event, user)
		return
	}
	require.Contains(t, again.text("body"), says["promo"]["duplicate"])
	again.checkPage("applied twice")
}

// testPromotionTrouble: while too many requests wait for results, the page says so and tries again. An
// application whose responses were lost counts once, and not as repeated.
func testPromotionTrouble(t *testing.T) {
	parallelUnlimited(t)
	says, event := words(t, "en"), promotion{}.open(t)
	var trouble atomic.Value
	trouble.Store("overloaded")
	base := intercept(t, func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/promotions/"+event+"/requests") || trouble.Load() != "overloaded" {
			return false
		}
		writeProblem(w, http.StatusTooManyRequests, `{"status": 429, "code": "OVERLOADED", "detail": "VERY MANY PEOPLE", "retryAfter": 0}`)
		return true
	})
	b := openTab(t, base, phone, "en")
	b.startSession(uniqueID("patient"))
	b.visit("/promo/" + event)
	b.click(".enter button")
	b.waitForText("VERY MANY PEOPLE")
	b.waitForText(says["common"]["retrying"])
	b.checkPage("overloaded")
	trouble.Store("")
	applyUntil(b, says, says["request"]["place"])

	var dropping atomic.Bool
	dropping.Store(true)
	event = promotion{}.open(t)
	base = dropResponses(t, func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/requests") && dropping.Load() })
	b = openTab(t, base, phone, "en")
	user := uniqueID("unlucky")
	b.startSession(user)
	b.visit("/promo/" + event)
	b.click(".enter button")
	applyUntil(b, says, says["request"]["place"]) // the page reads the request after the failure
	b.checkPage("lost")
	require.NotContains(t, b.text("body"), says["promo"]["duplicate"])

	var asked atomic.Int32
	base = intercept(t, func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/promotions/"+event) || asked.Add(1) > 1 {
			return false
		}
		writeProblem(w, http.StatusServiceUnavailable, `{"status": 503, "code": "UNAVAILABLE", "detail": "LATER", "retryAfter": 0}`)
		return true
	})
	b = openTab(t, base, phone, "en")
	b.startSession(user)
	b.visit("/my")
	b.waitForText("Fan meeting") // the title, although the first question for it failed
	require.Greater(t, asked.Load(), int32(1))
}

// applyUntil waits until the page shows the words, and applies again whenever the page offers it,
// since a busy machine may answer too late.
func applyUntil(b *tab, text map[string]map[string]string, shown string) {
	b.t.Helper()
	const button = `document.querySelector(".enter button:enabled")`
	again := says(text["promo"]["tryAgain"]) + " && " + button
	for b.untilAny("the words, or another attempt: "+shown, says(shown), again) != 0 {
		eval[bool](b, button+"?.click() === undefined")
	}
}
