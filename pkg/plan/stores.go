package plan

import "fmt"

// Load is what an opening asks of a table of DynamoDB, or of an index, per second. An item of at most
// 1 KB takes a write unit, in a transaction two.
type Load struct {
	Table         string // without the installation's prefix
	Index         string // empty: the table itself
	Writes, Reads float64
	Sum           string // of the writes
}

// partitionWrites is how many writes per second a partition key takes, and maxRoomShards how many of
// them the positions of a room may have.
const partitionWrites, maxRoomShards = 1000, 64

// NewTableWrites is how many writes per second a new on-demand table takes, and an index of it.
const NewTableWrites = 4000

// Loads returns the loads of an opening.
func (o Opening) Loads() []Load {
	rate := o.PerSecond()
	settled := min(rate, SettledPerSecond)
	load := func(table, index string, perVisitor, perSettled, reads float64) Load {
		sum := fmt.Sprintf("%s × %.0f", Number(rate), perVisitor)
		if perSettled > 0 {
			sum += fmt.Sprintf(" + %s × %.0f", Number(settled), perSettled)
		}
		return Load{table, index, rate*perVisitor + settled*perSettled, reads, sum}
	}
	switch o.Kind {
	case Sale:
		return []Load{ // a read whether the visitor has a position, then its record
			load("vwr-positions", "", 1, 0, rate),
			load("vwr-positions", "eventId-position-index", 1, 0, 0),
		}
	case Promotion:
		// Stored: lock, request, log and marker; queued: request, log and marker; settled: request, two logs,
		// marker, and shares of what ten requests have in common. The indexes' sort key changes when queued.
		return []Load{
			load("AsyncEventTable", "", 8+6, 10, rate+2*settled),
			load("AsyncEventTable", "GSI1", 1+2, 1, 0),
			load("AsyncEventTable", "GSI2", 1+2, 1, 0),
		}
	default:
		return nil
	}
}

// LoadsOf returns the loads of a table, by index.
func (o Opening) LoadsOf(table string) map[string]Load {
	out := map[string]Load{}
	for _, l := range o.Loads() {
		if l.Table == table {
			out[l.Index] = l
		}
	}
	return out
}

// messages are the messages of an opening per second, by queue or topic.
type messages struct {
	to  string
	n   float64
	sum string
}

func (o Opening) sqs() []messages {
	switch o.Kind {
	case Sale:
		return []messages{{"admissions, if enabled", Admitted, "one per admission"}}
	case Promotion:
		return []messages{{"requests", o.PerSecond(), "one per application"}}
	default:
		return nil
	}
}

func (o Opening) kafka() []messages {
	switch o.Kind {
	case Sale:
		return []messages{
			{"reservation-events", Admitted + Admitted/2, "created by each hold, confirmed by each payment"},
			{"payment-events", Admitted / 2, "one per payment"},
		}
	case Promotion:
		return []messages{{"request-events", min(o.PerSecond(), SettledPerSecond), "one per settled request"}}
	default:
		return []messages{{"reward-events", o.PerSecond(), "one per reward, as fast as its provider pays"}}
	}
}
