package claims_test

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/token"
	"urr.guru/pkg/token/tokentest"
)

const secret = "0123456789abcdef0123456789abcdef"

var now = time.Unix(1_800_000_000, 0)

func payload(t *testing.T, tok string) string {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(strings.Split(tok, ".")[1])
	require.NoError(t, err)
	return string(b)
}

// Services and pages read these JSON members, so their names and units must not change.
func TestTokensAreAsDocumented(t *testing.T) {
	t.Parallel()
	k := tokentest.KeySet(t, secret)

	tier1, err := k.Sign(claims.NewTier1("demo", "anon-1", "req-1", 1_799_999_999_123_456, 42, now))
	require.NoError(t, err)
	require.JSONEq(t, `{"sub":"demo","uid":"anon-1","aud":"vwr","tier":1,"pos":42,"act":1799999999123456,"jti":"req-1","iat":1800000000,"exp":1800000600}`, payload(t, tier1))

	entry, err := k.Sign(claims.NewEntry("demo", "user-1", "slot-1", 1_799_999_999_000_001, now.Add(10*time.Minute), now))
	require.NoError(t, err)
	require.JSONEq(t, `{"sub":"demo","uid":"user-1","aud":"entry","jti":"slot-1","epoch":1799999999000001,"end":1800000600000,"iat":1800000000,"exp":1800000060}`, payload(t, entry))

	fresh := claims.NewSession("user-1", []string{"admin"}, now.Add(123*time.Millisecond), now.Add(time.Hour))
	require.True(t, ids.ValidUUID(fresh.ID))
	fresh.ID = "an-id"
	session, err := k.Sign(fresh)
	require.NoError(t, err)
	require.JSONEq(t, `{"sub":"user-1","roles":["admin"],"jti":"an-id","ms":123,"aud":"session","iat":1800000000,"exp":1800003600}`, payload(t, session))
	require.Equal(t, now.Add(123*time.Millisecond), fresh.Issued())
}

func TestTokensRoundTrip(t *testing.T) {
	t.Parallel()
	k := tokentest.KeySet(t, secret)

	want1 := claims.NewTier1("demo", claims.UserPrefix+"bob", "req-1", 1, 1, now)
	tok, err := k.Sign(want1)
	require.NoError(t, err)
	var got1 claims.Tier1
	require.NoError(t, k.Verify(tok, &got1, claims.AudienceVWR, now.Add(599*time.Second)))
	require.ErrorIs(t, k.Verify(tok, &claims.Tier1{}, claims.AudienceVWR, now.Add(claims.Tier1Life)), token.ErrExpired)
	require.Equal(t, want1, &got1)
	require.Equal(t, now.Add(claims.Tier1Life).Unix(), got1.Expiry().Unix())

	want2 := claims.NewEntry("demo", "bob", "slot", 7, now.Add(20*time.Second), now)
	require.Equal(t, now.Add(20*time.Second).Unix(), want2.Expiry().Unix(), "a token never outlives its slot")
	tok, err = k.Sign(want2)
	require.NoError(t, err)
	var got2 claims.Entry
	require.NoError(t, k.Verify(tok, &got2, claims.AudienceEntry, now))
	require.Equal(t, want2, &got2)
}

var ticket = claims.VwrTicket{
	Round: 1_799_999_999_123_456, RequestID: uuid.MustParse("018f2b5e-7b1a-5c3d-8e4f-0123456789ab"), Position: 4_000_000_001,
}

// The test builds the ticket by hand, so that it fails even if encoder and decoder change together.
func TestVwrTicketLayout(t *testing.T) {
	t.Parallel()
	body := []byte{1, 2, 'k', '7'}
	body = binary.BigEndian.AppendUint64(body, 1_799_999_999_123_456)
	body = append(body, ticket.RequestID[:]...)
	body = binary.BigEndian.AppendUint64(body, 4_000_000_001)
	visitor := sha256.Sum256([]byte("visitor-1"))
	body = append(body, visitor[:16]...)
	body = append(body, make([]byte, 16)...) // nobody has proven it

	derived, err := hkdf.Key(sha256.New, []byte(secret), nil, "urr/vwr-ticket", 32)
	require.NoError(t, err)
	mac := hmac.New(sha256.New, derived)
	mac.Write([]byte("urr/t1/1"))
	mac.Write([]byte{4})
	mac.Write([]byte("demo"))
	mac.Write(body)
	want := base64.RawURLEncoding.EncodeToString(mac.Sum(body))

	macs := tokentest.KeySet(t, "k7:"+secret).Derive(claims.LabelVwrTicket)
	require.Equal(t, want, ticket.Seal(macs, "demo", "visitor-1"))
	got, err := claims.OpenVwrTicket(macs, "demo", "visitor-1", want)
	require.NoError(t, err)
	require.Equal(t, ticket, got)
}

