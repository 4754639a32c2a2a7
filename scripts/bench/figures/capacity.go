package figures

import (
	"fmt"
	"slices"
	"strings"

	"urr.guru/scripts/platform"
)

// saleSize has the size of a sale. The documents state how many processors it needs.
type saleSize struct {
	visitors float64 // all arrive within arrivalSeconds
	seats    float64
	slots    float64 // the event's threshold: visitors on the seat map or paying
	line     float64 // visitors waiting in tier 2; tier 1 keeps it full
}

// sales returns the sizes of sale that the documents have as examples.
func sales() []saleSize {
	return []saleSize{
		{visitors: 100_000, seats: 10_000, slots: 1000, line: 5000},
		{visitors: 1_000_000, seats: 100_000, slots: 10_000, line: 50_000},
	}
}

// Assumptions about visitors, and settings at their defaults.
const (
	arrivalSeconds = 60
	admitted       = 100 // per second, QUEUE_BATCH of a tick
	mapSeconds     = 3   // between two polls of the seat map
	beatSeconds    = 10  // between two heartbeats of a slot
	// busy is the share of its processors that a process may use at the peak.
	busy = 0.5
)

// pollInterval is the time in seconds between two polls of a visitor who has at most `ahead` others
// in front. The last interval of a table is for all visitors further back; its ahead is 0.
type pollInterval struct{ ahead, seconds float64 }

// The poll intervals that both tiers advise: pkg/waits, at the rate of admitted, and
// services/queue/internal/line. Where tier 1's grow with the wait, that of the nearest in a row counts.
var (
	tier1Polls = []pollInterval{ //nolint:gochecknoglobals // constant tables
		{500, 2}, {2000, 5}, {10_000, 10}, {40_000, 15}, {60_000, 20}, {80_000, 30}, {100_000, 40}, {120_000, 50}, {0, 60},
	}
	tier2Polls = []pollInterval{{1000, 1}, {5000, 5}, {10_000, 10}, {100_000, 30}, {0, 60}} //nolint:gochecknoglobals // likewise
)

// maxTerms is how many terms of a sum are shown.
const maxTerms = 4

// pollRate returns the polls per second of all visitors in a line, and the calculation as text.
func pollRate(waiting float64, table []pollInterval) (perSecond float64, sum string) {
	var (
		terms []string
		from  float64
	)
	for _, it := range table {
		to := waiting
		if it.ahead > 0 {
			to = min(waiting, it.ahead)
		}
		if to > from {
			perSecond += (to - from) / it.seconds
			terms = append(terms, fmt.Sprintf("%s/%.0f", formatNumber(to-from), it.seconds))
			from = to
		}
	}
	if len(terms) > maxTerms { // a line of a table has its limit
		terms = []string{terms[0], terms[1], "…", terms[len(terms)-1]}
	}
	return perSecond, strings.Join(terms, " + ")
}

// costFigure says where the report has the CPU time of one request in one process: as a part of a
// row. If part is empty, the cost is the row's elapsed time multiplied by the number of processors:
// an upper bound.
type costFigure struct{ process, row, part string }

// requestKind is a kind of request, and how many of it a sale has per second at the peak.
type requestKind struct {
	name  string
	rate  func(saleSize) (perSecond float64, sum string)
	costs []costFigure
}

const (
	redis     = "Redis"
	shop      = "ticket, PostgreSQL"
	purchases = "payment, ticket, PostgreSQL, Kafka"
)

// requestKinds returns the kinds of requests of a sale, as if all had their peak at the same time.
func requestKinds() []requestKind {
	fixed := func(n float64) func(saleSize) (float64, string) {
		return func(saleSize) (float64, string) { return n, formatNumber(n) }
	}
	over := func(of func(saleSize) float64, seconds float64) func(saleSize) (float64, string) {
		return func(s saleSize) (float64, string) {
			return of(s) / seconds, fmt.Sprintf("%s/%.0f", formatNumber(of(s)), seconds)
		}
	}
	visitors, slots := func(s saleSize) float64 { return s.visitors }, func(s saleSize) float64 { return s.slots }
	beat := []costFigure{
		{platform.Gateway, "queue_status_256", platform.Gateway}, {platform.Queue, "queue_status_256", platform.Queue}, {redis, "queue_status_256", "redis"},
	}
	return []requestKind{
		{"read the event", over(visitors, arrivalSeconds), []costFigure{{platform.Gateway, "event", platform.Gateway}, {platform.Ticket, "event", platform.Ticket}}},
		{"get a position", over(visitors, arrivalSeconds), []costFigure{{platform.Gateway, "queue_status_256", platform.Gateway}, {platform.VWR, "assign", platform.VWR}}},
		{"poll tier 1", func(s saleSize) (float64, string) { return pollRate(s.visitors, tier1Polls) }, []costFigure{{platform.Gateway, "serving", platform.Gateway}}},
		{"poll tier 2", func(s saleSize) (float64, string) { return pollRate(s.line, tier2Polls) }, beat},
		{"poll the seat map", over(slots, mapSeconds), []costFigure{{platform.Gateway, "availability_50k", platform.Gateway}, {platform.Ticket, "availability_50k", platform.Ticket}}},
		{"heartbeat", over(slots, beatSeconds), beat},
		{"hold seats", fixed(admitted), []costFigure{{shop, "seat_hold", ""}}},
		{"pay", fixed(admitted / 2), []costFigure{{purchases, "confirm", ""}}},
	}
}

