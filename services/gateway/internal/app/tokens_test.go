package app_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/token"
	"urr.guru/pkg/token/tokentest"

	queuev1 "urr.guru/proto/gen/urr/queue/v1"
)

// entry returns an entry token of alice for calm, with a slot and an epoch, issued some time ago.
func (w *fixture) entry(slot string, epoch int64, ago time.Duration) string {
	at := w.now().Add(-ago)
	return w.sign(w.entries, claims.NewEntry(calm, alice, slot, epoch, at.Add(10*time.Minute), at))
}

// Of the entry tokens in the header and in the cookie, the valid one is used.
func TestValidTokenBesideAStaleOne(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.queue.end("over")
	good := w.entry(slot, epoch, 0)
	stale := map[string]string{
		"garbage":          "x.y.z",
		"expired":          w.entry("over", epoch, 2*time.Minute),
		"another event":    w.entryToken(busy, alice),
		"another user":     w.entryToken(calm, mallory),
		"an epoch ago":     w.entry("before", epoch-1, 0),
		"of an ended slot": w.entry("over", epoch, 0),
	}
	const reserve = `{"eventId":"calm","seatIds":["A-1-1"]}`
	for name, bad := range stale {
		for at, c := range map[string]credentials{
			"header": w.session(alice).with("X-Queue-Entry-Token", bad).with("Cookie", "urr-entry-token="+good),
			"cookie": w.session(alice).with("X-Queue-Entry-Token", good).with("Cookie", "urr-entry-token="+bad),
		} {
			rec := w.do(http.MethodGet, "/api/v1/seats/calm", "", c)
			require.Equal(t, http.StatusOK, rec.Code, "%s in the %s: %s", name, at, rec.Body)
			rec = w.do(http.MethodPost, "/api/v1/seats/reserve", reserve, c)
			require.Equal(t, http.StatusCreated, rec.Code, "%s in the %s: %s", name, at, rec.Body)
			holds := w.ticket.of("HoldSeats")
			require.Equal(t, slot, holds[len(holds)-1].caller.GetSlotId(), "%s in the %s", name, at)
		}
		rec := w.do(http.MethodPost, "/api/v1/seats/reserve", reserve, w.session(alice).with("X-Queue-Entry-Token", bad).with("Cookie", "urr-entry-token="+bad))
		require.Equal(t, http.StatusForbidden, rec.Code, "two stale tokens are refused: %s", name)
	}
}

// On a route whose event is that of the entry token, the token in the header is used, unless its
// line has moved to another epoch.
func TestTokensOfTwoEvents(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	eventOf := func(header, cookie string) string {
		rec := w.do(http.MethodGet, "/api/v1/reservations/"+requestID, "", w.session(alice).with("X-Queue-Entry-Token", header).with("Cookie", "urr-entry-token="+cookie))
		require.Equal(t, http.StatusOK, rec.Code, "%s", rec.Body)
		calls := w.ticket.of("GetReservation")
		return calls[len(calls)-1].caller.GetEventId()
	}
	require.Equal(t, calm, eventOf(w.entryToken(calm, alice), w.entryToken(busy, alice)))
	require.Equal(t, busy, eventOf(w.entry(slot, epoch-1, 0), w.entryToken(busy, alice)))
}

// A suspended device may have an expired token of a slot that still exists. Leaving ends the slot.
func TestLeaveEndsSlotsOfSentTokens(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	other := tokentest.KeySet(t, foreignSecret)
	sign := func(k token.KeySet, event, user string) string {
		at := w.now().Add(-2 * time.Minute)
		return w.sign(k, claims.NewEntry(event, user, "stolen", epoch, at.Add(10*time.Minute), at))
	}
	const waiting = "" // no slot: the user leaves the waiting line
	for name, c := range map[string]struct {
		header, cookie string
		ended          []string
	}{
		"nothing":                         {"", "", []string{waiting}},
		"live":                            {w.entry("a", epoch, 0), "", []string{"a"}},
		"live cookie":                     {"", w.entry("a", epoch, 0), []string{"a"}},
		"the same twice":                  {w.entry("a", epoch, 0), w.entry("a", epoch, time.Second), []string{"a"}},
		"two slots":                       {w.entry("a", epoch, 0), w.entry("b", epoch, 0), []string{"a", "b"}},
		"expired":                         {w.entry("a", epoch, 2*time.Minute), "", []string{"a", waiting}},
		"expired, of a slot that is over": {w.entry("a", epoch, time.Hour), "", []string{"a", waiting}},
		"expired and live":                {w.entry("a", epoch, 2*time.Minute), w.entry("b", epoch, 0), []string{"a", "b"}},
		"expired and forged":              {sign(other, calm, alice), "", []string{waiting}},
		"expired, another user's":         {sign(w.entries, calm, mallory), "", []string{waiting}},
		"expired, another event's":        {sign(w.entries, busy, alice), "", []string{waiting}},
		"expired, of another kind":        {w.sign(w.entries, claims.NewSession(alice, nil, w.now().Add(-time.Hour), w.now().Add(-time.Minute))), "", []string{waiting}},
		"garbage":                         {"x.y.z", "-", []string{waiting}},
	} {
		before := len(w.queue.of("Leave"))
		cred := w.session(alice)
		if c.header != "" {
			cred = cred.with("X-Queue-Entry-Token", c.header)
		}
		if c.cookie != "" {
			cred = cred.with("Cookie", "urr-entry-token="+c.cookie)
		}
		rec := w.do(http.MethodPost, "/api/v1/queue/leave/calm", "", cred)
		require.Equal(t, http.StatusNoContent, rec.Code, "%s: %s", name, rec.Body)
		var ended []string
		for _, call := range w.queue.of("Leave")[before:] {
			in, _ := call.msg.(*queuev1.LeaveRequest)
			ended = append(ended, in.GetEntry().GetSlotId())
		}
		require.Equal(t, c.ended, ended, name)
	}
}

// A token is valid only for its own purpose, even if the platform has signed it.
func TestKeysAndAudiences(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	entry := claims.NewEntry(calm, alice, slot, epoch, w.now().Add(time.Minute), w.now())
	session := claims.NewSession(alice, nil, w.now(), w.now().Add(time.Hour))
	for name, tok := range map[string]string{
		"an entry token by the session's key": w.sign(w.sessions, entry),
		"an entry token by the tier-1 key":    w.sign(w.tier1, entry),
		"a session":                           w.sign(w.sessions, session),
		"a session by the entry token's key":  w.sign(w.entries, session),
	} {
		rec := w.do(http.MethodGet, "/api/v1/seats/calm", "", w.session(alice).with("X-Queue-Entry-Token", tok))
		require.Equal(t, http.StatusForbidden, rec.Code, name)
		require.Equal(t, "QUEUE_TOKEN_REQUIRED", problemOf(t, rec)["code"], name)
	}
	for name, tok := range map[string]string{
		"an entry token": w.sign(w.entries, entry), "an entry token by the session's key": w.sign(w.sessions, entry),
		"a session by the entry token's key": w.sign(w.entries, session),
	} {
		rec := w.do(http.MethodGet, "/api/v1/auth/me", "", credentials{"Authorization": "Bearer " + tok})
		require.Equal(t, "SESSION_INVALID", problemOf(t, rec)["code"], name)
	}
}
