package campaign

import (
	"fmt"
	"strings"
)

// The functions below make the idempotency keys of allocations. A hyphen in the event's id becomes
// %2D: otherwise the events a9 and a9-b would have equal keys for some members.

func keyDaily(event, member string, day Day) string {
	return fmt.Sprintf("att-%s-%s-%s-DAILY", escapeHyphens(event), member, day)
}

func keyMilestone(event, member string, day Day, milestone int) string {
	return fmt.Sprintf("att-%s-%s-%s-BONUS-%d", escapeHyphens(event), member, day, milestone)
}

func keyDraw(event, member string, entryID int64) string {
	return fmt.Sprintf("rand-%s-%s-log-%d", escapeHyphens(event), member, entryID)
}

// RewardKeys returns the idempotency keys of all rewards that an entry can have earned. Some of
// the keys may have no reward: a draw may have won nothing.
func RewardKeys(c *Campaign, e Entry) (keys []string) {
	switch c.Kind {
	case Random:
		return []string{keyDraw(e.EventID, e.MemberID, e.ID)}
	case RequestWinners:
		return []string{WinnerKeyPrefix(e.EventID) + e.MemberID + "-" + e.Period}
	case Attendance:
		day := Day(e.Period)
		keys = []string{keyDaily(e.EventID, e.MemberID, day)}
		for _, m := range c.reachedMilestones(e.Streak, nil) {
			keys = append(keys, keyMilestone(e.EventID, e.MemberID, day, m.Day))
		}
	}
	return keys
}

// WinnerKeyPrefix returns the first part of the keys of winners' rewards. The full key is
// "<prefix><member's id>-<request's id>".
func WinnerKeyPrefix(event string) string { return "req-" + escapeHyphens(event) + "-" }

func escapeHyphens(event string) string { return strings.ReplaceAll(event, "-", "%2D") }
