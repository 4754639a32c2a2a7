package lobby

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/token"
	"urr.guru/services/vwr/internal/room"
)

// labelRequest is the label with which keys for the ids of entries are derived from DRAW_SECRET.
const labelRequest = "urr/lobby-request"

// Keys are the secret keys for lobbies and their shuffles. With the zero value no lobby can open.
type Keys struct {
	fairdraw.Keys

	receipts token.SigningKeys
	requests token.MACSet
}

// ParseKeys parses the three secrets. If none is set, it returns no keys and no error.
func ParseKeys(c fairdraw.KeyConfig, r fairdraw.ReceiptConfig) (Keys, error) {
	if c.DrawSecret == "" && c.DrawStatementKeys == "" && r.DrawReceiptKeys == "" {
		return Keys{}, nil
	}
	keys, err := c.Keys()
	if err != nil {
		return Keys{}, err
	}
	receipts, err := r.Keys()
	if err != nil {
		return Keys{}, err
	}
	set, err := token.ParseKeySet(c.DrawSecret)
	return Keys{Keys: keys, receipts: receipts, requests: set.Derive(labelRequest)}, err
}

// canOpenLobbies reports whether new lobbies can open.
func (k Keys) canOpenLobbies() bool { return k.Statements.Current() != "" }

// checkTerms returns an error if a key that the shuffle needs is missing.
func (k Keys) checkTerms(t *terms) error {
	if err := k.CheckTerms(&t.commitment); err != nil {
		return err
	}
	if _, ok := k.receipts.KidOf(t.commitment.ReceiptKey[:]); !ok {
		return errors.New("the commitment's key of receipts is not in the set")
	}
	if _, ok := k.Seed(&t.commitment, t.nonce); !ok {
		return fmt.Errorf("the seed's key %q is not the same as when the lobby was opened", t.commitment.SeedKID)
	}
	return nil
}

// requestID derives the id of a user's entry with the key that the commitment requires. So a user
// has one entry, whichever key a replica signs with. Only who has the key can compute an id.
func (k Keys) requestID(c *fairdraw.Commitment, round room.Round, user string) (uuid.UUID, bool) {
	var at [8]byte
	binary.BigEndian.PutUint64(at[:], uint64(round)) //nolint:gosec // a time after 1970
	// The event id is 1–64 bytes, so one byte has its length. The user needs no length: it comes last.
	sum, ok := k.requests.Sum(c.SeedKID, []byte{byte(len(c.EventID))}, []byte(c.EventID), at[:], []byte(user))
	if !ok {
		return uuid.UUID{}, false
	}
	id := uuid.UUID(sum[:16])
	id[6] = id[6]&0x0f | 0x80 // version 8: custom (RFC 9562 §5.8)
	id[8] = id[8]&0x3f | 0x80
	return id, true
}
