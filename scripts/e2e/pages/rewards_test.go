package pages_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/scripts/platform"
	"urr.guru/services/reward/sandbox"
)

// campaign describes a test's campaign. The zero value rewards attendance with 10 points a day and
// a coupon for three days in a row.
type campaign struct {
	kind, period string
	prizes       []object
	draws        int
	// opens and closes are relative to now; zero means 40 days ago and in 40 days.
	opens, closes time.Duration
}

// open creates the campaign and returns its id.
func (c campaign) open(t *testing.T) string {
	t.Helper()
	if c.opens == 0 {
		c.opens = -40 * 24 * time.Hour
	}
	if c.closes == 0 {
		c.closes = 40 * 24 * time.Hour
	}
	now := time.Now().UTC()
	body := object{"title": "Autumn days " + uniqueID("campaign"), "opensAt": now.Add(c.opens), "closesAt": now.Add(c.closes)}
	switch c.kind {
	case "RANDOM":
		body["prizes"], body["drawsPerMember"] = c.prizes, max(1, c.draws)
	case "REQUEST_WINNERS":
		body["promotionId"], body["daily"] = promotion{}.open(t), object{"kind": "COUPON", "value": 4711}
	default:
		c.kind = "ATTENDANCE"
		body["daily"] = object{"kind": "POINT", "value": 10}
		body["milestones"] = []object{
			{"day": 3, "kind": "COUPON", "value": 4711}, {"day": 5, "kind": "POINT", "value": 1500, "every": true},
		}
	}
	body["kind"] = c.kind
	if c.period != "" {
		body["period"] = c.period
	}
	id, _ := signIn(t, "admin").call(http.MethodPost, "/api/v1/admin/rewards/events", body)["eventId"].(string)
	require.NotEmpty(t, id)
	return id
}

// attendedBefore stores attendances of the days before today, as the service does.
func attendedBefore(t *testing.T, event string, member *visitor, user string, days int) {
	t.Helper()
	today, _ := member.call(http.MethodGet, "/api/v1/rewards/"+event+"/me", nil)["today"].(string)
	last, err := time.Parse(time.DateOnly, today)
	require.NoError(t, err)
	ctx, cancel := testkit.Context(t)
	defer cancel()
	for i := range days {
		day := last.AddDate(0, 0, i-days)
		_, err := services.DB(platform.Reward).Exec(ctx,
			`INSERT INTO event_entry (event_id, member_id, period, streak, created_at) VALUES ($1, $2, $3, $4, $5)`,
			event, user, day.Format(time.DateOnly), i+1, day)
		require.NoError(t, err)
	}
}

// testAttendance: a visitor signs in from the page of a campaign and attends on the third day in a
// row. The page shows the day, the streak, the bonus and the rewards, as does the list of rewards.
func testAttendance(t *testing.T) {
	skipOnForeignPlatform(t)
	t.Parallel()
	for _, p := range variants {
		t.Run(p.String(), func(t *testing.T) {
			parallelTab(t)
			says, event := words(t, p.lang), campaign{}.open(t)
			user := uniqueID("daily")
			attendedBefore(t, event, signInAs(t, user), user, 2)
			b := openTab(t, platformURL, p.device, p.lang)
			b.visit("/rewards/" + event)
			b.waitForText(says["campaign"]["signIn"])
			b.waitFor(".calendar")
			b.checkPage("signed out")
			b.click(".enter a.button")
			b.waitForPath("/login")
			b.waitFor("#user")
			require.Equal(t, says["login"]["toRewards"], b.text(".reason"))
			b.logIn(user)

			b.waitForPath("/rewards/" + event)
			b.waitFor(".enter button")
			b.waitForText(says["campaign"]["keep"])
			require.Equal(t, 2, b.daysAttended())
			b.checkPage("before")
			b.click(".enter button")
			b.waitForText(says["campaign"]["attended"])
			b.until("the focus near the button, which is gone", "document.activeElement.id === 'main'")
			b.until("the day in the calendar", `document.querySelector("[aria-current=date] .attended")`)
			require.Equal(t, 3, b.daysAttended())
			require.Equal(t, strings.ReplaceAll(says["campaign"]["streak"], "{n}", "3"), b.text("#streak"))
			require.Equal(t, strings.NewReplacer("{day}", "5", "{n}", "2").Replace(says["campaign"]["next"]), b.text("#next-bonus"))
			require.Equal(t, says["campaign"]["reached"], b.text(`[aria-labelledby="milestones"] .badge`))
			require.Len(t, b.rewards(), 2, "of the day and of the streak")
			b.until("both payments", "document.querySelectorAll('.rewards .badge.good').length === 2")
			b.waitForText(says["reward"]["SUCCESS"])
			b.checkPage("attended")

			b.click(`main a[href="/my"]`)
			b.waitForPath("/my")
			b.waitFor(`main a[href="/rewards/` + event + `"]`)
			b.until("the title of the campaign", `document.querySelector("main a[href^='/rewards/']").textContent.includes("Autumn days")`)
			require.Equal(t, 2, eval[int](b, `document.querySelectorAll('[aria-labelledby="rewards"] .card').length`))
			b.checkPage("my rewards")
			b.click(`main a[href="/rewards/` + event + `"]`)
			b.waitForText(says["campaign"]["attended"])
		})
	}
}

