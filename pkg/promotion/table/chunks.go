package table

import (
	"fmt"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/promotion"
)

// chunkPK is the partition of the n-th chunk of a draw's entries (fairdraw.ChunkSize). Each has its
// own, since anybody may read them often, and one item takes 80 read units.
func chunkPK(event string, n int) string { return fmt.Sprintf("LIST#%s#%04d", event, n) }

// EntriesKey is the key of a chunk of the entries with a root, so that no other list replaces it.
func EntriesKey(event string, root fairdraw.Hash, n int) dynamo.Item {
	return Key(chunkPK(event, n), "ENTRIES#"+root.String())
}

// EntriesItem encodes a chunk of entries.
func EntriesItem(event string, root fairdraw.Hash, n int, chunk fairdraw.Entries, endsAt int64) dynamo.Item {
	return chunkItem(EntriesKey(event, root, n), "ENTRY_LIST", chunk, endsAt)
}

// RanksKey is the key of the ranks of the entries of a chunk. It contains the round that decided,
// as WinnersKey does.
func RanksKey(d *promotion.Draw, n int) dynamo.Item {
	return Key(chunkPK(d.EventID, n), fmt.Sprintf("RANKS#%d", roundOf(d)))
}

// RanksItem encodes the ranks of the entries of a chunk, from 1.
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

// DecodeEntries reads a chunk of entries; an absent item has none.
func DecodeEntries(it dynamo.Item) (fairdraw.Entries, error) {
	d := dynamo.Reader{Item: it}
	return d.Binary(chunkContent), d.Err()
}

// DecodeRanks reads the ranks of a chunk; an absent item has none.
func DecodeRanks(it dynamo.Item) (promotion.Ranks, error) {
	d := dynamo.Reader{Item: it}
	return d.Binary(chunkContent), d.Err()
}
