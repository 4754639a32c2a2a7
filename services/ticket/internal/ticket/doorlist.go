package ticket

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/google/uuid"
)

// DoorList is a page of the list of valid tickets by which a door admits without a network. A door
// verifies a page with the public keys alone. It has the whole list once it has the pages 0 to the
// last one, all of the same epoch and time.
//
// Layout, big-endian, as base64url without padding:
//
//	0x01 | kid length | kid | event length | event | epoch u32 | time i64 ms since 1970 | page u32 | last 0 or 1 |
//	tickets u32 | (ticket id 16 | serial u32) … | Ed25519 signature 64
//
// The signature covers "urr/door-list/1" and all before it. Lengths of strings are one byte.
type DoorList struct {
	EventID string
	// Epoch is the event's epoch, which a postponement increments. Lists of an earlier one are void.
	Epoch int
	// Time divides tickets by the time in their id, a UUIDv7: earlier tickets are admitted only if
	// they are on the list. Later ones may be missing on it, and are admitted by their code.
	Time time.Time
	Page int
	// Last says that no page follows.
	Last    bool
	Tickets []DoorTicket
}

// DoorTicket is a valid ticket, and the serial of its only valid code.
type DoorTicket struct {
	ID     uuid.UUID
	Serial int
}

const (
	listVersion = 1
	listDomain  = "urr/door-list/1"
)

// SignDoorList encodes and signs a page.
func (k Keys) SignDoorList(l *DoorList) string {
	kid := k.set.Current()
	b := make([]byte, 0, 192+20*len(l.Tickets))
	b = append(b, listVersion)
	b = appendString(b, kid)
	b = appendString(b, l.EventID)
	b = binary.BigEndian.AppendUint32(b, uint32(l.Epoch))            //nolint:gosec // counts from 1
	b = binary.BigEndian.AppendUint64(b, uint64(l.Time.UnixMilli())) //nolint:gosec // after 1970
	b = binary.BigEndian.AppendUint32(b, uint32(l.Page))             //nolint:gosec // counts from 0
	last := byte(0)
	if l.Last {
		last = 1
	}
	b = append(b, last)
	b = binary.BigEndian.AppendUint32(b, uint32(len(l.Tickets))) //nolint:gosec // ≤ a page
	for _, t := range l.Tickets {
		b = append(b, t.ID[:]...)
		b = binary.BigEndian.AppendUint32(b, uint32(t.Serial)) //nolint:gosec // counts from 1
	}
	b = append(b, k.set.Sign(kid, append([]byte(listDomain), b...))...)
	return base64.RawURLEncoding.EncodeToString(b)
}

// VerifyDoorList decodes a page as a door does. ErrCodeInvalid if none of the keys has signed it.
func (k Keys) VerifyDoorList(page string) (*DoorList, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(page)
	if err != nil || len(b) < ed25519.SignatureSize {
		return nil, ErrCodeInvalid
	}
	body, signature := b[:len(b)-ed25519.SignatureSize], b[len(b)-ed25519.SignatureSize:]
	r := codeReader{b: body}
	version, kid := r.readBytes(1), string(r.readString())
	l := &DoorList{EventID: string(r.readString()), Epoch: r.readInt()}
	l.Time = time.UnixMilli(int64(binary.BigEndian.Uint64(r.readBytes(8)))).UTC() //nolint:gosec // signed by ourselves
	l.Page, l.Last = r.readInt(), r.readBytes(1)[0] == 1
	for range r.readInt() {
		if r.short {
			break
		}
		var t DoorTicket
		copy(t.ID[:], r.readBytes(len(t.ID)))
		t.Serial = r.readInt()
		l.Tickets = append(l.Tickets, t)
	}
	if r.short || len(r.b) > 0 || version[0] != listVersion || !k.set.Verify(kid, append([]byte(listDomain), body...), signature) {
		return nil, ErrCodeInvalid
	}
	return l, nil
}

func (r *codeReader) readInt() int { return int(binary.BigEndian.Uint32(r.readBytes(4))) }
