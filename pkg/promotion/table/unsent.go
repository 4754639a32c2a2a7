package table

import "urr.guru/pkg/dynamo"

// Unsent is the partition that lists the promotions with requests that the queue has not accepted.
const Unsent = "UNSENT"

// UnsentDrainedAt is the attribute with the time from which new requests of a listed promotion are
// sent to the queue at once again.
const UnsentDrainedAt = "drainedAt"

// UnsentKey is the key of a promotion in the list Unsent.
func UnsentKey(event string) dynamo.Item { return Key(Unsent, ListSK(event)) }

// UnsentItem is the item that lists a promotion in Unsent; ListedEvent reads it.
func UnsentItem(event string) dynamo.Item {
	it := UnsentKey(event)
	it["entityType"] = dynamo.String("UNSENT_EVENT")
	return it
}