// processors returns the CPU time of one request, and how many processors perSecond such requests
// per second keep busy. ok is false if the row was not measured.
func (r report) processors(c costFigure, perSecond float64) (µs, cores float64, ok bool) {
	row, found := r.Row(c.row)
	if !found {
		return 0, 0, false
	}
	if c.part == "" {
		return row.Value, row.Value * float64(r.Processors) * perSecond / 1e6, true
	}
	µs, found = row.Parts[c.part]
	return µs, µs * perSecond / 1e6, found
}

// calculationTable returns a table that shows how the processors for each sale are calculated.
func (r report) calculationTable(sales []saleSize) string {
	var b strings.Builder
	b.WriteString("| at the peak | process | row | µs |")
	for _, s := range sales {
		fmt.Fprintf(&b, " %s visitors: requests/s | cores |", formatThousands(int64(s.visitors)))
	}
	b.WriteString("\n| --- | --- | --- | ---: |" + strings.Repeat(" --- | ---: |", len(sales)) + "\n")
	for _, step := range requestKinds() {
		name := step.name
		for _, c := range step.costs {
			µs := "not measured"
			if v, _, ok := r.processors(c, 0); ok {
				µs = formatNumber(v)
			}
			fmt.Fprintf(&b, "| %s | %s | `%s` | %s |", name, c.process, c.row, µs)
			for _, s := range sales {
				perSecond, sum := step.rate(s)
				if rate := formatNumber(perSecond); rate != sum {
					sum += " = " + rate
				}
				_, cores, _ := r.processors(c, perSecond)
				fmt.Fprintf(&b, " %s | %s |", sum, formatNumber(cores))
			}
			b.WriteString("\n")
			name = ""
		}
	}
	return b.String()
}

// capacityTable returns a table of the processors that each process needs for each sale.
func (r report) capacityTable(sales []saleSize) string {
	var processes []string
	for _, step := range requestKinds() {
		for _, c := range step.costs {
			if !slices.Contains(processes, c.process) {
				processes = append(processes, c.process)
			}
		}
	}
	var b strings.Builder
	b.WriteString("| cores |")
	for _, s := range sales {
		fmt.Fprintf(&b, " %s visitors |", formatThousands(int64(s.visitors)))
	}
	b.WriteString("\n| --- |" + strings.Repeat(" ---: |", len(sales)) + "\n")
	for _, process := range processes {
		fmt.Fprintf(&b, "| %s |", process)
		for _, s := range sales {
			cores, missing := r.processorsNeeded(process, s)
			need := formatNumber(cores / busy)
			if len(missing) > 0 {
				need += ", without " + strings.Join(missing, ", ")
			}
			if cores == 0 {
				need = "not measured"
			}
			fmt.Fprintf(&b, " %s |", need)
		}
		b.WriteString("\n")
	}
	b.WriteString("| MB of Redis for the line |")
	for _, s := range sales {
		mb := "not measured"
		if row, found := r.Row("redis_mb_per_million_waiting"); found {
			mb = formatNumber(row.Value * s.line / 1e6)
		}
		fmt.Fprintf(&b, " %s |", mb)
	}
	b.WriteString("\n")
	return b.String()
}

// processorsNeeded adds up the processors that a process needs at the peak of a sale. missing has
// the names of needed rows that were not measured.
func (r report) processorsNeeded(process string, s saleSize) (cores float64, missing []string) {
	for _, step := range requestKinds() {
		perSecond, _ := step.rate(s)
		for _, c := range step.costs {
			if c.process != process {
				continue
			}
			_, more, ok := r.processors(c, perSecond)
			if !ok {
				missing = append(missing, "`"+c.row+"`")
			}
			cores += more
		}
	}
	return cores, missing
}
