package event

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"
)

// LineSettings are the durable settings of a waiting line. Any event id may have them, also one
// that is not on sale here.
type LineSettings struct {
	EventID string
	// Threshold is how many may be inside at once, SlotSeconds how long; nil: the queue's default.
	Threshold   *int64
	SlotSeconds *int64
	// ClosesAt is the end of the sale, when all slots end; nil when the event is not on sale here.
	ClosesAt     *time.Time
	Paused       bool
	BlockedUsers []string
	// Closed: the sale has ended, by its closing time or because the event is cancelled.
	Closed bool
	// NeverOpened: nobody has opened the line yet.
	NeverOpened bool
}

// MaxBlockedUsers is how many users may be blocked from a line. Every replica of queue reads them
// all whenever one of the line's settings changes.
const MaxBlockedUsers = 10_000

// LineChange changes those settings of a line that are not nil. BlockUser, unless empty, joins the
// blocked users (ErrTooManyBlocked), or UnblockUser leaves them.
type LineChange struct {
	Threshold              *int64
	Paused                 *bool
	BlockUser, UnblockUser string
}

// Settings are all that operators have put for an event, as it is in force.
type Settings struct {
	Event Event
	Line  LineSettings
}

// ETag is a hash of what a PUT of the event may change, and of nothing else.
func (s *Settings) ETag() string {
	e := s.Event
	// Neither is put: the state has acts of its own, and the version grows with it.
	e.State, e.Version = "", 0
	h := sha256.New()
	_ = json.NewEncoder(h).Encode(struct { // a hash never fails, and everything in here can be written
		Event                  Event
		Threshold, SlotSeconds *int64
	}{e, s.Line.Threshold, s.Line.SlotSeconds})
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Match is the If-Match condition of a client's PUT: the stored settings that it may replace
// (RFC 9110 §13.1.1).
type Match struct {
	// Any is true for "*": any stored settings match.
	Any   bool
	ETags []string
}

// Allows reports whether stored settings with this ETag meet the condition.
func (m *Match) Allows(etag string) bool { return m.Any || slices.Contains(m.ETags, etag) }
