package table

import "urr.guru/pkg/dynamo"

// Unsent is the partition that lists the promotions with requests that the queue has not taken.
const Unsent = "UNSENT"

// UnsentDrainedAt is the time from which new requests of a listed promotion are sent at once again.
const UnsentDrainedAt = "drainedAt"

// UnsentKey is the key of a promotion in the list.
func UnsentKey(event string) dynamo.Item { return Key(Unsent, ListSK(event)) }

// UnsentItem is a promotion in the list; ListedEvent reads it.
func UnsentItem(event string) dynamo.Item {
	it := UnsentKey(event)
	it["entityType"] = dynamo.String("UNSENT_EVENT")
	return it
}
