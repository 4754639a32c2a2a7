package table

import (
	"fmt"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/promotion"
)

// chunkPartition is the partition key of the n-th chunk (fairdraw.ChunkSize) of a draw's entries.
// Each chunk has its own partition, since it may be read often, at 80 read units.
func chunkPartition(event string, n int) string { return fmt.Sprintf("LIST#%s#%04d", event, n) }

// EntriesKey is the key of the n-th chunk of the list of entries with this Merkle root, so that no
// other list can replace it.
func EntriesKey(event string, root fairdraw.Hash, n int) dynamo.Item {
	return Key(chunkPartition(event, n), "ENTRIES#"+root.String())
}

// EntriesItem encodes the n-th chunk of a list of entries.
func EntriesItem(event string, root fairdraw.Hash, n int, chunk fairdraw.Entries, endsAt int64) dynamo.Item {
	return chunkItem(EntriesKey(event, root, n), "ENTRY_LIST", chunk, endsAt)
}

// RanksKey is the key of the ranks of the entries in the n-th chunk. Like WinnersKey it contains
// the beacon's round that decided.
func RanksKey(d *promotion.Draw, n int) dynamo.Item {
	return Key(chunkPartition(d.EventID, n), fmt.Sprintf("RANKS#%d", roundOf(d)))
}

// RanksItem encodes the ranks, from 1, of the entries in the n-th chunk.
func RanksItem(d *promotion.Draw, n int, ranks promotion.Ranks, endsAt int64) dynamo.Item {
	return chunkItem(RanksKey(d, n), "RANKS", ranks, endsAt)
}

func chunkItem(key dynamo.Item, entity string, content []byte, endsAt int64) dynamo.Item {
	key["entityType"] = dynamo.String(entity)
	key[chunkContent] = dynamo.Binary(content)
	key[TTL] = dynamo.Number(expirySeconds(endsAt, promotion.RetentionDays))
	return key
}

const chunkContent = "content"

// DecodeEntries reads a chunk of entries; if the item is absent there are none.
func DecodeEntries(it dynamo.Item) (fairdraw.Entries, error) {
	d := dynamo.Reader{Item: it}
	return d.Binary(chunkContent), d.Err()
}

// DecodeRanks reads the ranks of a chunk; if the item is absent there are none.
func DecodeRanks(it dynamo.Item) (promotion.Ranks, error) {
	d := dynamo.Reader{Item: it}
	return d.Binary(chunkContent), d.Err()
}
