package table

import (
	"fmt"
	"strings"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/promotion"
)

func eventPK(event string) string { return "EVENT#" + event }

// PromotionKey is the key of a promotion's configuration.
func PromotionKey(event string) dynamo.Item { return Key(eventPK(event), "CONFIG") }

// PromotionItem encodes a configuration; it never expires.
func PromotionItem(p *promotion.Promotion) dynamo.Item {
	b := newItem(eventPK(p.EventID), "CONFIG", "CONFIG")
	b.str("eventId", p.EventID)
	b.str("title", p.Title)
	b.str("eventType", string(p.EventType))
	b.count("capacityTotal", p.CapacityTotal)
	b.num("opensAt", p.OpensAt)
	b.num("closesAt", p.ClosesAt)
	b.num("lotteryCutoffAt", p.LotteryCutoffAt)
	b.num("announcedAt", p.AnnouncedAt)
	b.num("closedAt", p.ClosedAt)
	b.num("voidedAt", p.VoidedAt)
	b.num("publishedAt", p.PublishedAt)
	b.str("commitment", p.Commitment)
	b.str("seedNonce", p.SeedNonce)
	b.flag("paused", p.Paused)
	b.num("shards", p.Shards)
	b.num("createdAt", p.CreatedAt)
	b.count("version", p.Version)
	return dynamo.Item(b)
}

// DecodePromotion reads a configuration.
func DecodePromotion(it dynamo.Item) (promotion.Promotion, error) {
	d := dynamo.Reader{Item: it}
	p := promotion.Promotion{
		EventID: d.String("eventId"), Title: d.String("title"), EventType: promotion.Type(d.String("eventType")), CapacityTotal: d.Number("capacityTotal"),
		OpensAt: d.Number("opensAt"), ClosesAt: d.Number("closesAt"), LotteryCutoffAt: d.Number("lotteryCutoffAt"),
		AnnouncedAt: d.Number("announcedAt"), ClosedAt: d.Number("closedAt"), VoidedAt: d.Number("voidedAt"), PublishedAt: d.Number("publishedAt"),
		Commitment: d.String("commitment"), SeedNonce: d.String("seedNonce"),
		Paused: d.Bool("paused"), Shards: max(1, d.Number("shards")), CreatedAt: d.Number("createdAt"), Version: d.Number("version"),
	}
	if err := d.Err(); err != nil {
		return p, fmt.Errorf("promotion %s: %w", p.EventID, err)
	}
	return p, nil
}

// PromotionList is the partition that lists all promotions; ids are UUIDv7, so it is in the order
// of their creation.
const PromotionList = "EVENTS"

// ListItem is a promotion's entry in the list.
func ListItem(event string) dynamo.Item {
	b := newItem(PromotionList, ListSK(event), "EVENT")
	b.str("eventId", event)
	return dynamo.Item(b)
}

// ListSK is the sort key of a promotion in the list.
func ListSK(event string) string { return "EVENT#" + event }

// ListedEvent is the event of an entry of the list.
func ListedEvent(it dynamo.Item) string {
	d := dynamo.Reader{Item: it}
	return strings.TrimPrefix(d.String(SK), "EVENT#")
}

// CreationKey makes the creation of a promotion repeatable for a day.
type CreationKey struct {
	UserID, Key string
	EventID     string
	// Hash is of the request: another one under the same key is refused.
	Hash      string
	CreatedAt int64
}

// CreationKeyKey is the table key of a CreationKey.
func CreationKeyKey(user, key string) dynamo.Item { return Key("KEY#"+user+"#"+key, "LOCK") }

func (k *CreationKey) Item() dynamo.Item {
	b := newItem("KEY#"+k.UserID+"#"+k.Key, "LOCK", "CREATION_KEY")
	b.str("eventId", k.EventID)
	b.str("hash", k.Hash)
	b.num("createdAt", k.CreatedAt)
	b.num(TTL, k.CreatedAt/1000+creationKeyHours*3600)
	return dynamo.Item(b)
}

// DecodeCreationKey reads the promotion and the hash of an item.
func DecodeCreationKey(it dynamo.Item) (event, hash string, err error) {
	d := dynamo.Reader{Item: it}
	return d.String("eventId"), d.String("hash"), d.Err()
}

// CapacityKey is the table key of a promotion's capacity.
func CapacityKey(event string) dynamo.Item { return Key(eventPK(event), "CAPACITY") }

// CapacityItem encodes a capacity.
func CapacityItem(c *promotion.Capacity) dynamo.Item {
	b := newItem(eventPK(c.EventID), "CAPACITY", "CAPACITY")
	b.count("capacityTotal", c.Total)
	b.count("capacityRemaining", c.Remaining)
	b.num("updatedAt", c.UpdatedAt)
	b.num("sentAt", c.SentAt)
	return dynamo.Item(b)
}

// DecodeCapacity reads a capacity.
func DecodeCapacity(it dynamo.Item) (promotion.Capacity, error) {
	d := dynamo.Reader{Item: it}
	c := promotion.Capacity{
		EventID: strings.TrimPrefix(d.String(PK), "EVENT#"), Total: d.Number("capacityTotal"), Remaining: d.Number("capacityRemaining"),
		UpdatedAt: d.Number("updatedAt"), SentAt: d.Number("sentAt"),
	}
	return c, d.Err()
}
