package pages_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// testCampaignStates: the page says why nobody can take part, or that winners get the rewards.
func testCampaignStates(t *testing.T) {
	t.Parallel()
	for _, p := range variants {
		t.Run(p.String(), func(t *testing.T) {
			parallelTab(t)
			says := words(t, p.lang)
			b := openTab(t, platformURL, p.device, p.lang)
			b.startSession(uniqueID("visitor"))
			requireIdle := func(name, event, sentence string) {
				b.visit("/rewards/" + event)
				b.waitForText(sentence)
				require.True(t, eval[bool](b, "document.querySelector('.enter button') === null"))
				b.checkPage(name)
			}
			requireIdle("closed", campaign{closes: -time.Hour}.open(t), says["campaign"]["CLOSED"])
			cancelled := campaign{kind: "RANDOM", prizes: []object{{"name": "P", "kind": "POINT", "value": 5, "weight": 1}}}.open(t)
			signIn(t, "admin").call(http.MethodPost, "/api/v1/admin/rewards/events/"+cancelled+"/cancel", object{})
			requireIdle("cancelled", cancelled, says["campaign"]["CANCELLED"])
			requireIdle("winners", campaign{kind: "REQUEST_WINNERS"}.open(t), says["campaign"]["winnersHelp"])
			b.visit("/rewards/" + uniqueID("nowhere"))
			b.waitForText(map[string]string{"en": "This campaign does not exist.", "ko": "존재하지 않는 캠페인입니다."}[p.lang])
			b.waitFor(`main .notice a[href="/"]`)
			b.checkPage("unknown")
		})
	}
}

// testCampaignOpens: before the opening the page counts down by the server's clock, although the
// browser's clock is minutes ahead. Then it offers to take part, without a reload. If the campaign
// has begun before its page was loaded, the test retries with a later campaign.
func testCampaignOpens(t *testing.T) {
	parallelTab(t)
	closed := words(t, "ko")["campaign"]["SCHEDULED"]
	b := openTab(t, platformURL, phone, "ko")
	b.startSession(uniqueID("early"))
	b.shiftClock(7 * time.Minute)
	counting := fmt.Sprintf(`%s && /^[1-9]\d*초|^[1-5]분/.test(document.querySelector(".countdown").textContent)`, says(closed))
	for ahead := 4 * time.Second; ; ahead *= 2 {
		b.visit("/rewards/" + campaign{opens: ahead}.open(t))
		if b.untilAny("the campaign", visible(".enter button"), counting) == 1 {
			break
		}
	}
	b.checkPage("scheduled")
	b.waitFor(".enter button")
	require.NotContains(t, b.text("main"), closed)
}

// testCampaignUnavailable: while the reward service or the network is unavailable, the page says so
// and shows the campaign once it is back.
func testCampaignUnavailable(t *testing.T) {
	parallelTab(t)
	event := campaign{}.open(t)
	var trouble atomic.Value
	trouble.Store("unavailable")
	base := intercept(t, func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case !strings.HasPrefix(r.URL.Path, "/api/v1/rewards/"), trouble.Load() == "":
			return false
		case trouble.Load() == "away":
			panic(http.ErrAbortHandler)
		}
		writeProblem(w, http.StatusServiceUnavailable, `{"status": 503, "code": "UNAVAILABLE", "detail": "NOT NOW", "requestId": "req-3"}`)
		return true
	})
	b := openTab(t, base, phone, "ko")
	b.visit("/rewards/" + event)
	says := words(t, "ko")["common"]
	b.waitForText("NOT NOW " + says["retrying"])
	b.waitForText("req-3")
	b.checkPage("unavailable")
	trouble.Store("away")
	b.waitForText(says["offline"])
	b.checkPage("away")
	trouble.Store("")
	b.waitFor(".calendar")
}

// testLostDraw: the responses to a draw are lost. The page repeats the draw with the same key, also
// after a reload, and the draw counts once.
func testLostDraw(t *testing.T) {
	parallelUnlimited(t)
	says := words(t, "en")["campaign"]
	event := campaign{kind: "RANDOM", draws: 3, prizes: []object{{"name": "A point", "kind": "POINT", "value": 1, "weight": 1}}}.open(t)
	var mu sync.Mutex
	var keys []string
	var dropping atomic.Bool
	dropping.Store(true)
	base := dropResponses(t, func(r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/draw") {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		return dropping.Load()
	})
	b := openTab(t, base, phone, "en")
	b.startSession(uniqueID("unlucky"))
	b.visit("/rewards/" + event)
	b.waitForText(strings.ReplaceAll(says["left"], "{n}", "3"))
	b.click(".enter button")
	b.waitForText(says["lost"])
	b.waitForText(strings.ReplaceAll(says["left"], "{n}", "2"))
	b.checkPage("lost")
	b.reload()
	b.waitForText(strings.ReplaceAll(says["won"], "{prize}", "A point"))
	dropping.Store(false)
	b.click(".enter button")
	b.waitForText(says["repeated"])
	require.Contains(t, b.text("#draws-left"), "2")
	mu.Lock()
	require.GreaterOrEqual(t, len(keys), 5, "four attempts, and one after the reload; the browser repeats some itself")
	for _, key := range keys {
		require.Equal(t, keys[0], key)
		require.NotEmpty(t, key)
	}
	mu.Unlock()
	b.click(".enter button:enabled")
	b.waitForText(strings.ReplaceAll(says["left"], "{n}", "1"))
	b.checkPage("drawn")
}
