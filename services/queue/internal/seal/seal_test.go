package seal_test

import (
	"encoding/base64"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/config"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/token"
	"urr.guru/services/queue/internal/line"
	"urr.guru/services/queue/internal/seal"
)

const (
	first  = "k1:0123456789abcdef0123456789abcdef"
	second = "k2:fedcba9876543210fedcba9876543210"
)

func sealer(t testing.TB, secret config.Secret) *seal.Sealer {
	t.Helper()
	s, err := seal.New(secret, secret)
	require.NoError(t, err)
	return s
}

func TestTicketIsForOneUserAndEvent(t *testing.T) {
	t.Parallel()
	s := sealer(t, first)
	want := line.Ticket{Score: 1_763_700_000_000_001, Epoch: 1_763_600_000_000_002, IssuedAt: 1_763_700_000_003}
	sealed := s.SealTicket("ev", "user", want)
	got, ok := s.OpenTicket("ev", "user", sealed)
	require.True(t, ok)
	require.Equal(t, want, got)
	for name, args := range map[string][3]string{
		"another event": {"e", "user", sealed}, "another user": {"ev", "vuser", sealed}, "nothing": {"ev", "user", ""},
		"no base64": {"ev", "user", "!"}, "a line break": {"ev", "user", sealed[:8] + "\n" + sealed[8:]}, "cut": {"ev", "user", sealed[:len(sealed)-4]},
	} {
		_, ok := s.OpenTicket(args[0], args[1], args[2])
		require.False(t, ok, name)
	}
}

func TestEveryByteOfATicketCounts(t *testing.T) {
	t.Parallel()
	s := sealer(t, first)
	raw, err := base64.RawURLEncoding.DecodeString(s.SealTicket("ev", "user", line.Ticket{Score: 1, Epoch: 2, IssuedAt: 3}))
	require.NoError(t, err)
	for i := range raw {
		forged := append([]byte(nil), raw...)
		forged[i] ^= 1
		_, ok := s.OpenTicket("ev", "user", base64.RawURLEncoding.EncodeToString(forged))
		require.False(t, ok, "byte %d", i)
	}
}

func TestKeysRotate(t *testing.T) {
	t.Parallel()
	sealed := sealer(t, first).SealTicket("ev", "user", line.Ticket{Score: 1})
	_, ok := sealer(t, second+","+first).OpenTicket("ev", "user", sealed)
	require.True(t, ok)
	_, ok = sealer(t, second).OpenTicket("ev", "user", sealed)
	require.False(t, ok)
	_, err := seal.New("short", first)
	require.ErrorContains(t, err, "QUEUE_ENTRY_TOKEN_SECRET")
	_, err = seal.New(first, "short")
	require.ErrorContains(t, err, "QUEUE_TICKET_SECRET")
}

// Who has the secret of entry tokens, as the gateways, can make no queue ticket.
func TestTheSecretOfEntryTokensSignsNoTickets(t *testing.T) {
	t.Parallel()
	s, err := seal.New(first, second)
	require.NoError(t, err)
	_, ok := s.OpenTicket("ev", "user", sealer(t, first).SealTicket("ev", "user", line.Ticket{Score: 1}))
	require.False(t, ok)
}

func TestEntryTokenEndsWithTheSlotOrAfterAMinute(t *testing.T) {
	t.Parallel()
	keys, err := token.ParseKeySet(first)
	require.NoError(t, err)
	now := time.Unix(1_800_000_000, 0)
	for _, c := range []struct{ left, life time.Duration }{{10 * time.Minute, time.Minute}, {20 * time.Second, 20 * time.Second}} {
		end := now.Add(c.left)
		tok, err := sealer(t, first).SignEntryToken("ev", "user", "slot", 7, end.UnixMilli(), now)
		require.NoError(t, err)
		var got claims.Entry
		require.NoError(t, keys.Verify(tok, &got, claims.AudienceEntry, now))
		require.Equal(t, now.Add(c.life), got.Expiry())
		require.Equal(t, []any{"ev", "user", "slot", int64(7), end.UnixMilli()}, []any{got.EventID, got.UserID, got.SlotID, got.Epoch, got.End})
	}
}

func TestKeysAreReplacedInPlace(t *testing.T) {
	t.Parallel()
	s := sealer(t, first)
	sealed := s.SealTicket("ev", "user", line.Ticket{Score: 1})
	require.NoError(t, s.Rekey(second+","+first, second+","+first))
	_, ok := s.OpenTicket("ev", "user", sealed)
	require.True(t, ok)
	_, ok = sealer(t, second).OpenTicket("ev", "user", s.SealTicket("ev", "user", line.Ticket{Score: 1}))
	require.True(t, ok, "the first of the new set signs")
	require.ErrorContains(t, s.Rekey("short", first), "QUEUE_ENTRY_TOKEN_SECRET")
	_, ok = s.OpenTicket("ev", "user", sealed)
	require.True(t, ok, "what is refused changes nothing")
}

// Only signed tickets are valid, and each only for its own user and event.
func FuzzOpenTicket(f *testing.F) {
	s := sealer(f, first)
	place := line.Ticket{Score: 1_763_700_000_000_001, Epoch: 1_763_600_000_000_002, IssuedAt: 1_763_700_000_003}
	good := s.SealTicket("ev", "user", place)
	f.Add("ev", "user", place.Score, place.Epoch, place.IssuedAt, good)
	f.Add("e", "vuser", int64(-1), int64(0), int64(1), good[:8]+"\n"+good[8:])
	f.Add("", "", int64(0), int64(0), int64(0), "AAAA")
	f.Fuzz(func(t *testing.T, event, user string, score, epoch, issued int64, forged string) {
		if got, ok := s.OpenTicket("ev", "user", forged); ok {
			require.Equal(t, good, forged)
			require.Equal(t, place, got)
		}
		if len(event) > ids.MaxEvent {
			_, ok := s.OpenTicket(event, user, forged)
			require.False(t, ok)
			return
		}
		want := line.Ticket{Score: score, Epoch: epoch, IssuedAt: issued}
		sealed := s.SealTicket(event, user, want)
		got, ok := s.OpenTicket(event, user, sealed)
		require.True(t, ok)
		require.Equal(t, want, got)
		_, ok = s.OpenTicket(event+"x", user, sealed)
		require.False(t, ok)
		_, ok = s.OpenTicket(event, user+"x", sealed)
		require.False(t, ok)
	})
}
