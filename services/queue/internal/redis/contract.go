package redis

import (
	"fmt"
	"strings"

	"urr.guru/services/queue/internal/line"
)

// This file has what Go and the scripts must agree on: the keys and arguments of each call, and the
// state of the line in each reply. The Lua side of it is rendered from these tables.

// argument is an argument of a script, with its name in Lua.
type argument[T any] struct {
	name  string
	value func(*T) any
}

// call is what every call of a script has.
type call struct {
	now   string // the time in µs; "" = Redis's clock
	known line.KnownState
	begin bool // a line that is missing, and unknown to the caller, may be created
}

// callArguments are the first arguments of every script: `given` in Lua. Times are in ms; 0 = never,
// none.
var callArguments = []argument[call]{ //nolint:gochecknoglobals // a constant table
	{"time", func(c *call) any { return c.now }},
	{"epoch", func(c *call) any { return c.known.Epoch }},
	{"rev", func(c *call) any { return c.known.Revision }},
	{"answeredAt", func(c *call) any { return c.known.AnsweredAt }},
	{"settingsAt", func(c *call) any { return c.known.SettingsAt }},
	{"threshold", func(c *call) any { return c.known.Threshold }},
	{"paused", func(c *call) any { return flagArg(c.known.Paused) }},
	{"slot", func(c *call) any { return c.known.SlotMS }},
	{"closes", func(c *call) any { return c.known.ClosesAt }},
	{"begin", func(c *call) any { return flagArg(c.begin) }},
	{"saleAt", func(c *call) any { return c.known.Sale.At }},
	{"saleStatus", func(c *call) any { return int64(c.known.Sale.Status) }},
	{"saleOpens", func(c *call) any { return c.known.Sale.OpensAt }},
	{"saleCloses", func(c *call) any { return c.known.Sale.ClosesAt }},
	{"presaleOpens", func(c *call) any { return c.known.Sale.PresaleOpensAt }},
}

// claimCall is a visitor's claim among the arguments of the script check.
type claimCall struct {
	line.PlaceClaim

	// keyIndex is the index of the key for the claim's tier-1 position, 0 without a position.
	keyIndex int
}

// claimArguments are the arguments of each claim, which claimAt reads in Lua. "" = none.
var claimArguments = []argument[claimCall]{ //nolint:gochecknoglobals // a constant table
	{"user", func(c *claimCall) any { return c.UserID }},
	{"join", func(c *claimCall) any { return flagArg(c.Join) }},
	{"required", func(c *claimCall) any { return flagArg(c.Tier1.Required) }},
	{"t1", func(c *claimCall) any { return c.keyIndex }},
	{"round", func(c *claimCall) any { return c.Tier1.Round }},
	{"position", func(c *claimCall) any { return c.Tier1.Position }},
	{"ticket", func(c *claimCall) any { return orNone(c.Ticket, func(t *line.Ticket) any { return t.Score }) }},
	{"ticketEpoch", func(c *claimCall) any { return orNone(c.Ticket, func(t *line.Ticket) any { return t.Epoch }) }},
	{"issued", func(c *claimCall) any { return orNone(c.Ticket, func(t *line.Ticket) any { return t.IssuedAt }) }},
	{"slot", func(c *claimCall) any { return orNone(c.Entry, func(e *line.EntryClaims) any { return e.SlotID }) }},
	{"slotEpoch", func(c *claimCall) any { return orNone(c.Entry, func(e *line.EntryClaims) any { return e.Epoch }) }},
	{"slotEnd", func(c *claimCall) any { return orNone(c.Entry, func(e *line.EntryClaims) any { return e.End }) }},
	{"entitled", func(c *claimCall) any { return entitledArg(c.Entitled) }},
}

// orNone returns what value returns, or "" if v is nil.
func orNone[T any](v *T, value func(*T) any) any {
	if v == nil {
		return ""
	}
	return value(v)
}

