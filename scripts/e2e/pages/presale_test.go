package pages_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// testPresale: a visitor without an entitlement waits in the line for the general sale, and reads
// why. With a code the same visitor is let in and holds seats.
func testPresale(t *testing.T) {
	t.Parallel()
	for _, p := range variants {
		t.Run(p.String(), func(t *testing.T) {
			parallelTab(t)
			all := words(t, p.lang)
			says := all["presale"]
			event := sale{opens: time.Hour, presale: []object{{"codeList": "friends"}, {"list": "partners"}}}.open(t)
			batch := signIn(t, "admin").call(http.MethodPost, "/api/v1/admin/events/"+event+"/codes", object{"codeList": "friends", "count": 1})
			codes, _ := batch["codes"].([]any)
			require.Len(t, codes, 1)
			code, _ := codes[0].(string)

			b := openTab(t, platformURL, p.device, p.lang)
			b.visit("/events/" + event)
			b.waitForText(says["signIn"])
			b.checkPage("presale to sign in for")
			b.startSession(uniqueID("fan"))
			b.visit("/queue/" + event)
			b.waitForText(all["sale"]["PRESALE"])
			b.checkPage("waits for the general sale")
			b.visit("/events/" + event)
			b.waitForText(says["notEntitled"])
			b.do(setValue(".code input", "WRONG"))
			b.click(".code button")
			b.waitFor(".code .notice.bad")
			b.checkPage("wrong code")
			b.do(setValue(".code input", code))
			b.click(".code button")
			b.waitForText(says["CODE"])
			b.checkPage("entitled by a code")
			b.visit("/queue/" + event)
			b.waitForPath("/events/" + event + "/seats")
		})
	}
}
