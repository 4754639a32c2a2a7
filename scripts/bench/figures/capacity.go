package figures

import (
	"fmt"
	"slices"
	"strings"

	"urr.guru/scripts/platform"
)

// sale is a sale of a certain size, for which the documents compute the required processors.
type sale struct {
	visitors float64 // all arrive within arrivalSeconds
	seats    float64
	slots    float64 // the event's threshold: visitors on the seat map or paying
	line     float64 // waiters of tier 2, which tier 1 keeps full
}

// sales returns the sales for which the documents compute the required processors.
func sales() []sale {
	return []sale{
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
	// busy is the share of processors that may be busy at the peak.
	busy = 0.5
)

// pollInterval is the time in seconds between two polls of a visitor with at most ahead people in
// front. The last interval of a table applies to everybody else; its ahead is 0.
type pollInterval struct{ ahead, seconds float64 }

// The advised intervals of both tiers: pkg/tier1 and services/queue/internal/line.
var (
	tier1Polls = []pollInterval{{500, 2}, {2000, 5}, {10_000, 10}, {0, 15}}                 //nolint:gochecknoglobals // constant tables
	tier2Polls = []pollInterval{{1000, 1}, {5000, 5}, {10_000, 10}, {100_000, 30}, {0, 60}} //nolint:gochecknoglobals // likewise
)

// pollRate returns how many polls per second a line of waiters sends, and its calculation as text.
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
	return perSecond, strings.Join(terms, " + ")
}

// costFigure names the figure for what a request costs one process: a part of a row of the report.
// Without a part it is the elapsed time of the row, times all processors: an upper bound.
type costFigure struct{ process, row, part string }

// requestKind is one kind of request at the peak of a sale.
type requestKind struct {
	name  string
	rate  func(sale) (perSecond float64, sum string)
	costs []costFigure
}

const (
	redis     = "Redis"
	shop      = "ticket, PostgreSQL"
	purchases = "payment, ticket, PostgreSQL, Kafka"
)

// requestKinds returns the kinds of requests of a sale. They are added up as if all peaks coincided.
func requestKinds() []requestKind {
	fixed := func(n float64) func(sale) (float64, string) {
		return func(sale) (float64, string) { return n, formatNumber(n) }
	}
	over := func(of func(sale) float64, seconds float64) func(sale) (float64, string) {
		return func(s sale) (float64, string) {
			return of(s) / seconds, fmt.Sprintf("%s/%.0f", formatNumber(of(s)), seconds)
		}
	}
	visitors, slots := func(s sale) float64 { return s.visitors }, func(s sale) float64 { return s.slots }
	beat := []costFigure{
		{platform.Gateway, "queue_status_256", platform.Gateway}, {platform.Queue, "queue_status_256", platform.Queue}, {redis, "queue_status_256", "redis"},
	}
	return []requestKind{
		{"read the event", over(visitors, arrivalSeconds), []costFigure{{platform.Gateway, "event", platform.Gateway}, {platform.Ticket, "event", platform.Ticket}}},
		{"get a position", over(visitors, arrivalSeconds), []costFigure{{platform.Gateway, "queue_status_256", platform.Gateway}, {platform.VWR, "assign", platform.VWR}}},
		{"poll tier 1", func(s sale) (float64, string) { return pollRate(s.visitors, tier1Polls) }, []costFigure{{platform.Gateway, "serving", platform.Gateway}}},
		{"poll tier 2", func(s sale) (float64, string) { return pollRate(s.line, tier2Polls) }, beat},
		{"poll the seat map", over(slots, mapSeconds), []costFigure{{platform.Gateway, "availability_50k", platform.Gateway}, {platform.Ticket, "availability_50k", platform.Ticket}}},
		{"heartbeat", over(slots, beatSeconds), beat},
		{"hold seats", fixed(admitted), []costFigure{{shop, "seat_hold", ""}}},
		{"pay", fixed(admitted / 2), []costFigure{{purchases, "confirm", ""}}},
	}
}

// processors returns the CPU time of one request and the number of processors that a rate of such
// requests keeps busy. ok is false if the row was not measured.
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

// calculationTable returns a table that shows how the needs of the sales are computed from the rows.
func (r report) calculationTable(sales []sale) string {
	var b strings.Builder
	b.WriteString("| at the peak | process | row | µs |")
	for _, s := range sales {
		fmt.Fprintf(&b, " %s visitors: requests/s | cores |", thousands(int64(s.visitors)))
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

// capacityTable returns a table of the processors that each process needs, loaded to the share busy.
func (r report) capacityTable(sales []sale) string {
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
		fmt.Fprintf(&b, " %s visitors |", thousands(int64(s.visitors)))
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

// processorsNeeded adds up what a process needs at the peak. missing are the unmeasured rows.
func (r report) processorsNeeded(process string, s sale) (cores float64, missing []string) {
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
