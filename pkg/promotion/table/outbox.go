package table

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/promotion"
)

// OutboxPartition is the key of the partition of announcements with this number.
func OutboxPartition(number int) string { return fmt.Sprintf("OUTBOX#%02x", number) }

// NewOutbox makes an item with announcements. It also returns the item's partition.
func NewOutbox(now int64, rows []promotion.Announcement) (item dynamo.Item, partition int) {
	id := ids.NewV7().String()
	partition = promotion.PartitionOf(id)
	b := newItem(OutboxPartition(partition), sortableTime(now)+"#"+id, "OUTBOX")
	text, _ := json.Marshal(rows) // strings and numbers always marshal
	b.setString("rows", string(text))
	return dynamo.Item(b), partition
}

// OutboxKey is the key of an item with announcements.
func OutboxKey(partition int, id string) dynamo.Item { return Key(OutboxPartition(partition), id) }

// DecodeOutbox reads the announcements of an item.
func DecodeOutbox(it dynamo.Item) (promotion.Outbox, error) {
	d := dynamo.Reader{Item: it}
	o := promotion.Outbox{ID: d.String(SK)}
	ms, _, _ := strings.Cut(o.ID, "#")
	at, _ := strconv.ParseInt(ms, 10, 64)
	o.WrittenAt = time.UnixMilli(at)
	if err := json.Unmarshal([]byte(d.String("rows")), &o.Rows); err != nil {
		return o, fmt.Errorf("announcements %s: %w", o.ID, err)
	}
	return o, d.Err()
}
