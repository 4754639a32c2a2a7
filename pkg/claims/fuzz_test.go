package claims_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/token"
	"urr.guru/pkg/token/tokentest"
)

// Nothing here depends on randomness or on the time, so the corpus in testdata/fuzz stays valid.

// tokens returns valid claims of every kind, by their audience.
func tokens() map[string]jwt.Claims {
	session := claims.NewSession("bob", []string{"admin"}, now, now.Add(time.Hour))
	session.ID = "018f2b5e-7b1a-7c3d-8e4f-0123456789ab"
	return map[string]jwt.Claims{
		claims.AudienceVWR:     claims.NewTier1("demo", "anon-1", "req-1", 1_799_999_999_123_456, 42, now),
		claims.AudienceEntry:   claims.NewEntry("demo", "bob", "slot-1", 7, now.Add(10*time.Minute), now),
		claims.AudienceSession: session,
	}
}

// Verify accepts only signed tokens, and each only as a token of its own kind.
func FuzzTokens(f *testing.F) {
	rotated := tokentest.KeySet(f, "b:"+strings.ToUpper(secret)+",a:"+secret)
	signers := []token.KeySet{rotated, tokentest.KeySet(f, "a:"+secret)}
	genuine := map[string]string{}
	for kind, c := range tokens() {
		for _, k := range append(signers, tokentest.KeySet(f, "c:"+secret)) {
			tok, err := k.Sign(c)
			require.NoError(f, err)
			f.Add(tok)
			if k.Current() != "c" {
				genuine[tok] = kind
			}
		}
	}
	f.Fuzz(func(t *testing.T, tok string) {
		for kind, want := range kinds() {
			got := want.newClaims()
			err := rotated.Verify(tok, got, kind, now)
			require.Equal(t, genuine[tok] == kind, err == nil, "as %s: %v", kind, err)
			if err != nil {
				continue
			}
			require.Equal(t, tokens()[kind], got)
		}
	})
}

// Signed claims with any content never cause a panic. Claims that verify are complete, and keep
// their content when they are signed again.
func FuzzSignedClaims(f *testing.F) {
	k := tokentest.KeySet(f, "a:"+secret)
	for _, c := range tokens() {
		tok, err := k.Sign(c)
		require.NoError(f, err)
		payload, err := base64.RawURLEncoding.DecodeString(strings.Split(tok, ".")[1])
		require.NoError(f, err)
		f.Add(payload)
	}
	f.Add([]byte(`{"sub":"demo","sub":"other","aud":["entry","vwr"],"exp":1e30}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		signingInput := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","kid":"a"}`)) + "." + base64.RawURLEncoding.EncodeToString(payload)
		signature, err := jwt.SigningMethodHS256.Sign(signingInput, []byte(secret))
		require.NoError(t, err)
		for kind, want := range kinds() {
			got := want.newClaims()
			if k.Verify(signingInput+"."+base64.RawURLEncoding.EncodeToString(signature), got, kind, now) != nil {
				continue
			}
			require.NoError(t, got.(interface{ Validate() error }).Validate(), "%s from %s", kind, payload)
			exp, err := got.GetExpirationTime()
			require.NoError(t, err)
			require.True(t, now.Before(exp.Time), "%s from %s", kind, payload)
			resigned, err := k.Sign(got)
			require.NoError(t, err)
			reread := want.newClaims()
			require.NoError(t, k.Verify(resigned, reread, kind, now))
			require.Equal(t, got, reread)
		}
	})
}

// A value that OpenAnon accepts is exactly the value that Seal returned for its id.
func FuzzOpenAnon(f *testing.F) {
	macs := tokentest.KeySet(f, "a:"+secret).Derive(claims.LabelAnon)
	id := uuid.MustParse("018f2b5e-7b1a-4c3d-8e4f-0123456789ab")
	good := claims.Anon{ID: id, Issued: now, Counted: now}.Seal(macs)
	f.Add(id[:], good)
	f.Add([]byte{}, good[:20]+"\n"+good[20:])
	f.Add([]byte{}, ticket.Seal(macs, "demo", "v1"))
	f.Fuzz(func(t *testing.T, id []byte, s string) {
		if a, err := claims.OpenAnon(macs, s); err == nil {
			require.Equal(t, good, s)
			require.Equal(t, s, a.Seal(macs))
		}
		a := claims.NewAnon(now)
		copy(a.ID[:], id)
		back, err := claims.OpenAnon(macs, a.Seal(macs))
		require.NoError(t, err)
		require.Equal(t, a, back)
	})
}
