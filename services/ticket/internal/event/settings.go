package event

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"slices"
	"time"
)

// LineSettings are the stored settings of a waiting line. EventID may also be the id of a promotion
// or campaign, since these have lines too.
type LineSettings struct {
	EventID string
	// Threshold is the most users who may be in the shop at once. Each has a slot, a permission that
	// lasts SlotSeconds. nil: the default of the queue service.
	Threshold   *int64
	SlotSeconds *int64
	// ClosesAt is the end of the sale, when all slots end; nil if EventID is not an event's.
	ClosesAt     *time.Time
	Paused       bool
	BlockedUsers []string
	// Closed says that the sale has ended, by its closing time or because the refunds of the cancelled
	// event have begun.
	Closed bool
	// NeverOpened says that the queue service has not opened the line yet.
	NeverOpened bool
	// Act is the highest number of a change by an operator (LineChange.Act); 0: there was none.
	Act int64
	// LaterAct is set if SettingsStore.ChangeLine has ignored a change, since a later change of the
	// same setting is stored. It is the number of the later change.
	LaterAct int64
}

// MaxBlockedUsers is the most users who may be blocked from a line. Every replica of the queue
// service reads all of them whenever a setting of the line changes.
const MaxBlockedUsers = 10_000

// LineChange changes those settings of a line that are not nil. Unless they are empty, BlockUser is
// added to the blocked users (ErrTooManyBlocked) and UnblockUser is removed from them.
type LineChange struct {
	Threshold              *int64
	Paused                 *bool
	BlockUser, UnblockUser string
	// Act numbers the changes of one setting: a change is ignored if one with the same or a higher Act
	// is stored. 0: it is never ignored. A change with an Act changes one setting only.
	Act int64
}

// Settings returns the names of the settings to change. Acts are numbered separately for each name.
func (c LineChange) Settings() (names []string) {
	if c.Threshold != nil {
		names = append(names, "threshold")
	}
	if c.Paused != nil {
		names = append(names, "paused")
	}
	for _, user := range []string{c.BlockUser, c.UnblockUser} {
		if user != "" {
			names = append(names, "user:"+user)
		}
	}
	return names
}

// ETag returns a hash of the id and of the settings that a PUT of the event may change. The event
// must come from SettingsStore.Settings, which includes the settings of its line.
func (e *Event) ETag() string {
	h := sha256.New()
	_, _ = io.WriteString(h, e.ID) // a hash never fails
	_, _ = h.Write(e.encoded())
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Match is the If-Match condition of a client's PUT: the stored settings that it may replace
// (RFC 9110 §13.1.1).
type Match struct {
	// Any is true for "*", which any stored settings match.
	Any   bool
	ETags []string
}

// Allows reports whether stored settings with this ETag meet the condition.
func (m *Match) Allows(etag string) bool { return m.Any || slices.Contains(m.ETags, etag) }
