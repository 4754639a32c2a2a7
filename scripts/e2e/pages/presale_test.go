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

// testPresaleBesideARoom: the page of an active room leads users to the line. Whoever is not entitled
// comes back, keeps the number and reads why; one with a code is let in without waiting for it.
func testPresaleBesideARoom(t *testing.T) {
	parallelTab(t)
	all := words(t, "en")
	event := sale{opens: time.Hour, presale: []object{{"codeList": "friends"}}}.open(t)
	openRoom(t, event, 1)
	b := openTab(t, platformURL, phone, "en")
	b.startSession(uniqueID("fan"))
	b.visit("/vwr/" + event)
	b.waitForText(all["vwr"]["membersFirst"])
	b.checkPage("room in a presale")
	kept := b.storedPlace(event)
	b.click("#enter-presale")
	b.waitForText(all["vwr"]["notEntitled"])
	require.Equal(t, kept.Position, b.storedPlace(event).Position)

	batch := signIn(t, "admin").call(http.MethodPost, "/api/v1/admin/events/"+event+"/codes", object{"codeList": "friends", "count": 1})
	codes, _ := batch["codes"].([]any)
	require.Len(t, codes, 1)
	friend := uniqueID("friend")
	signInAs(t, friend).call(http.MethodPost, "/api/v1/events/"+event+"/codes", object{"code": codes[0]})
	member := openTab(t, platformURL, phone, "en")
	member.startSession(friend)
	member.visit("/vwr/" + event)
	member.waitForText(all["vwr"]["enterPresale"])
	member.click("#enter-presale")
	member.waitForPath("/events/" + event + "/seats")
}
