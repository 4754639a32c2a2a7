package plan

import (
	"fmt"
	"slices"
	"strings"
)

// Kind says what an Opening opens.
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
	// Admitted is the number of visitors per second that both tiers admit: QUEUE_BATCH in each tick.
	Admitted    = 100
	mapSeconds  = 3  // between two polls of the seat map
	beatSeconds = 10 // between two heartbeats of a slot
	askSeconds  = 60 // between two questions whether a waiter of a presale has an entitlement
	// LobbySeconds is the shortest time between two polls of a visitor in a lobby (pkg/waits).
	LobbySeconds = 30
	// SweepSeconds is the time between two passes of ingest over the markers of requests without a
	// result. In SweepTurns passes it also reads each request that waits in the queue once.
	SweepSeconds = 5
	SweepTurns   = 16
	// Busy is the share of its processors that a process may use at the peak.
	Busy = 0.5
)

// Slots is the threshold of a sale: the most visitors who are on the seat map or paying at once.
// The sale is assumed to have ten times as many seats.
func (o Opening) Slots() float64 { return float64(o.Visitors) / 100 }

// Line is the number of visitors who wait in tier 2, which tier 1 keeps full.
func (o Opening) Line() float64 { return float64(o.Visitors) / 20 }

// PollInterval is the time in seconds between two polls of a visitor who has at most Ahead others in
// front. The last interval of a table is for all visitors further back; its Ahead is 0.
type PollInterval struct{ Ahead, Seconds float64 }

// The poll intervals that tier 1 (pkg/waits, at the rate Admitted) and tier 2
// (services/queue/internal/line) advise. Where the intervals of tier 1 grow with the wait, a row
// has the interval of its first visitor.
var (
	Tier1Polls = []PollInterval{ //nolint:gochecknoglobals // constant tables
		{500, 2}, {2000, 5}, {10_000, 10}, {40_000, 15}, {60_000, 20}, {80_000, 30}, {100_000, 40}, {120_000, 50}, {0, 60},
	}
	tier2Polls = []PollInterval{{1000, 1}, {5000, 5}, {10_000, 10}, {100_000, 30}, {0, 60}} //nolint:gochecknoglobals // likewise
)

// maxTerms is how many terms of a sum are shown.
const maxTerms = 4

// Rate is a number of requests per second, and its calculation as text.
type Rate struct {
	PerSecond float64
	Sum       string
}

// PollRate returns the rate of polls of all visitors in a line.
func PollRate(waiting float64, table []PollInterval) (r Rate) {
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
			r.PerSecond += (to - from) / it.Seconds
			terms = append(terms, fmt.Sprintf("%s/%.0f", Number(to-from), it.Seconds))
			from = to
		}
	}
	if len(terms) > maxTerms { // a line of the report is short
		terms = []string{terms[0], terms[1], "…", terms[len(terms)-1]}
	}
	r.Sum = strings.Join(terms, " + ")
	return r
}

// Requests are the requests of one kind at the peak.
type Requests struct {
	Name string
	Rate
	Costs []Cost
}

// The names of processes that are not services.
const (
	redis       = "Redis"
	limitsRedis = "Redis of the limits"
	shop        = "ticket, PostgreSQL"
	purchases   = "payment, ticket, PostgreSQL, Kafka"
	rewards     = "reward, PostgreSQL"
)

func over(n float64, seconds int64) Rate {
	return Rate{n / float64(seconds), fmt.Sprintf("%s/%d", Number(n), seconds)}
}

func cost(process, part string, rows ...string) Cost { return Cost{process, part, rows} }

// arrivals is the rate at which the visitors come.
func (o Opening) arrivals() Rate { return over(float64(o.Visitors), max(1, o.WithinSeconds)) }

