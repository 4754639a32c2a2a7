package plan

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is what opens.
type Kind string

// The kinds of openings.
const (
	Sale      Kind = "sale"
	Promotion Kind = "promotion"
	Campaign  Kind = "campaign"
)

// Opening is the opening of a sale, of a promotion or of a campaign.
type Opening struct {
	Kind Kind
	Expected
}

// Assumptions about visitors, and settings at their defaults.
const (
	// Admitted is the number of visitors per second that both tiers admit: QUEUE_BATCH of a tick.
	Admitted    = 100
	mapSeconds  = 3  // between two polls of the seat map
	beatSeconds = 10 // between two heartbeats of a slot
	// Busy is the share of its processors that a process may use at the peak.
	Busy = 0.5
)

// Slots is the threshold of a sale: the visitors on the seat map or paying. Its seats are ten times
// as many.
func (o Opening) Slots() float64 { return float64(o.Visitors) / 100 }

// Line is the number of visitors who wait in tier 2, which tier 1 keeps full.
func (o Opening) Line() float64 { return float64(o.Visitors) / 20 }

// PollInterval is the time in seconds between two polls of a visitor who has at most Ahead others in
// front. The last interval of a table is for all visitors further back; its Ahead is 0.
type PollInterval struct{ Ahead, Seconds float64 }

// Tier1Polls are the poll intervals that tier 1 advises (pkg/waits) at the rate Admitted. Where they
// grow with the wait, that of the nearest in a row counts.
func Tier1Polls() []PollInterval {
	return []PollInterval{
		{500, 2}, {2000, 5}, {10_000, 10}, {40_000, 15}, {60_000, 20}, {80_000, 30}, {100_000, 40}, {120_000, 50}, {0, 60},
	}
}

// tier2Polls are those of services/queue/internal/line.
func tier2Polls() []PollInterval {
	return []PollInterval{{1000, 1}, {5000, 5}, {10_000, 10}, {100_000, 30}, {0, 60}}
}

// maxTerms is how many terms of a sum are shown.
const maxTerms = 4

// PollRate returns the polls per second of all visitors in a line, and the calculation as text.
func PollRate(waiting float64, table []PollInterval) (perSecond float64, sum string) {
	var (
		terms []string
		from  float64
	)
	for _, it := range table {
		to := waiting
		if it.Ahead > 0 {
			to = min(waiting, it.Ahead)
		}
		if to > from {
			perSecond += (to - from) / it.Seconds
			terms = append(terms, fmt.Sprintf("%s/%.0f", Number(to-from), it.Seconds))
			from = to
		}
	}
	if len(terms) > maxTerms { // a line of a table has its limit
		terms = []string{terms[0], terms[1], "…", terms[len(terms)-1]}
	}
	return perSecond, strings.Join(terms, " + ")
}

// requestKind is a kind of request at an opening.
type requestKind struct {
	of    Kind
	name  string
	rate  func(Opening) (perSecond float64, sum string)
	Costs []Cost
}

// Requests are the requests of one kind per second at the peak, and the calculation as text.
type Requests struct {
	Name      string
	PerSecond float64
	Sum       string
	Costs     []Cost
}

// Requests returns the requests of an opening, as if all kinds had their peak at the same time.
func (o Opening) Requests() (out []Requests) {
	for _, k := range requestKinds() {
		if k.of == o.Kind {
			perSecond, sum := k.rate(o)
			out = append(out, Requests{k.name, perSecond, sum, k.Costs})
		}
	}
	return out
}

// Processes returns the names of the processes that an opening uses. A name with a comma is of
// several, which were measured together.
func (o Opening) Processes() (out []string) {
	for _, r := range o.Requests() {
		for _, c := range r.Costs {
			if !slices.Contains(out, c.Process) {
				out = append(out, c.Process)
			}
		}
	}
	return out
}

// The processes that are no service, and the rows of several kinds of requests.
const (
	gateway     = "gateway"
	Redis       = "Redis"
	LimitsRedis = "Redis of the limits"
	shop        = "ticket, PostgreSQL"
	purchases   = "payment, ticket, PostgreSQL, Kafka"
	rewards     = "reward, PostgreSQL"
	statusRow   = "queue_status_256"
)

// requestKinds returns the kinds of requests. Who gets a position, applies or attends is taken to cost
// the gateway what a poll of tier 2 costs: one batched call.
func requestKinds() []requestKind {
	fixed := func(n float64) func(Opening) (float64, string) {
		return func(Opening) (float64, string) { return n, Number(n) }
	}
	over := func(n func(Opening) float64, seconds float64) func(Opening) (float64, string) {
		return func(o Opening) (float64, string) {
			return n(o) / seconds, fmt.Sprintf("%s/%.0f", Number(n(o)), seconds)
		}
	}
	arrive := func(o Opening) (float64, string) {
		return o.PerSecond(), fmt.Sprintf("%s/%d", Number(float64(o.Visitors)), o.WithinSeconds)
	}
	cost := func(process, part string, rows ...string) Cost { return Cost{process, part, rows} }
	call, limits := cost(gateway, gateway, statusRow), cost(LimitsRedis, "redis_µs_per_allowed", "limits")
	beat := []Cost{call, cost("queue", "queue", statusRow), cost(Redis, "redis", statusRow)}
	page := []Cost{cost(gateway, gateway, "event"), cost("ticket", "ticket", "event")}
	seatMap := "availability_50k"
	return []requestKind{
		{Sale, "read the event", arrive, page},
		{Sale, "get a position", arrive, []Cost{call, cost("vwr", "vwr", "assign_cpu", "assign"), limits}},
		{Sale, "poll tier 1", func(o Opening) (float64, string) { return PollRate(float64(o.Visitors), Tier1Polls()) }, []Cost{cost(gateway, gateway, "serving")}},
		{Sale, "poll tier 2", func(o Opening) (float64, string) { return PollRate(o.Line(), tier2Polls()) }, beat},
		{Sale, "poll the seat map", over(Opening.Slots, mapSeconds), []Cost{cost(gateway, gateway, seatMap), cost("ticket", "ticket", seatMap)}},
		{Sale, "heartbeat", over(Opening.Slots, beatSeconds), beat},
		{Sale, "hold seats", fixed(Admitted), []Cost{cost(shop, "", "seat_hold")}},
		{Sale, "pay", fixed(Admitted / 2), []Cost{cost(purchases, "", "confirm")}},
		{Promotion, "read the promotion", arrive, page[:1]},
		{Promotion, "apply", arrive, []Cost{call, cost("ingest", "ingest", "promotion_sold_out"), limits}},
		{Promotion, "settle", func(o Opening) (float64, string) {
			n := min(o.PerSecond(), SettledPerSecond)
			return n, Number(n)
		}, []Cost{cost("worker", "worker", "first_come_settle")}},
		{Campaign, "read the campaign", arrive, page[:1]},
		{Campaign, "attend or draw", arrive, []Cost{call, cost(rewards, "", "reward_claim"), limits}},
	}
}
