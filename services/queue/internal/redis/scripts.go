package redis

import (
	"embed"
	"fmt"
	"io/fs"
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
)

// Sizes that no one needs to configure.
const (
	pageSize    = 500     // slots ended by one call
	parkSize    = 500     // waiters parked by one call
	cleanupSize = 1000    // waiters moved or removed by one call of cleanup
	streamSize  = 100_000 // admissions kept in the stream, at least
	crowdSize   = 10      // waiters that must all be silent before it counts as our outage
	lateShare   = 20      // one slot in so many may be kept free for those who are late
	latePassed  = 100     // late waiters passed over by one call, so that many of them lose no order
)

// How long things count that no one needs to configure either.
const (
	ticketMemory = 150 * time.Second // before the last answer, tickets issued since give places back
	slack        = 5 * time.Second   // what may have been decided after the last surviving write, or before a replica heard of it
	passLife     = 24 * time.Hour    // after the last use of a tier-1 round
	idleLife     = 24 * time.Hour    // of a line that is empty
	reopenFor    = time.Minute       // since the end of a sale its line is kept, in case it is opened again
	lateFor      = 70 * time.Second  // since the last contact a slot is kept: browsers let hidden tabs ask once a minute
)

// compile joins the rules, the prelude and each script. The rules are rendered into the source, so that a call carries none of them and
// Go and Lua cannot disagree; replicas with other rules (during a roll-out) simply use another script.
func compile(r line.Rules, sources fs.FS) (map[string]*redis.Script, error) {
	prelude, err := fs.ReadFile(sources, "lua/prelude.lua")
	if err != nil {
		return nil, fmt.Errorf("prelude: %w", err)
	}
	head := constants(r) + string(prelude)
	scripts := make(map[string]*redis.Script)
	for _, name := range []string{scriptCheck, scriptAdmit, scriptRelease, scriptHold, scriptCleanup, scriptSet} {
		body, err := fs.ReadFile(sources, "lua/"+name+".lua")
		if err != nil {
			return nil, fmt.Errorf("script %s: %w", name, err)
		}
		scripts[name] = redis.NewScript(head + string(body))
	}
	return scripts, nil
}

// constants renders the table C of the scripts: durations in ms, the rest counts; polls alternates "fewer than" and seconds.
func constants(r line.Rules) string {
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
	number("crowd", crowdSize)
	span("memory", ticketMemory)
	span("slack", slack)
	span("spent", r.Parked+ticketMemory) // no ticket is older that gives a place back
	span("pass", passLife)
	span("idle", idleLife)
	span("reopen", reopenFor)
	number("passPage", passPage)
	span("late", lateFor)
	number("lateShare", lateShare)
	number("latePassed", latePassed)
	number("longestPoll", line.LongestPoll)
	number("noSale", int64(line.NoSale))
	number("scheduled", int64(line.Scheduled))
	number("onSale", int64(line.OnSale))
	number("soldOut", int64(line.SoldOut))
	number("saleClosed", int64(line.SaleClosed))
	number("cancelled", int64(line.Cancelled))
	b.WriteString(" polls = {")
	for _, p := range line.Polls {
		fmt.Fprintf(&b, " %d, %d,", p.Below, p.Seconds)
	}
	b.WriteString(" } }\n")
	return b.String()
}

// remembered are ARGV 1 to 14 of every script: the time ("" = Redis's), what this replica remembers,
// whether a line may be begun, and ticket's last word on the sale.
func remembered(now string, m line.Memory, begin bool) []any {
	return []any{
		now, m.Epoch, m.Rev, m.Alive, m.SettingsAt, m.Threshold, flag(m.Paused), m.SlotMS, m.ClosesAt, flag(begin),
		m.Sale.At, int64(m.Sale.Status), m.Sale.OpensAt, m.Sale.ClosesAt,
	}
}

// claimArgs are the twelve arguments of one item of check; pass is the number of its tier-1 key.
func claimArgs(args []any, c line.Claim, pass int) []any {
	args = append(args, c.UserID, flag(c.Join), flag(c.Tier1.Required), pass, c.Tier1.Round, c.Tier1.Position)
	if c.Ticket != nil {
		args = append(args, c.Ticket.Score, c.Ticket.Epoch, c.Ticket.IssuedAt)
	} else {
		args = append(args, "", "", "")
	}
	if c.Entry != nil {
		return append(args, c.Entry.SlotID, c.Entry.Epoch, c.Entry.End)
	}
	return append(args, "", "", "")
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// settingsArgs are what set takes for "settings".
func settingsArgs(args []any, s line.Settings, readAt int64) []any {
	threshold, closes := "", int64(0)
	if s.Threshold != nil {
		threshold = strconv.FormatInt(*s.Threshold, 10)
	}
	if !s.ClosesAt.IsZero() {
		closes = s.ClosesAt.UnixMilli()
	}
	args = append(args, "settings", readAt, threshold, flag(s.Paused), s.Slot.Milliseconds(), closes)
	for _, user := range s.Blocked {
		args = append(args, user)
	}
	return args
}
