package redis

import (
	"embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"urr.guru/services/queue/internal/line"
)

//go:embed lua/*.lua
var sources embed.FS

// Names of the scripts; each is lua/<name>.lua.
const (
	scriptCheck   = "check"
	scriptAdmit   = "admit"
	scriptRelease = "release"
	scriptHold    = "hold"
	scriptCleanup = "cleanup"
	scriptSet     = "set"
	scriptEntitle = "entitle"
)

// Numbers that are not configurable.
const (
	pageSize         = 500     // the most slots ended by one call
	parkSize         = 500     // the most waiters parked by one call
	cleanupSize      = 1000    // the most waiters parked or removed by one cleanup
	streamSize       = 100_000 // the stream keeps at least this many admissions
	minSilentWaiters = 10      // fewer waiters without contact are no outage of the platform
	lateShare        = 20      // at most one of so many slots is kept for late visitors
	maxLatePassed    = 100     // the maximum number of late waiters parked by one call; the rest keep their order
)

// Durations that are not configurable.
const (
	ticketWindow = 150 * time.Second // void after a loss: tickets made so long before the last answer
	writeSlack   = 5 * time.Second   // more recent decisions may be lost or not known yet
	passLife     = 24 * time.Hour    // how long an unused page of tier-1 positions is kept
	idleLife     = 24 * time.Hour    // how long the data of an empty line is kept
	reopenGrace  = time.Minute       // time from the end of a sale to the removal of its line
	// lateSlotTTL is how long a slot is kept for a late visitor after the last contact. Browsers let
	// hidden tabs poll only once a minute.
	lateSlotTTL = 70 * time.Second
)

// compileScripts makes each script from the rules, the shared prelude (two files), what is rendered
// from the tables of contract.go, and its own file. The rules are part of the source, so that Go and
// Lua have the same. During a rollout, replicas with other rules run other scripts.
func compileScripts(r line.Rules) (map[string]*redis.Script, error) {
	head := renderConstants(r) + renderKeys() + "local given = " + renderArguments(callArguments, "1") + "\n"
	for _, name := range []string{"prelude", "waiters"} {
		part, err := sources.ReadFile("lua/" + name + ".lua")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		head += string(part)
	}
	head += renderHead()
	claims := fmt.Sprintf("local CLAIM = %d\nlocal function claimAt(at) return %s end\n", len(claimArguments), renderArguments(claimArguments, "at"))
	scripts := make(map[string]*redis.Script)
	for _, name := range []string{scriptCheck, scriptAdmit, scriptRelease, scriptHold, scriptCleanup, scriptSet, scriptEntitle} {
		body, err := sources.ReadFile("lua/" + name + ".lua")
		if err != nil {
			return nil, fmt.Errorf("script %s: %w", name, err)
		}
		source := head + string(body)
		if name == scriptCheck {
			source = head + claims + string(body)
		}
		scripts[name] = redis.NewScript(source)
	}
	return scripts, nil
}

// renderConstants renders the Lua table C with the constants of the scripts: durations in ms, and
// counts. C.polls lists, in turn, an upper bound of people ahead and its poll interval (s).
func renderConstants(r line.Rules) string {
	var b strings.Builder
	b.WriteString("local C = {")
	number := func(name string, v int64) { fmt.Fprintf(&b, " %s = %d,", name, v) }
	span := func(name string, d time.Duration) { number(name, d.Milliseconds()) }
	number("threshold", r.Threshold)
	span("slot", r.Slot)
	span("activeSeen", r.ActiveSeen)
	span("seen", r.Seen)
	span("parked", r.Parked)
	span("pause", r.Pause)
	number("batch", r.Batch)
	span("absent", r.Absent)
	span("silence", r.Silence)
	span("silenceCap", r.SilenceCap)
	number("page", pageSize)
	number("park", parkSize)
	number("cleanup", cleanupSize)
	number("stream", streamSize)
	number("minSilent", minSilentWaiters)
	span("ticketWindow", ticketWindow)
	span("writeSlack", writeSlack)
	span("spent", r.Parked+ticketWindow) // older tickets restore no place, so this need not be kept
	span("pass", passLife)
	span("idle", idleLife)
	span("reopen", reopenGrace)
	span("away", line.ShopAwayAfter)
	number("passPage", passPage)
	span("late", lateSlotTTL)
	number("lateShare", lateShare)
	number("latePassed", maxLatePassed)
	number("longestPoll", line.LongestPoll)
	number("noSale", int64(line.NoSale))
	number("scheduled", int64(line.Scheduled))
	number("onSale", int64(line.OnSale))
	number("soldOut", int64(line.SoldOut))
	number("saleClosed", int64(line.SaleClosed))
	number("cancelled", int64(line.Cancelled))
	number("presale", int64(line.Presale))
	b.WriteString(" polls = {")
	for _, p := range line.Polls {
		fmt.Fprintf(&b, " %d, %d,", p.Below, p.Seconds)
	}
	b.WriteString(" } }\n")
	return b.String()
}

// entitledArg encodes the answer of the ticket service about a user's entitlement.
func entitledArg(e line.Entitlement) string {
	switch e {
	case line.EntitlementUnknown:
		return ""
	case line.NotEntitledBefore:
		return "no"
	default:
		return flagArg(e == line.Entitled)
	}
}

func flagArg(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// appendSettings appends the arguments with which the script "set" stores the settings of a line.
func appendSettings(args []any, s line.Settings, readAt int64) []any {
	threshold, closes := "", int64(0)
	if s.Threshold != nil {
		threshold = strconv.FormatInt(*s.Threshold, 10)
	}
	if !s.ClosesAt.IsZero() {
		closes = s.ClosesAt.UnixMilli()
	}
	args = append(args, "settings", readAt, threshold, flagArg(s.Paused), s.Slot.Milliseconds(), closes, s.Act)
	for _, user := range s.Blocked {
		args = append(args, user)
	}
	return args
}