// daysAttended returns the number of attended days in the calendar's month and the month before,
// since a streak may begin there.
func (b *tab) daysAttended() int {
	b.t.Helper()
	n := eval[int](b, "document.querySelectorAll('.calendar .attended').length")
	previousMonth, nextMonth := ".card:has(.calendar) .actions button:first-child", ".card:has(.calendar) .actions button:last-child"
	month := b.text(".calendar caption")
	b.click(previousMonth)
	b.until("the month before", fmt.Sprintf("document.querySelector('.calendar caption').innerText !== %q", month))
	n += eval[int](b, "document.querySelectorAll('.calendar .attended').length")
	b.click(nextMonth)
	b.until("the month", fmt.Sprintf("document.querySelector('.calendar caption').innerText === %q", month))
	return n
}

// rewards returns the text of each reward that the page shows.
func (b *tab) rewards() []string {
	b.t.Helper()
	return eval[[]string](b, "[...document.querySelectorAll('.rewards .row')].map(r => r.innerText)")
}

// testDraws: a member draws the only prize and a blank. Then all prizes are gone.
func testDraws(t *testing.T) {
	t.Parallel()
	for _, p := range variants {
		t.Run(p.String(), func(t *testing.T) {
			parallelTab(t)
			says := words(t, p.lang)["campaign"]
			event := campaign{kind: "RANDOM", draws: 3, period: "DAY", prizes: []object{
				{"name": "Five hundred", "kind": "POINT", "value": 500, "weight": 1, "stock": 1},
				{"name": "A kind word", "kind": "NONE", "weight": 1, "stock": 1},
			}}.open(t)
			b := openTab(t, platformURL, p.device, p.lang)
			b.startSession(uniqueID("lucky"))
			b.visit("/rewards/" + event)
			b.waitForText(strings.ReplaceAll(says["left"], "{n}", "3"))
			b.waitForText(says["noResults"])
			b.checkPage("before")
			b.click(".enter button")
			b.waitForText(strings.ReplaceAll(says["left"], "{n}", "2"))
			b.waitFor(`.enter .notice`)
			b.checkPage("drawn")
			b.click(".enter button:enabled")
			b.waitForText(says["gone"])
			b.waitForText(strings.ReplaceAll(says["won"], "{prize}", "Five hundred"))
			b.waitForText(strings.ReplaceAll(says["blank"], "{prize}", "A kind word"))
			b.until("both stocks", fmt.Sprintf("[...document.querySelectorAll('td.number')].every(d => d.innerText === %q)", says["noStock"]))
			require.True(t, eval[bool](b, "document.querySelector('.enter button') === null"), "a draw would be lost")
			require.Len(t, b.rewards(), 1, "nothing is paid for a blank")
			b.checkPage("gone")
			b.reload()
			b.waitForText(strings.ReplaceAll(says["blank"], "{prize}", "A kind word"))
		})
	}
}

// testLastPrizeGone: another member takes the last prize that the page shows. A draw still counts.
func testLastPrizeGone(t *testing.T) {
	parallelTab(t)
	says := words(t, "en")["campaign"]
	event := campaign{kind: "RANDOM", prizes: []object{{"name": "The one", "kind": "COUPON", "value": 7, "weight": 1, "stock": 1}}}.open(t)
	b := openTab(t, platformURL, phone, "en")
	b.startSession(uniqueID("late"))
	b.visit("/rewards/" + event)
	b.waitFor(".enter button")
	signIn(t).call(http.MethodPost, "/api/v1/rewards/"+event+"/draw", object{})
	b.click(".enter button")
	b.waitForText(says["allGone"])
	b.waitForText(says["usedUp"])
	b.waitForText(says["gone"])
	b.checkPage("gone")
}

