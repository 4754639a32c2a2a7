package pages_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// testLobby: the waiting room of a coming sale accepts entries of signed-in users, keeps the
// receipt over a reload, and lets everybody in when an operator deactivates it.
func testLobby(t *testing.T) {
	parallelTab(t)
	event := sale{}.open(t)
	activateRoom(t, event, object{"startsAt": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)})
	b := openTab(t, platformURL, phone, "ko")
	b.visit("/vwr/" + event)
	b.waitFor("#lobby:not([hidden])")
	b.checkPage("lobby")
	b.waitForText(words(t, "ko")["vwr"]["joinHelp"])
	b.click("#join")
	b.waitForPath("/login")

	b.startSession("lobby-user")
	b.visit("/vwr/" + event)
	b.waitFor("#joining:not([hidden])")
	b.click("#join")
	b.waitFor("#receipt:not([hidden])")
	entry := b.storedPlace(event)
	require.Zero(t, entry.Position)
	require.NotEmpty(t, entry.Ticket)
	b.reload()
	b.waitFor("#receipt:not([hidden])")
	require.Equal(t, entry, b.storedPlace(event))
	require.True(t, eval[bool](b, "document.getElementById('joining').hidden"), "there is one entry per user")
	b.checkPage("joined")

	signIn(t, "admin").call(http.MethodPost, "/api/v1/admin/vwr/deactivate/"+event, nil)
	b.reload()
	b.waitForPath("/events/" + event)
}

// testDrawnPlace: the page waits for the draw, then shows the position and a link to verify it.
func testDrawnPlace(t *testing.T) {
	parallelTab(t)
	event := sale{}.open(t)
	opensAt := time.Now().Add(2 * time.Second).UnixMilli()
	var checks atomic.Int32
	var receiptSeen atomic.Bool // the page shows the receipt only until the draw
	base := intercept(t, func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/vwr-api/vwr/") {
			return false
		}
		answer := object{"servingCounter": 0, "isActive": true}
		switch {
		case strings.HasPrefix(r.URL.Path, "/vwr-api/vwr/lobby/"):
			answer = object{"requestId": "01890000-0000-8000-8000-000000000001", "opensAt": opensAt, "closesAt": opensAt - 1000, "ticket": "t0", "receipt": "r"}
		case strings.HasPrefix(r.URL.Path, "/vwr-api/vwr/assign/"):
			writeProblem(w, http.StatusConflict, `{"status": 409, "code": "LOBBY_OPEN", "lobbyOpensAt": "1", "closesAt": "9999999999999", "opensAt": "9999999999999"}`)
			return true
		case strings.HasPrefix(r.URL.Path, "/vwr-api/vwr/check/") && (checks.Add(1) <= 2 || !receiptSeen.Load()):
			answer = object{"admitted": false, "position": 0, "servingCounter": 0, "ahead": 0, "estimatedWait": 0, "nextPoll": 1, "phase": "LOBBY", "opensAt": opensAt}
		case strings.HasPrefix(r.URL.Path, "/vwr-api/vwr/check/"):
			answer = object{"admitted": false, "position": 42, "servingCounter": 0, "ahead": 42, "estimatedWait": 9, "nextPoll": 2, "ticket": "t42"}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
		return true
	})
	b := openTab(t, base, desktop, "en")
	b.visit("/vwr/" + event)
	b.waitFor("#joining:not([hidden])")
	b.click("#join")
	b.waitFor("#receipt:not([hidden])")
	receiptSeen.Store(true)
	b.waitFor("#line:not([hidden])")
	require.Equal(t, "42", b.text("#position"))
	require.Equal(t, roomPosition{RequestID: "01890000-0000-8000-8000-000000000001", Position: 42, Ticket: "t42"}, b.storedPlace(event))
	require.True(t, eval[bool](b, "document.getElementById('lobby').hidden"))
	require.Equal(t, "/draws/"+event+"?of=lobby", eval[string](b, "document.getElementById('verify').getAttribute('href')"))
	b.waitForText(words(t, "en")["vwr"]["verify"])
	b.checkPage("drawn")
}
