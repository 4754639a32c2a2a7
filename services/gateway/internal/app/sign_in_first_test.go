package app_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/testkit"

	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

// In a room for signed-in users, other visitors get no position. A position belongs to the user.
func TestRoomForSignedInUsers(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.vwr.report(&vwrv1.Counter{EventId: busy, Active: true, Round: round, Serving: 101, Issued: 5000, SignIn: true})
	testkit.Until(t, func() bool { return w.gateway.Rooms.Get(busy).SignIn }, "the report of vwr")
	rec := w.assign(nil)
	require.Equal(t, http.StatusUnauthorized, rec.Code)
	require.Equal(t, "UNAUTHENTICATED", problemOf(t, rec)["code"])
	require.Nil(t, cookieOf(rec, "urr-anon"), "a refused call is given no id")
	require.Equal(t, "UNAUTHENTICATED", problemOf(t, w.do(http.MethodGet, "/vwr-api/vwr/challenge/busy", "", nil))["code"])
	require.Empty(t, w.vwr.of("Assign"))

	rec = w.assign(w.session(alice))
	require.Equal(t, http.StatusOK, rec.Code)
	require.Equal(t, alice, w.vwr.of("Assign")[0].caller.GetUserId())
	mine := w.session(alice).with("Cookie", "urr-anon="+cookieOf(rec, "urr-anon").Value).
		with("X-Vwr-Ticket", w.ticketFor(busy, claims.UserPrefix+alice, round, 1101))
	check := func(c credentials) map[string]any {
		return jsonOf(t, w.do(http.MethodGet, "/vwr-api/vwr/check/busy/"+requestID, "", c))
	}
	require.InDelta(t, 1000, check(mine)["ahead"], 0)
	require.Empty(t, w.vwr.of("Check"), "waiting users need no call")
	check(mine.with("Authorization", w.session(mallory)["Authorization"]))
	require.Len(t, w.vwr.of("Check"), 1, "the ticket of another user is none")
}