// appendArguments appends the values of arguments.
func appendArguments[T any](args []any, list []argument[T], v *T) []any {
	for _, a := range list {
		args = append(args, a.value(v))
	}
	return args
}

// headField is one of the numbers with which each reply begins: how Lua computes it, and where it goes.
type headField struct {
	lua string
	set func(*line.LineState, int64)
}

// headFields are the numbers of every reply: the line's state.
var headFields = []headField{ //nolint:gochecknoglobals // a constant table
	{"line.epoch", func(s *line.LineState, n int64) { s.Epoch = n }},
	{"line.rev", func(s *line.LineState, n int64) { s.Revision = n }},
	{"now", func(s *line.LineState, n int64) { s.Now = n }},
	{"line['until']", func(s *line.LineState, n int64) { s.PauseUntil = n }},
	{"fresh", func(s *line.LineState, n int64) { s.BegunNow = n == 1 }},
	{"waitingCount()", func(s *line.LineState, n int64) { s.Waiting = n }},
	{"activeCount()", func(s *line.LineState, n int64) { s.Active = n }},
	{"call('ZCARD', kOld)", func(s *line.LineState, n int64) { s.PrevHolders = n }},
	{"call('ZCARD', kParked)", func(s *line.LineState, n int64) { s.Parked = n }},
	{"limit", func(s *line.LineState, n int64) { s.Threshold = n }},
	{"line.paused", func(s *line.LineState, n int64) { s.Paused = n == 1 }},
	{"line.settings", func(s *line.LineState, n int64) { s.SettingsAt = n }},
	{"slotLength()", func(s *line.LineState, n int64) { s.SlotMS = n }},
	{"line.closes", func(s *line.LineState, n int64) { s.ClosesAt, s.Sale.ClosesAt = n, n }},
	{"line.admitted", func(s *line.LineState, n int64) { s.Admitted = n }},
	{"line.arrived", func(s *line.LineState, n int64) { s.Arrived = n }},
	{"line.prev", func(s *line.LineState, n int64) { s.PrevEpoch = n }},
	{"line.status", func(s *line.LineState, n int64) { s.Sale.Status = line.SaleStatus(n) }},
	{"line.opens", func(s *line.LineState, n int64) { s.Sale.OpensAt = n }},
	{"line.statusAt", func(s *line.LineState, n int64) { s.Sale.At = n }},
	{"line.lost", func(s *line.LineState, n int64) { s.ExtendedMS = n }},
	{"line.pending", func(s *line.LineState, n int64) { s.Pending = n }},
	{"line.presale", func(s *line.LineState, n int64) { s.Sale.PresaleOpensAt = n }},
	{"entitledCount()", func(s *line.LineState, n int64) { s.Entitled = n }},
}

// renderKeys renders a local for each key of a line, such as kParkedSeen, and OWN_KEYS and OWN: the
// number of these keys, and the index of a script's own first argument.
func renderKeys() string {
	names := make([]string, len(lineKeys))
	for i, key := range lineKeys {
		names[i] = "k"
		for word := range strings.SplitSeq(key, "-") {
			names[i] += strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return fmt.Sprintf("local %s = unpack(KEYS, 1, %d)\nlocal OWN_KEYS, OWN = %d, %d\n",
		strings.Join(names, ", "), len(names), len(names), len(callArguments)+1)
}

// renderArguments renders a Lua table of arguments; first is the Lua expression of the index of the
// first one.
func renderArguments[T any](list []argument[T], first string) string {
	members := make([]string, len(list))
	for i, a := range list {
		members[i] = fmt.Sprintf("%s = ARGV[%s + %d]", a.name, first, i)
	}
	return "{ " + strings.Join(members, ", ") + " }"
}

// renderHead renders the function head, which makes the numbers of headFields.
func renderHead() string {
	fields := make([]string, len(headFields))
	for i, f := range headFields {
		fields[i] = f.lua
	}
	return "local function head() return { " + strings.Join(fields, ", ") + " } end\n"
}
