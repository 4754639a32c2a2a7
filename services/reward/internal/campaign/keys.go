package campaign

import (
	"fmt"
	"strings"
)

// The idempotency keys of allocations. Their first part is the event's id, in which a hyphen is
// written %2D: otherwise the events a9 and a9-b would collide for some members.

func keyDaily(event, member string, day Day) string {
	return fmt.Sprintf("att-%s-%s-%s-DAILY", escaped(event), member, day)
}

func keyBonus(event, member string, day Day, milestone int) string {
	return fmt.Sprintf("att-%s-%s-%s-BONUS-%d", escaped(event), member, day, milestone)
}

func keyDraw(event, member string, entryID int64) string {
	return fmt.Sprintf("rand-%s-%s-log-%d", escaped(event), member, entryID)
}

// WinnerKeyPrefix returns the begin of winners' keys; "<member's id>-<request's id>" follows.
func WinnerKeyPrefix(event string) string { return "req-" + escaped(event) + "-" }

func escaped(event string) string { return strings.ReplaceAll(event, "-", "%2D") }
