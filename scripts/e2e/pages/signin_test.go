package pages_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// testSignInAtTheProvider: a visitor signs in at the identity provider, comes back to the page, and
// signs out at both. A visitor who refuses to sign in sees why, and can try again.
func testSignInAtTheProvider(t *testing.T) {
	t.Parallel()
	for _, p := range variants {
		t.Run(p.String(), func(t *testing.T) {
			parallelTab(t)
			says := words(t, p.lang)["login"]
			b := openTab(t, signInURL, p.device, p.lang)
			b.visit("/my")
			b.waitForPath("/login")
			b.waitFor("#provider")
			b.otherServers = []string{identityProvider}
			b.checkPage("sign-in")
			b.click("#provider")
			b.waitFor(`input[name="user"]`)
			b.click(`button[name="deny"]`)
			b.waitForPath("/login")
			b.waitForText(says["failedRefused"])
			b.checkPage("refused")

			eval[bool](b, `sessionStorage.setItem("left", "by the last user") === undefined`)
			b.click("#provider")
			b.fill(`input[name="user"]`, "auth0|"+uniqueID("member"))
			b.click(`input[name="role"][value="staff"]`)
			b.click("form button")
			b.waitForPath("/my")
			b.waitForText(words(t, p.lang)["my"]["noTickets"])
			require.Regexp(t, "^sub-.* staff$", eval[string](b, `fetch("/api/v1/auth/me").then(r => r.json()).then(s => s.userId + " " + s.roles)`))
			require.Empty(t, eval[[]string](b, `Object.values(sessionStorage).filter(v => v === "by the last user")`))
			b.click("#sign-out:not([hidden])")
			b.until("the list of events", "location.pathname === '/' && document.querySelector('#sign-in:not([hidden])')")
			require.True(t, b.requests.contain("GET "+identityProvider+"end_session?"), "the session at the provider goes on")
			b.visit("/my")
			b.waitForPath("/login")
		})
	}
}
