package pass_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/config"
	"urr.guru/pkg/token"
	"urr.guru/pkg/token/tokentest"
	"urr.guru/services/vwr/internal/pass"
	"urr.guru/services/vwr/internal/room"
)

const (
	keyA = "0123456789abcdef0123456789abcdef"
	keyB = "fedcba9876543210fedcba9876543210"

	keyTicket = "the-secret-of-tickets-in-gateways"
)

func open(t *testing.T, secret config.Secret) *pass.Passes {
	t.Helper()
	p, err := pass.New(secret, keyTicket)
	require.NoError(t, err)
	return p
}

func record(p *pass.Passes) room.Record {
	return room.Record{
		EventID: "demo", Round: 1_700_000_000_000_001, RequestID: p.RequestIDs("demo", 1_700_000_000_000_001, "visitor")[0],
		Position: 4711, Visitor: "visitor",
	}
}

// A ticket is valid only for its event and visitor. pkg/claims tests other invalid tickets.
func TestTicketIsBoundToEventAndVisitor(t *testing.T) {
	t.Parallel()
	p := open(t, keyA)
	want := record(p)
	ticket := p.SealTicket(want)
	got, ok := p.OpenTicket("demo", "visitor", ticket)
	require.True(t, ok)
	require.Equal(t, want, got)
	_, ok = p.OpenTicket("demo2", "visitor", ticket)
	require.False(t, ok, "another event")
	_, ok = p.OpenTicket("demo", "visitor2", ticket)
	require.False(t, ok, "another visitor")
}

// A gateway, which has the secret of tickets, cannot give its visitor a better position.
func TestTheSecretOfTicketsMakesNoPositions(t *testing.T) {
	t.Parallel()
	p := open(t, keyA)
	rec := record(p)
	tickets := tokentest.KeySet(t, keyTicket).Derive(claims.LabelVwrTicket)
	genuine, err := claims.OpenVwrTicket(tickets, "demo", "visitor", p.SealTicket(rec))
	require.NoError(t, err, "it can check tickets")
	_, ok := p.OpenTicket("demo", "visitor", genuine.Seal(tickets, "demo", "visitor"))
	require.True(t, ok)
	genuine.Position = 1
	_, ok = p.OpenTicket("demo", "visitor", genuine.Seal(tickets, "demo", "visitor"))
	require.False(t, ok, "another position")
	genuine.Position = rec.Position
	_, ok = p.OpenTicket("demo", "visitor2", genuine.Seal(tickets, "demo", "visitor2"))
	require.False(t, ok, "another visitor")
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	p := open(t, keyA)
	base := p.RequestIDs("demo", 1, "visitor")[0]
	require.Equal(t, base, p.RequestIDs("demo", 1, "visitor")[0], "stable")
	require.Equal(t, uuid.Version(8), base.Version())
	require.Equal(t, uuid.RFC4122, base.Variant())
	for name, id := range map[string]uuid.UUID{
		"event": p.RequestIDs("demo2", 1, "visitor")[0], "round": p.RequestIDs("demo", 2, "visitor")[0],
		"visitor": p.RequestIDs("demo", 1, "visitor2")[0], "key": open(t, keyB).RequestIDs("demo", 1, "visitor")[0],
	} {
		require.NotEqual(t, base, id, "another %s", name)
	}
}

// During a key rotation, ids and tickets of the old secret stay valid.
func TestKeyRotation(t *testing.T) {
	t.Parallel()
	before, after := open(t, "a:"+keyA), open(t, "b:"+keyB+",a:"+keyA)
	rec := record(before)
	ids := after.RequestIDs(rec.EventID, rec.Round, rec.Visitor)
	require.Len(t, ids, 2)
	require.Equal(t, rec.RequestID, ids[1])
	require.NotEqual(t, rec.RequestID, ids[0])
	_, ok := after.OpenTicket("demo", "visitor", before.SealTicket(rec))
	require.True(t, ok, "a ticket of the old secret")
}

func TestToken(t *testing.T) {
	t.Parallel()
	p := open(t, keyA)
	rec := record(p)
	now := time.Unix(1_800_000_000, 0)
	signed, ends, err := p.SignToken(rec, now)
	require.NoError(t, err)
	require.True(t, ends.Equal(now.Add(600*time.Second)), ends)
	keys, err := token.ParseKeySet(keyA)
	require.NoError(t, err)
	var c claims.Tier1
	require.NoError(t, keys.Verify(signed, &c, claims.AudienceVWR, now))
	require.Equal(t, claims.NewTier1("demo", "visitor", rec.RequestID.String(), int64(rec.Round), 4711, now), &c)
}

func TestShortSecretIsRejected(t *testing.T) {
	t.Parallel()
	_, err := pass.New("short", keyTicket)
	require.ErrorContains(t, err, "VWR_TOKEN_SECRET")
	_, err = pass.New(keyA, "short")
	require.ErrorContains(t, err, "VWR_TICKET_SECRET")
}

func TestRekey(t *testing.T) {
	t.Parallel()
	p := open(t, "a:"+keyA)
	rec := record(p)
	ticket := p.SealTicket(rec)
	require.NoError(t, p.Rekey("b:"+keyB+",a:"+keyA, keyTicket))
	require.Equal(t, rec.RequestID, p.RequestIDs(rec.EventID, rec.Round, rec.Visitor)[1])
	_, ok := p.OpenTicket("demo", "visitor", ticket)
	require.True(t, ok)
	_, ok = open(t, "b:"+keyB).OpenTicket("demo", "visitor", p.SealTicket(rec))
	require.True(t, ok, "the first of the new set signs")
	require.ErrorContains(t, p.Rekey("short", keyTicket), "VWR_TOKEN_SECRET")
	_, ok = p.OpenTicket("demo", "visitor", ticket)
	require.True(t, ok, "what is refused changes nothing")
}
