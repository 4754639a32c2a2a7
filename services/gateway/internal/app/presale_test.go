package app_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// A visitor who gets no position yet gets the status PRESALE, since some users need none.
func TestLobbyTellsOfThePresale(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.openLobby()
	saleStatus := func() any {
		rec := w.do(http.MethodPost, "/vwr-api/vwr/assign/busy", "", nil)
		require.Equal(t, http.StatusConflict, rec.Code)
		return problemOf(t, rec)["saleStatus"]
	}
	require.Nil(t, saleStatus())
	w.setSale("PRESALE")
	require.Equal(t, "PRESALE", saleStatus())
}

// Who was admitted from a presale has an entry token and no tier-1 token, and passes an active room with
// it. Nobody else does. The page of the line, which is the way past the room, is open to all.
func TestSlotPassesAnActiveRoom(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	member, other := w.buyer(busy).with("Accept", "text/html"), w.session(alice).with("Accept", "text/html")
	require.Equal(t, http.StatusOK, w.do(http.MethodGet, "/events/busy/seats", "", member).Code)
	rec := w.do(http.MethodGet, "/events/busy/seats", "", other)
	require.Equal(t, http.StatusFound, rec.Code)
	require.Equal(t, "/vwr/busy", rec.Header().Get("Location"))
	require.Equal(t, http.StatusOK, w.do(http.MethodGet, "/queue/busy", "", other).Code)
}
