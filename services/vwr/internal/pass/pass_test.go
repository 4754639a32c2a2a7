package pass_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/config"
	"urr.guru/pkg/token"
	"urr.guru/services/vwr/internal/pass"
	"urr.guru/services/vwr/internal/room"
)

const (
	keyA = "0123456789abcdef0123456789abcdef"
	keyB = "fedcba9876543210fedcba9876543210"
)

func open(t *testing.T, secret config.Secret) *pass.Passes {
	t.Helper()
	p, err := pass.New(secret)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func record(p *pass.Passes) room.Record {
	return room.Record{
		EventID: "demo", Round: 1_700_000_000_000_001, RequestID: p.RequestIDs("demo", 1_700_000_000_000_001, "visitor")[0],
		Position: 4711, Visitor: "visitor",
	}
}

func TestTicketRoundTrip(t *testing.T) {
	t.Parallel()
	p := open(t, keyA)
	want := record(p)
	got, ok := p.Open("demo", "visitor", p.Seal(want))
	if !ok || got != want {
		t.Errorf("got %+v, %v, want %+v", got, ok, want)
	}
}

// No bit of a ticket can be changed, and it is good for its event, its visitor and its key only.
func TestForgedTickets(t *testing.T) {
	t.Parallel()
	p := open(t, keyA)
	ticket := p.Seal(record(p))
	raw, err := base64.RawURLEncoding.DecodeString(ticket)
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(raw) * 8 {
		forged := append([]byte(nil), raw...)
		forged[i/8] ^= 1 << (i % 8)
		if _, ok := p.Open("demo", "visitor", base64.RawURLEncoding.EncodeToString(forged)); ok {
			t.Errorf("bit %d can be flipped", i)
		}
	}
	for name, try := range map[string]func() (room.Record, bool){
		"another event":   func() (room.Record, bool) { return p.Open("demo2", "visitor", ticket) },
		"another visitor": func() (room.Record, bool) { return p.Open("demo", "visitor2", ticket) },
		"another key":     func() (room.Record, bool) { return open(t, keyB).Open("demo", "visitor", ticket) },
		"cut off":         func() (room.Record, bool) { return p.Open("demo", "visitor", ticket[:len(ticket)-1]) },
		"grown":           func() (room.Record, bool) { return p.Open("demo", "visitor", ticket+"A") },
		"very long":       func() (room.Record, bool) { return p.Open("demo", "visitor", strings.Repeat(ticket, 99)) },
		"empty":           func() (room.Record, bool) { return p.Open("demo", "visitor", "") },
	} {
		if got, ok := try(); ok {
			t.Errorf("%s: opened as %+v", name, got)
		}
	}
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	p := open(t, keyA)
	base := p.RequestIDs("demo", 1, "visitor")[0]
	if again := p.RequestIDs("demo", 1, "visitor")[0]; again != base || base.Version() != 8 || base.Variant() != uuid.RFC4122 {
		t.Errorf("not stable or not a version 8 UUID: %s, %s", base, again)
	}
	for name, id := range map[string]uuid.UUID{
		"event": p.RequestIDs("demo2", 1, "visitor")[0], "round": p.RequestIDs("demo", 2, "visitor")[0],
		"visitor": p.RequestIDs("demo", 1, "visitor2")[0], "key": open(t, keyB).RequestIDs("demo", 1, "visitor")[0],
	} {
		if id == base {
			t.Errorf("another %s has the same id", name)
		}
	}
}

// While secrets are being replaced, what was made with the old one is still found and opened.
func TestRotation(t *testing.T) {
	t.Parallel()
	before, after := open(t, "a:"+keyA), open(t, "b:"+keyB+",a:"+keyA)
	rec := record(before)
	ids := after.RequestIDs(rec.EventID, rec.Round, rec.Visitor)
	if len(ids) != 2 || ids[1] != rec.RequestID || ids[0] == rec.RequestID {
		t.Errorf("ids %v, the old one is %v", ids, rec.RequestID)
	}
	if _, ok := after.Open("demo", "visitor", before.Seal(rec)); !ok {
		t.Error("a ticket of the old secret is refused")
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	p := open(t, keyA)
	rec := record(p)
	now := time.Unix(1_800_000_000, 0)
	signed, ends, err := p.Token(rec, now)
	if err != nil || !ends.Equal(now.Add(600*time.Second)) {
		t.Fatalf("ends %v, %v", ends, err)
	}
	keys, err := token.ParseKeySet(keyA)
	if err != nil {
		t.Fatal(err)
	}
	var c claims.Tier1
	if err := keys.Verify(signed, &c, claims.AudienceVWR, now); err != nil {
		t.Fatal(err)
	}
	if c.EventID != "demo" || c.UID != "visitor" || c.Tier != 1 || c.Position != 4711 || c.Round != int64(rec.Round) ||
		c.RequestID != rec.RequestID.String() {
		t.Errorf("claims %+v", c)
	}
	if err := keys.Verify(signed, &c, claims.AudienceVWR, ends); err == nil {
		t.Error("good after its end")
	}
	if err := keys.Verify(signed, &c, claims.AudienceEntry, now); err == nil {
		t.Error("good for another audience")
	}
}

func TestSecretsThatAreTooShort(t *testing.T) {
	t.Parallel()
	for _, secret := range []config.Secret{"", "short", "a:short", "a:" + keyA + ",b:short"} {
		if _, err := pass.New(secret); err == nil {
			t.Errorf("%d bytes are taken", len(secret))
		} else if strings.Contains(err.Error(), "short") && !strings.Contains(err.Error(), "bytes") {
			t.Errorf("the error tells the secret: %v", err)
		}
	}
}
