package pages_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// testMembershipByPage: a visitor finds a plan, signs in to buy it, is declined on the provider's
// page, pays there, enters a presale for members, and extends the membership.
func testMembershipByPage(t *testing.T, at payPage) {
	t.Helper()
	eachVariant(t, at, func(t *testing.T, p variant) {
		t.Helper()
		all := words(t, p.lang)
		says, user, name := all["memberships"], uniqueID("member"), uniqueID("Friends")
		operator := signIn(t, "admin")
		operator.key = uniqueID("key")
		plan, _ := operator.call(http.MethodPost, "/api/v1/admin/memberships/plans", object{"name": name, "price": 9900, "currency": "KRW", "months": 12})["planId"].(string)
		buy := `button[aria-describedby="` + plan + `"]`
		b := openTab(t, platformURL, p.device, p.lang)
		b.otherServers = at.servers
		b.visit("/memberships")
		b.waitForText(name)
		b.checkPage("plans")
		b.click(buy)
		b.waitForPath("/login")
		require.Equal(t, all["login"]["toMemberships"], b.text(".reason"))
		b.logIn(user)
		b.waitForPath("/memberships")
		b.waitForText(says["none"])
		b.click(buy)
		b.waitForPath("/memberships/")
		b.waitFor(".countdown")
		b.checkPage("membership to pay")
		b.goToPage(at)
		b.choose(at, at.decline)
		b.waitForPath("/memberships/")
		b.waitForText(all["joining"]["declined"])
		require.Empty(t, b.link(), "a reload is to show the latest payment")
		b.goToPage(at)
		b.choose(at, at.pay)
		b.waitForPath("/memberships/")
		b.waitFor(".notice.good")
		b.checkPage("member")

		presaleEvent := sale{opens: time.Hour, presale: []object{{"planId": plan}}}.open(t)
		b.visit("/events/" + presaleEvent)
		b.waitForText(all["presale"]["MEMBERSHIP"])
		b.checkPage("presale for members")
		b.visit("/queue/" + presaleEvent)
		b.waitForPath("/events/" + presaleEvent + "/seats")

		b.visit("/my")
		b.waitForText(all["my"]["noRewards"]) // the link moves until the lists are shown
		b.click(`main a[href="/memberships"]`)
		b.waitForText(says["ACTIVE"])
		b.click(buy)
		b.waitForPath("/memberships/")
		b.goToPage(at)
		b.choose(at, at.pay)
		b.waitForPath("/memberships/")
		b.waitFor(".notice.good")
		b.visit("/memberships")
		b.until("both memberships", "document.querySelectorAll('.badge.good').length === 2")
		b.checkPage("extended membership")
		b.click(buy)
		b.waitForText(map[string]string{"en": "bought your next membership already", "ko": "다음 기간의 멤버십을 이미"}[p.lang])
		b.checkPage("no second term ahead")
		operator.key = ""
		operator.call(http.MethodPut, "/api/v1/admin/memberships/plans/"+plan, object{"onSale": false})
		b.visit("/memberships")
		b.waitForText(says["ACTIVE"])
		b.until("no plan on sale", "!document.querySelector('"+buy+"')")
	})
}
