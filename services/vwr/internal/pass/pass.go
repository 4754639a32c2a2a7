// Package pass derives the ids of visitors' records, and signs and verifies tickets and tier-1
// tokens. Gateways check tickets with VWR_TICKET_SECRET, which makes no position: what vwr itself
// believes is signed with VWR_TOKEN_SECRET.
package pass

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/config"
	"urr.guru/pkg/token"
	"urr.guru/services/vwr/internal/room"
)

// labelRequest is the label with which the keys for request ids are derived.
const labelRequest = "urr/vwr-request"

var _ room.PassSigner = (*Passes)(nil)

// Passes makes request ids, tickets and tokens, and verifies them. It is safe for concurrent use.
type Passes struct {
	current atomic.Pointer[keys]
}

// keys are the keys for tokens, positions and request ids, derived from VWR_TOKEN_SECRET, and those
// for tickets.
type keys struct {
	tokens    token.KeySet
	positions token.MACSet
	requests  token.MACSet
	tickets   token.MACSet
}

// New derives the keys from VWR_TOKEN_SECRET and VWR_TICKET_SECRET, each `kid:secret[,kid:secret…]`.
func New(secret, ticket config.Secret) (*Passes, error) {
	p := new(Passes)
	return p, p.Rekey(secret, ticket)
}

// Rekey replaces both secrets. After an error, the old ones are used.
func (p *Passes) Rekey(secret, ticket config.Secret) error {
	set, err := token.ParseKeySet(secret)
	if err != nil {
		return fmt.Errorf("VWR_TOKEN_SECRET: %w", err)
	}
	tickets, err := token.ParseKeySet(ticket)
	if err != nil {
		return fmt.Errorf("VWR_TICKET_SECRET: %w", err)
	}
	p.current.Store(&keys{
		tokens: set, positions: set.Derive(claims.LabelVwrPosition), requests: set.Derive(labelRequest),
		tickets: tickets.Derive(claims.LabelVwrTicket),
	})
	return nil
}

// RequestIDs returns the possible ids of a visitor's record in a round, one per secret, so that no
// new secret gives a second position. An id does not reveal its visitor and cannot be guessed.
func (p *Passes) RequestIDs(eventID string, round room.Round, visitor string) []uuid.UUID {
	requests := p.current.Load().requests
	kids := requests.Kids()
	ids := make([]uuid.UUID, 0, len(kids))
	var roundBytes [8]byte
	binary.BigEndian.PutUint64(roundBytes[:], uint64(round)) //nolint:gosec // a time after 1970
	for _, kid := range kids {
		// The event id is 1–64 bytes, so one byte has its length. The visitor comes last and needs none.
		sum, ok := requests.Sum(kid, []byte{byte(len(eventID))}, []byte(eventID), roundBytes[:], []byte(visitor))
		if !ok {
			continue
		}
		id := uuid.UUID(sum[:16])
		id[6] = id[6]&0x0f | 0x80 // version 8: custom (RFC 9562 §5.8)
		id[8] = id[8]&0x3f | 0x80
		ids = append(ids, id)
	}
	return ids
}

func (p *Passes) SealTicket(r room.Record) string {
	t, k := claims.VwrTicket{Round: int64(r.Round), RequestID: r.RequestID, Position: r.Position}, p.current.Load()
	return t.Prove(k.positions, r.EventID, r.Visitor).Seal(k.tickets, r.EventID, r.Visitor)
}

func (p *Passes) OpenTicket(eventID, visitor, ticket string) (room.Record, bool) {
	k := p.current.Load()
	t, err := claims.OpenVwrTicket(k.tickets, eventID, visitor, ticket)
	if err != nil || !t.Proven(k.positions, eventID, visitor) {
		return room.Record{}, false
	}
	return room.Record{
		EventID: eventID, Round: room.Round(t.Round), RequestID: t.RequestID, Position: t.Position, Visitor: visitor,
	}, true
}

// SignToken signs the tier-1 token of a record. It is valid for ten minutes.
func (p *Passes) SignToken(r room.Record, now time.Time) (string, time.Time, error) {
	c := claims.NewTier1(r.EventID, r.Visitor, r.RequestID.String(), int64(r.Round), r.Position, now)
	signed, err := p.current.Load().tokens.Sign(c)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("tier-1 token: %w", err)
	}
	return signed, c.Expiry(), nil
}