// A proof is of one position of one visitor, and by a key of its own: the key with which gateways
// check tickets makes none.
func TestVwrTicketIsProven(t *testing.T) {
	t.Parallel()
	check := tokentest.KeySet(t, "a:"+secret).Derive(claims.LabelVwrTicket)
	own := tokentest.KeySet(t, "b:"+strings.ToUpper(secret)).Derive(claims.LabelVwrPosition)
	rotated := tokentest.KeySet(t, "c:"+secret+",b:"+strings.ToUpper(secret)).Derive(claims.LabelVwrPosition)
	got, err := claims.OpenVwrTicket(check, "demo", "v1", ticket.Prove(own, "demo", "v1").Seal(check, "demo", "v1"))
	require.NoError(t, err)
	require.True(t, got.Proven(own, "demo", "v1"))
	require.True(t, got.Proven(rotated, "demo", "v1"))
	require.False(t, got.Proven(own, "demo", "v2"), "another visitor")
	require.False(t, got.Proven(own, "dem", "ov1"), "another event")
	require.False(t, got.Proven(token.KeySet{}.Derive("x"), "demo", "v1"), "no key")
	forged := got
	forged.Position = 1
	require.False(t, forged.Proven(own, "demo", "v1"), "another position")
	require.False(t, forged.Prove(check, "demo", "v1").Proven(own, "demo", "v1"), "by the key of the check")
	require.False(t, ticket.Proven(own, "demo", "v1"), "nobody's")
}

func TestNoFlippedBitVerifies(t *testing.T) {
	t.Parallel()
	k := tokentest.KeySet(t, "a:"+secret)
	vwr, anon := k.Derive(claims.LabelVwrTicket), k.Derive(claims.LabelAnon)
	sealedTicket, sealedAnon := ticket.Seal(vwr, "demo", "v1"), claims.NewAnon(now).Seal(anon)
	flip := func(s string, i int) string {
		b := []byte(s)
		b[i/8] ^= 1 << (i % 8)
		return string(b)
	}
	for i := range len(sealedTicket) * 8 {
		_, err := claims.OpenVwrTicket(vwr, "demo", "v1", flip(sealedTicket, i))
		require.ErrorIs(t, err, claims.ErrForged, "bit %d", i)
	}
	for i := range len(sealedAnon) * 8 {
		_, err := claims.OpenAnon(anon, flip(sealedAnon, i))
		require.ErrorIs(t, err, claims.ErrForged, "bit %d", i)
	}
}

func TestAnon(t *testing.T) {
	t.Parallel()
	macs := tokentest.KeySet(t, secret).Derive(claims.LabelAnon)
	a, b := claims.NewAnon(now), claims.NewAnon(now)
	require.NotEqual(t, a.ID, b.ID)
	a.Counted, a.Owes, a.Former = a.Counted.Add(time.Hour), 16, b.ID
	got, err := claims.OpenAnon(macs, a.Seal(macs))
	require.NoError(t, err)
	require.Equal(t, a, got)
	require.Equal(t, a.ID.String(), got.String())
	require.Empty(t, a.Seal(token.KeySet{}.Derive("x")))
}

func FuzzOpenVwrTicket(f *testing.F) {
	macs := tokentest.KeySet(f, "a:"+secret).Derive(claims.LabelVwrTicket)
	good := ticket.Seal(macs, "demo", "v1")
	f.Add(good)
	f.Add(good[1:])
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := claims.OpenVwrTicket(macs, "demo", "v1", s)
		require.Equal(t, s == good, err == nil)
		if err == nil {
			require.Equal(t, s, got.Seal(macs, "demo", "v1"))
		}
	})
}

func BenchmarkOpenVwrTicket(b *testing.B) {
	macs := tokentest.KeySet(b, "a:"+secret).Derive(claims.LabelVwrTicket)
	s := ticket.Seal(macs, "demo", "018f2b5e-7b1a-7c3d-8e4f-0123456789ab")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := claims.OpenVwrTicket(macs, "demo", "018f2b5e-7b1a-7c3d-8e4f-0123456789ab", s); err != nil {
			b.Fatal(err)
		}
	}
}

func TestEntryLastsAsLongAsItsSlot(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	tests := map[string]struct {
		end, want time.Time
	}{
		"a slot that ends within a second": {now.Add(20*time.Second + 300*time.Millisecond), now.Add(20*time.Second + 300*time.Millisecond)},
		"a slot that ends on a second":     {now.Add(20 * time.Second), now.Add(20 * time.Second)},
		"a longer slot":                    {now.Add(10 * time.Minute), now.Add(claims.EntryLife)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entry := claims.NewEntry("demo", "bob", "slot", 7, tt.end, now)
			require.True(t, tt.want.Equal(entry.Expiry()), "ends at %s", entry.Expiry())
			require.GreaterOrEqual(t, entry.ExpiresAt, tt.want.Unix(), "the JWT's exp does not come first")
		})
	}
}
