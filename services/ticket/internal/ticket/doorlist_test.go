package ticket_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/token/tokentest"
	"urr.guru/services/ticket/internal/ticket"
)

var samplePage = ticket.DoorList{
	EventID: "e-1", Epoch: 2, Time: time.UnixMilli(1_900_000_000_123).UTC(), Page: 3, Last: true, Tickets: []ticket.DoorTicket{
		{ID: uuid.MustParse("0197f2c0-0000-7000-8000-000000000001"), Serial: 1}, {ID: uuid.MustParse("0197f2c0-0000-7000-8000-000000000002"), Serial: 7},
	},
}

// A door needs only the public key and the layout of pages to verify a page.
func TestDoorListVerifiesOffline(t *testing.T) {
	t.Parallel()
	k := keys(t, "kid:"+tokentest.Seed('x'))
	signed := k.SignDoorList(&samplePage)
	b, err := base64.RawURLEncoding.DecodeString(signed)
	require.NoError(t, err)
	want := append([]byte{1, 3}, "kid"...)
	want = append(append(want, 3), "e-1"...)
	want = append(want, 0, 0, 0, 2)
	want = append(want, 0, 0, 1, 0xba, 0x60, 0xd3, 0x38, 0x7b)
	want = append(want, 0, 0, 0, 3, 1, 0, 0, 0, 2)
	want = append(append(want, samplePage.Tickets[0].ID[:]...), 0, 0, 0, 1)
	want = append(append(want, samplePage.Tickets[1].ID[:]...), 0, 0, 0, 7)
	require.Equal(t, want, b[:len(b)-ed25519.SignatureSize])
	public, err := base64.StdEncoding.DecodeString(k.Public()["kid"])
	require.NoError(t, err)
	require.True(t, ed25519.Verify(public, append([]byte("urr/door-list/1"), want...), b[len(want):]))

	got, err := k.VerifyDoorList(signed)
	require.NoError(t, err)
	require.Equal(t, samplePage, *got)
	_, err = keys(t, "kid:"+tokentest.Seed('y')).VerifyDoorList(signed)
	require.ErrorIs(t, err, ticket.ErrCodeInvalid)
}

func FuzzVerifyDoorList(f *testing.F) {
	k := keys(f, "a:"+tokentest.Seed('x'))
	f.Add(k.SignDoorList(&samplePage))
	f.Add("AQ")
	f.Fuzz(func(t *testing.T, s string) {
		if l, err := k.VerifyDoorList(s); err == nil {
			require.Equal(t, s, k.SignDoorList(l))
		}
	})
}
