package ticket_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	"urr.guru/pkg/token/tokentest"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/ticket"
)

func keys(t testing.TB, s string) ticket.Keys {
	t.Helper()
	k, err := ticket.ParseKeys(config.Secret(s))
	require.NoError(t, err)
	return k
}

var sample = ticket.Code{TicketID: uuid.MustParse("0197f2c0-0000-7000-8000-000000000001"), Serial: 3, EventID: "e-1", Place: "A-1-12"}

func TestCodeRoundTrip(t *testing.T) {
	t.Parallel()
	k := keys(t, "a:"+tokentest.Seed('x'))
	code := k.Sign(sample)
	require.Regexp(t, `^[A-Za-z0-9_-]+$`, code)
	require.Less(t, len(code), 160, "fits a small QR code")
	got, err := k.Verify(code)
	require.NoError(t, err)
	require.Equal(t, sample, got)
	require.Equal(t, code, k.Sign(sample), "the same again")
}

// A door needs only the public key and the layout of codes to verify a code.
func TestCodeVerifiesOffline(t *testing.T) {
	t.Parallel()
	k := keys(t, "kid:"+tokentest.Seed('x'))
	b, err := base64.RawURLEncoding.DecodeString(k.Sign(sample))
	require.NoError(t, err)
	want := append([]byte{1, 3}, "kid"...)
	want = append(want, sample.TicketID[:]...)
	want = append(want, 0, 0, 0, 3)
	want = append(append(want, 3), "e-1"...)
	want = append(append(want, 6), "A-1-12"...)
	require.Equal(t, want, b[:len(b)-ed25519.SignatureSize])
	public, err := base64.StdEncoding.DecodeString(k.Public()["kid"])
	require.NoError(t, err)
	require.True(t, ed25519.Verify(public, append([]byte("urr/ticket/1"), want...), b[len(want):]))
}

func TestKeysRotate(t *testing.T) {
	t.Parallel()
	old, both := keys(t, "a:"+tokentest.Seed('x')), keys(t, "b:"+tokentest.Seed('y')+",a:"+tokentest.Seed('x'))
	got, err := both.Verify(old.Sign(sample))
	require.NoError(t, err)
	require.Equal(t, sample, got)
	_, err = old.Verify(both.Sign(sample))
	require.ErrorIs(t, err, ticket.ErrCodeInvalid)
	require.Len(t, both.Public(), 2)
}

func TestForgedCodesAreRefused(t *testing.T) {
	t.Parallel()
	k := keys(t, "a:"+tokentest.Seed('x'))
	code := k.Sign(sample)
	b, err := base64.RawURLEncoding.DecodeString(code)
	require.NoError(t, err)
	for i := range b {
		for _, bit := range []byte{1, 0x80} {
			forged := append([]byte(nil), b...)
			forged[i] ^= bit
			_, err := k.Verify(base64.RawURLEncoding.EncodeToString(forged))
			require.ErrorIs(t, err, ticket.ErrCodeInvalid, "byte %d", i)
		}
	}
	for n := range b {
		_, err := k.Verify(base64.RawURLEncoding.EncodeToString(b[:n]))
		require.ErrorIs(t, err, ticket.ErrCodeInvalid, "cut to %d", n)
	}
	other := keys(t, "a:"+tokentest.Seed('z'))
	for _, s := range []string{"", "!", code + "A", code + "=", " " + code, strings.Repeat("A", 4000), other.Sign(sample)} {
		_, err := k.Verify(s)
		require.ErrorIs(t, err, ticket.ErrCodeInvalid, s)
	}
}

func FuzzVerify(f *testing.F) {
	k := keys(f, "a:"+tokentest.Seed('x'))
	genuine := k.Sign(sample)
	f.Add(genuine)
	f.Add("AQ")
	f.Fuzz(func(t *testing.T, s string) {
		if c, err := k.Verify(s); err == nil {
			require.Equal(t, s, k.Sign(c))
		}
	})
}

func TestIssue(t *testing.T) {
	t.Parallel()
	general := ticket.Issue(&reservation.Reservation{ID: uuid.New(), EventID: "e", UserID: "u", Section: "G", Quantity: 3, Amount: 165, Currency: "KRW"})
	require.Len(t, general, 3)
	ids := map[uuid.UUID]bool{}
	for _, tk := range general {
		ids[tk.ID] = true
		require.EqualValues(t, 55, tk.Price)
		require.Equal(t, "G", tk.Section)
		require.Nil(t, tk.Seat)
		require.Equal(t, ticket.Valid, tk.Status)
		require.Equal(t, 1, tk.Serial)
	}
	require.Len(t, ids, 3)
	seats := []reservation.Seat{{ID: "A-1-1", Section: "A", Price: 70}, {ID: "B-1-1", Section: "B", Price: 30}}
	assigned := ticket.Issue(&reservation.Reservation{Quantity: 2, Amount: 100, Seats: seats})
	require.Equal(t, seats[0], *assigned[0].Seat)
	require.EqualValues(t, 30, assigned[1].Price)
	require.Equal(t, "B", assigned[1].Section)
}
