package lobby

import (
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"

	"urr.guru/pkg/config"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/token"
	"urr.guru/services/vwr/internal/room"
)

// labelRequest is the derivation label, from DRAW_SECRET, of the keys for the ids of entries.
const labelRequest = "urr/lobby-request"

// Keys are the operator's keys of shuffles. The zero value has none: then no lobby can open.
type Keys struct {
	seeds    token.MACSet
	requests token.MACSet
	signing  token.SigningKeys
}

// ParseKeys reads DRAW_SECRET and DRAW_SIGNING_KEYS. Without both there are no keys.
func ParseKeys(secret, signing config.Secret) (Keys, error) {
	if secret == "" && signing == "" {
		return Keys{}, nil
	}
	set, err := token.ParseKeySet(secret)
	if err != nil {
		return Keys{}, config.Invalid("DRAW_SECRET", secret, err.Error())
	}
	k := Keys{seeds: set.Derive(fairdraw.LabelSeed), requests: set.Derive(labelRequest)}
	if k.signing, err = token.ParseSigningKeys(signing); err != nil {
		return Keys{}, config.Invalid("DRAW_SIGNING_KEYS", signing, err.Error())
	}
	return k, nil
}

// present reports whether new lobbies can open.
func (k Keys) present() bool { return k.signing.Current() != "" }

// missing explains why a shuffle cannot go on; nil when the keys that it names are in the set.
func (k Keys) missing(c *fairdraw.Commitment) error {
	if _, ok := k.signing.KidOf(c.Public()); !ok {
		return fairdraw.ErrNoKey
	}
	if _, ok := k.seeds.Sum(c.SeedKID); !ok {
		return fmt.Errorf("the seed's key %q is not in DRAW_SECRET", c.SeedKID)
	}
	return nil
}

// requestID is the id of a user's entry: by the key that the commitment names, so that a user has
// one entry at every replica, whichever key signs there. Nobody else can compute it, or choose it.
func (k Keys) requestID(c *fairdraw.Commitment, round room.Round, user string) (uuid.UUID, bool) {
	var at [8]byte
	binary.BigEndian.PutUint64(at[:], uint64(round)) //nolint:gosec // a time after 1970
	// The event id is 1–64 bytes, so one byte holds its length; the user ends the message.
	sum, ok := k.requests.Sum(c.SeedKID, []byte{byte(len(c.EventID))}, []byte(c.EventID), at[:], []byte(user))
	if !ok {
		return uuid.UUID{}, false
	}
	id := uuid.UUID(sum[:16])
	id[6] = id[6]&0x0f | 0x80 // version 8: custom (RFC 9562 §5.8)
	id[8] = id[8]&0x3f | 0x80
	return id, true
}