// testPayouts follows a reward on the open page: its payment waits, is refused, and succeeds.
func testPayouts(t *testing.T) {
	skipOnForeignPlatform(t)
	parallelTab(t)
	says := words(t, "ko")
	operator, p := signIn(t, "admin"), services
	const provider = "/api/v1/admin/rewards/providers/coupon/"
	t.Cleanup(func() { // the other tests use the provider too; the context of this one has ended
		ctx := context.WithoutCancel(t.Context())
		requireSent(t, operator.request(ctx, http.MethodPost, provider+"resume", object{}))
		p.SetRewardFaults(sandbox.Faults{})
	})
	p.SetRewardFaults(sandbox.Faults{Refused: 1})
	operator.call(http.MethodPost, provider+"pause", object{})
	event := campaign{kind: "RANDOM", prizes: []object{{"name": "Coupon", "kind": "COUPON", "value": 7, "weight": 1}}}.open(t)
	b := openTab(t, platformURL, phone, "ko")
	b.startSession(uniqueID("patient"))
	b.visit("/rewards/" + event)
	b.click(".enter button")
	b.waitForText(says["reward"]["PENDING"])
	b.waitForText(says["campaign"]["payout"])
	b.checkPage("pending")
	operator.call(http.MethodPost, provider+"resume", object{})
	b.waitForText(says["reward"]["FAILED"])
	b.waitForText(says["campaign"]["delayed"])
	b.checkPage("failed")
	p.SetRewardFaults(sandbox.Faults{})
	b.waitForText(says["reward"]["SUCCESS"])
	b.checkPage("paid")
}

// requireSent sends a request that has to succeed.
func requireSent(t *testing.T, r *http.Request) {
	t.Helper()
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, 2, answer.StatusCode/100, "%s %s", r.Method, r.URL)
}

// testAttendanceByKeys attends without touching mouse or screen, on a narrow screen in dark
// colours.
func testAttendanceByKeys(t *testing.T) {
	parallelTab(t)
	event := campaign{}.open(t)
	b := openTab(t, platformURL, device{name: "narrow", width: 320, height: 568, scale: 2, mobile: true}, "ko")
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}},
	})
	b.startSession(uniqueID("keys"))
	b.visit("/rewards/" + event)
	b.waitFor(".enter button")
	b.tabTo(".enter button")
	b.press(kb.Enter)
	b.waitForText(words(t, "ko")["campaign"]["attended"])
	b.until("the focus near the button, which is gone", "document.activeElement.id === 'main'")
	const later = ".card:has(.calendar) .actions button:last-child"
	b.tabTo(later)
	for months := 0; !eval[bool](b, fmt.Sprintf("document.querySelector(%q).ariaDisabled === 'true'", later)); months++ {
		require.Less(t, months, 2, "40 days end at most two months later")
		month := b.text(".calendar caption")
		b.press(kb.Enter)
		b.until("another month", fmt.Sprintf("document.querySelector('.calendar caption').innerText !== %q", month))
		require.Equal(t, words(t, "ko")["campaign"]["later"], eval[string](b, "document.activeElement.innerText"), "the focus stays")
	}
	month := b.text(".calendar caption")
	b.press(kb.Enter)
	require.Equal(t, month, b.text(".calendar caption"), "the campaign's last month")
	b.checkPage("by keys")
}

// testSessionEndsInACampaign: a visitor whose session has ended comes back after signing in.
func testSessionEndsInACampaign(t *testing.T) {
	parallelTab(t)
	event, user := campaign{}.open(t), uniqueID("ended")
	b := openTab(t, platformURL, desktop, "en")
	b.startSession(user)
	b.visit("/rewards/" + event)
	b.waitFor(".enter button")
	call(b, network.DeleteCookies, network.DeleteCookiesParams{Name: sessionCookie, URL: b.base})
	b.click(".enter button")
	b.waitForPath("/login")
	b.logIn(user)
	b.waitForPath("/rewards/" + event)
	b.waitFor(".enter button")
}