// Requests returns the requests of an opening, as if all kinds had their peak at the same time. It
// assumes that to apply or to attend costs the gateway as much as a poll of tier 2: one batched call.
func (o Opening) Requests() []Requests {
	fixed := func(n float64) Rate { return Rate{n, Number(n)} }
	const status, seatMap = "queue_status_256", "availability_50k"
	arrive, call, limits := o.arrivals(), cost("gateway", "gateway", status), cost(limitsRedis, "redis_µs_per_allowed", "limits")
	beat := []Cost{call, cost("queue", "queue", status), cost(redis, "redis", status)}
	page := []Cost{cost("gateway", "gateway", "event"), cost("ticket", "ticket", "event")}
	switch o.Kind {
	case Sale:
		return []Requests{
			{"read the event", arrive, page},
			{"get a position", arrive, []Cost{cost("gateway", "gateway", "limits", status), cost("vwr", "vwr", "assign_cpu", "assign"), limits}},
			{"poll tier 1", PollRate(float64(o.Visitors), Tier1Polls), []Cost{cost("gateway", "gateway", "serving")}},
			{"poll tier 2", PollRate(o.Line(), tier2Polls), beat},
			{"poll the seat map", over(o.Slots(), mapSeconds), []Cost{cost("gateway", "gateway", seatMap), cost("ticket", "ticket", seatMap)}},
			{"heartbeat", over(o.Slots(), beatSeconds), beat},
			{"hold seats", fixed(Admitted), []Cost{cost(shop, "", "seat_hold")}},
			{"pay", fixed(Admitted / 2), []Cost{cost(purchases, "", "confirm")}},
		}
	case Promotion:
		return []Requests{
			{"read the promotion", arrive, page[:1]},
			{"apply", arrive, []Cost{call, cost("ingest", "ingest", "promotion_sold_out"), limits}},
			{"settle", fixed(o.settled()), []Cost{cost("worker", "worker", "first_come_settle")}},
		}
	default:
		return []Requests{
			{"read the campaign", arrive, page[:1]},
			{"attend or draw", arrive, []Cost{call, cost(rewards, "", "reward_claim"), limits}},
		}
	}
}

func (o Opening) settled() float64 { return min(o.PerSecond(), SettledPerSecond) }

// sweptPerUnit is how many markers of 0.2 KB one read unit reads.
const sweptPerUnit = 20

// swept returns how many read units per second ingest's passes need, once all have applied: for the
// markers of the requests that wait, and for a part of these requests.
func (o Opening) swept() float64 {
	waiting := min(float64(o.Visitors)-o.settled()*float64(o.WithinSeconds), MaxUnsettled)
	return waiting * (1.0/sweptPerUnit + 1.0/SweepTurns) / SweepSeconds
}

// Processes returns the names of the processes that an opening uses. A name with a comma stands for
// several processes, which were measured together.
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

// Load is the load per second of an opening on its table of DynamoDB, or on an index. Writing an
// item of at most 1 KB needs one write unit, or two in a transaction.
type Load struct {
	Table, Index  string // Table without the installation's prefix; Index empty: the table itself
	Writes, Reads float64
	Sum           string // calculation of Writes, as text
	// Warm is the warm throughput in writes that it needs. Where keys are hashed, some partitions get
	// more than their share: positions fit into 1.5 times as many partitions, and mostly not into fewer.
	Warm float64
}

// spare is Warm of positions ÷ Writes.
const spare = 1.5

// Loads returns the loads of an opening, all of one table. A position is read, and then stored. An
// application is stored (lock, request, log, marker). If it is not processed within a second it is
// marked as queued (request, log, marker), which moves it in the indexes. Its result is stored with
// its share of the items that ninety have in common, and then three logs; the marker is deleted.
// Meanwhile ingest's passes read what waits.
func (o Opening) Loads() []Load {
	rate := o.PerSecond()
	load := func(table, index string, perVisitor, perSettled, reads float64) Load {
		sum := fmt.Sprintf("%s × %.0f", Number(rate), perVisitor)
		if perSettled > 0 {
			sum += fmt.Sprintf(" + %s × %.0f", Number(o.settled()), perSettled)
		}
		writes := rate*perVisitor + o.settled()*perSettled
		return Load{table, index, writes, reads, sum, writes}
	}
	switch o.Kind {
	case Sale:
		loads := []Load{load("vwr-positions", "", 1, 0, rate), load("vwr-positions", "eventId-position-index", 1, 0, 0)}
		for i := range loads {
			loads[i].Warm *= spare
		}
		return loads
	case Promotion:
		const table = "AsyncEventTable"
		return []Load{load(table, "", 8+6, 3+4, rate+2*o.settled()+o.swept()), load(table, "GSI1", 1+2, 1, 0), load(table, "GSI2", 1+2, 1, 0)}
	default:
		return nil
	}
}
