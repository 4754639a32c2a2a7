// Package seal signs entry tokens, and queue tickets, which restore a place after a data loss. The
// keys of tickets are in no other service, since nothing else verifies them; those of entry tokens
// are in the gateway too.
package seal

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/config"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/token"
	"urr.guru/services/queue/internal/line"
)

var _ line.Sealer = (*Sealer)(nil)

// Sealer signs entry tokens, and signs and verifies queue tickets. It is safe for concurrent use.
type Sealer struct {
	current atomic.Pointer[signingKeys]
}

// signingKeys are the keys for entry tokens and for queue tickets.
type signingKeys struct {
	tokens  token.KeySet
	tickets token.MACSet
}

// New makes a Sealer with the keys of QUEUE_ENTRY_TOKEN_SECRET and QUEUE_TICKET_SECRET, each
// `kid:secret[,kid:secret…]`.
func New(entry, ticket config.Secret) (*Sealer, error) {
	s := new(Sealer)
	return s, s.Rekey(entry, ticket)
}

// Rekey replaces both secrets. After an error, the old keys are used.
func (s *Sealer) Rekey(entry, ticket config.Secret) error {
	tokens, err := token.ParseKeySet(entry)
	if err != nil {
		return fmt.Errorf("QUEUE_ENTRY_TOKEN_SECRET: %w", err)
	}
	tickets, err := token.ParseKeySet(ticket)
	if err != nil {
		return fmt.Errorf("QUEUE_TICKET_SECRET: %w", err)
	}
	s.current.Store(&signingKeys{tokens: tokens, tickets: tickets.Derive(claims.LabelQueueTicket)})
	return nil
}

// SignEntryToken signs the token of a slot that ends at end (epoch ms). The token is valid until
// then, but at most for claims.EntryLife from now.
func (s *Sealer) SignEntryToken(eventID, userID, slotID string, epoch, end int64, now time.Time) (string, error) {
	return s.current.Load().tokens.Sign(claims.NewEntry(eventID, userID, slotID, epoch, time.UnixMilli(end), now))
}

const (
	version  = 1
	maxKID   = 32
	userLen  = 16
	bodyLen  = userLen + 3*8
	maxLen   = 2 + maxKID + bodyLen + token.MACSize
	scoreAt  = userLen
	epochAt  = userLen + 8
	issuedAt = userLen + 16
)

// ticketDomain begins what each MAC covers, so that no other MAC with the same key can equal it.
var ticketDomain = []byte("urr/q/1") //nolint:gochecknoglobals // a constant

// encoding refuses tickets in which unused bits of the last character were changed.
var encoding = base64.RawURLEncoding.Strict() //nolint:gochecknoglobals // a constant

// SealTicket makes the signed queue ticket of a place. The ticket is, big-endian and in base64url,
//
//	0x01 | kid length | kid | SHA-256(user)[:16] | score u64 | epoch u64 | issued at u64 | HMAC-SHA256 32
//
// where the MAC covers "urr/q/1", the event id's length (one byte), the event id, and the fields
// before the MAC.
func (s *Sealer) SealTicket(eventID, userID string, t line.Ticket) string {
	tickets := s.current.Load().tickets
	kid := tickets.Current()
	buf := make([]byte, 0, maxLen)
	buf = append(buf, version, byte(len(kid))) //nolint:gosec // a kid has at most 32 bytes
	buf = append(buf, kid...)
	buf = append(buf, userHash(userID)...)
	for _, v := range []int64{t.Score, t.Epoch, t.IssuedAt} {
		buf = binary.BigEndian.AppendUint64(buf, uint64(v)) //nolint:gosec // times after 1970
	}
	sum, ok := tickets.Sum(kid, ticketDomain, []byte{byte(len(eventID))}, []byte(eventID), buf) //nolint:gosec // at most 64
	if !ok {
		return ""
	}
	return encoding.EncodeToString(append(buf, sum[:]...))
}

// OpenTicket verifies a queue ticket and returns its content. It returns false if the ticket is for
// another event or user, was changed, is malformed, or was signed with an unknown key.
func (s *Sealer) OpenTicket(eventID, userID, sealed string) (line.Ticket, bool) {
	if encoding.DecodedLen(len(sealed)) > maxLen || len(eventID) > ids.MaxEvent {
		return line.Ticket{}, false
	}
	buf, err := encoding.DecodeString(sealed)
	// The decoder skips line breaks, so a ticket with line breaks is longer than its bytes require.
	if err != nil || len(buf) < 2 || buf[0] != version || len(sealed) != encoding.EncodedLen(len(buf)) {
		return line.Ticket{}, false
	}
	kid := int(buf[1])
	if len(buf) != 2+kid+bodyLen+token.MACSize {
		return line.Ticket{}, false
	}
	signed, mac := buf[:2+kid+bodyLen], buf[2+kid+bodyLen:]
	if !s.current.Load().tickets.Verify(string(buf[2:2+kid]), mac, ticketDomain, []byte{byte(len(eventID))}, []byte(eventID), signed) {
		return line.Ticket{}, false
	}
	body := signed[2+kid:]
	if subtle.ConstantTimeCompare(userHash(userID), body[:userLen]) != 1 {
		return line.Ticket{}, false
	}
	number := func(at int) int64 { return int64(binary.BigEndian.Uint64(body[at:])) } //nolint:gosec // as sealed
	return line.Ticket{Score: number(scoreAt), Epoch: number(epochAt), IssuedAt: number(issuedAt)}, true
}

func userHash(userID string) []byte {
	h := sha256.Sum256([]byte(userID))
	return h[:userLen]
}
