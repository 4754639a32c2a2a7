package session_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/token/tokentest"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/identity"
	"urr.guru/services/gateway/internal/revoked"
	"urr.guru/services/gateway/internal/session"
)

func verifier(t *testing.T) *identity.Verifier {
	t.Helper()
	k := tokentest.KeySet(t, "a-secret-of-at-least-thirty-two-bytes")
	v, err := identity.New(identity.Keys{Session: k}, 10, revoked.New(nil, "", time.Hour, time.Now), time.Now)
	require.NoError(t, err)
	return v
}

// A crowd whose sign-ins fail does not overload the log.
func TestFailuresAreLoggedWithinALimit(t *testing.T) {
	t.Parallel()
	tokens := verifier(t)
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		h := session.New(session.Config{Tokens: tokens, Log: log, Now: time.Now})
		for second := range 2 {
			for range 100 {
				require.NoError(t, h.Callback(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil), &edge.Request{}))
			}
			require.Equal(t, 10*(second+1), strings.Count(out.String(), "sign-in failed"))
			time.Sleep(time.Second)
		}
		require.Contains(t, out.String(), "suppressed=90")
	})
}
