package identity_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/testkit"
	"urr.guru/pkg/token/tokentest"
	"urr.guru/services/gateway/internal/identity"
)

// Whatever headers a request has, it has an identity only if a header contains the credential that
// was issued for this identity.
func FuzzCredentials(f *testing.F) {
	const event, user = "demo", "alice"
	keys := tokentest.KeySet(f, secret)
	verify := verifier(f, testkit.NewClock(start))
	visitor := claims.Anon{ID: uuid.MustParse("018f2b5e-7b1a-4c3d-8e4f-0123456789ab")}
	issued := claims.NewSession(user, nil, start, start.Add(time.Hour))
	issued.ID = "018f2b5e-7b1a-7c3d-8e4f-0123456789ab"
	session, err := keys.Sign(issued)
	require.NoError(f, err)
	entry, err := keys.Sign(claims.NewEntry(event, user, "slot", 7, start.Add(time.Hour), start))
	require.NoError(f, err)
	tier1, err := keys.Sign(claims.NewTier1(event, visitor.String(), "request", 1, 42, start))
	require.NoError(f, err)
	anon := visitor.Seal(keys.Derive(claims.LabelAnon))

	f.Add("urr-session="+session+"; urr-anon="+anon+"; urr-vwr-token="+tier1+"; urr-entry-token="+entry, "", "")
	f.Add("urr-anon=x; urr-anon="+anon, "Bearer "+session, entry)
	f.Add("urr-session ="+session+";;urr-session", "bearer  "+session, "Bearer "+entry)
	f.Add("urr-session="+entry+"; urr-entry-token="+session+"; urr-vwr-token="+anon, "Basic "+session, tier1)
	f.Fuzz(func(t *testing.T, cookies, authorization, header string) {
		h := http.Header{"Cookie": {cookies}, "Authorization": {authorization}, identity.EntryHeader: {header}, identity.QueueTicketHeader: {header}}
		all := cookies + "\n" + authorization + "\n" + header
		if c, err := verify.Session(h); err == nil {
			require.Contains(t, all, session)
			require.Equal(t, user, c.UserID)
		}
		if a, ok := verify.Visitor(h); ok {
			require.Contains(t, cookies, anon)
			require.Equal(t, visitor.String(), a.String())
		}
		if c := verify.Tier1Token(h, event, visitor.String(), ""); c != nil {
			require.Contains(t, cookies, tier1)
		}
		if c := verify.EntryToken(h, event, user); c != nil {
			require.Contains(t, all, entry)
		}
		require.Nil(t, verify.Tier1Token(h, event, "another", user))
		require.Nil(t, verify.EntryToken(h, event, "another"))
		require.Nil(t, verify.EntryToken(h, "another", user))
		require.LessOrEqual(t, len(identity.QueueTicket(h)), 256)
		require.False(t, strings.ContainsAny(identity.QueueTicket(h), " \r\n\x00"))
	})
}
