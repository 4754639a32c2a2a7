package table

import (
	"fmt"
	"strings"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/plan"
	"urr.guru/pkg/promotion"
)

func eventPK(event string) string { return "EVENT#" + event }

// PromotionKey is the key of a promotion.
func PromotionKey(event string) dynamo.Item { return Key(eventPK(event), "CONFIG") }

// PromotionItem encodes a promotion. The item never expires.
func PromotionItem(p *promotion.Promotion) dynamo.Item {
	b := newItem(eventPK(p.EventID), "CONFIG", "CONFIG")
	b.setString("eventId", p.EventID)
	b.setString("title", p.Title)
	b.setString("eventType", string(p.EventType))
	b.setNumberOrZero("capacityTotal", p.CapacityTotal)
	b.setNonZero("opensAt", p.OpensAt)
	b.setNonZero("closesAt", p.ClosesAt)
	b.setNonZero("lotteryCutoffAt", p.LotteryCutoffAt)
	b.setNonZero("announcedAt", p.AnnouncedAt)
	b.setNonZero("closedAt", p.ClosedAt)
	b.setNonZero("voidedAt", p.VoidedAt)
	b.setNonZero("publishedAt", p.PublishedAt)
	b.setString("commitment", p.Commitment)
	b.setString("seedNonce", p.SeedNonce)
	b.setIfTrue("paused", p.Paused)
	b.setIfTrue("dropRejected", p.DropRejected)
	b.setNonZero("shards", p.Shards)
	b.setNonZero("expectedVisitors", p.Expected.Visitors)
	b.setNonZero("expectedWithinSeconds", p.Expected.WithinSeconds)
	b.setNonZero("createdAt", p.CreatedAt)
	b.setNumberOrZero("version", p.Version)
	return dynamo.Item(b)
}

// DecodePromotion reads a promotion.
func DecodePromotion(it dynamo.Item) (promotion.Promotion, error) {
	d := dynamo.Reader{Item: it}
	p := promotion.Promotion{
		EventID: d.String("eventId"), Title: d.String("title"), EventType: promotion.Type(d.String("eventType")), CapacityTotal: d.Number("capacityTotal"),
		OpensAt: d.Number("opensAt"), ClosesAt: d.Number("closesAt"), LotteryCutoffAt: d.Number("lotteryCutoffAt"),
		AnnouncedAt: d.Number("announcedAt"), ClosedAt: d.Number("closedAt"), VoidedAt: d.Number("voidedAt"), PublishedAt: d.Number("publishedAt"),
		Commitment: d.String("commitment"), SeedNonce: d.String("seedNonce"),
		Paused: d.Bool("paused"), DropRejected: d.Bool("dropRejected"), Shards: max(1, d.Number("shards")), CreatedAt: d.Number("createdAt"), Version: d.Number("version"),
		Expected: plan.Expected{Visitors: d.Number("expectedVisitors"), WithinSeconds: d.Number("expectedWithinSeconds")},
	}
	if err := d.Err(); err != nil {
		return p, fmt.Errorf("promotion %s: %w", p.EventID, err)
	}
	return p, nil
}

// PromotionList is the partition that lists all promotions. Their ids are UUIDv7, so they are
// listed in the order of creation.
const PromotionList = "EVENTS"

// ListItem is the item that lists a promotion in PromotionList.
func ListItem(event string) dynamo.Item {
	b := newItem(PromotionList, ListSK(event), "EVENT")
	b.setString("eventId", event)
	return dynamo.Item(b)
}

// ListSK is the sort key under which PromotionList has a promotion.
func ListSK(event string) string { return "EVENT#" + event }

// ListedEvent returns the event id of an item of PromotionList.
func ListedEvent(it dynamo.Item) string {
	d := dynamo.Reader{Item: it}
	return strings.TrimPrefix(d.String(SK), "EVENT#")
}

// CreationKey is the Idempotency-Key with which a promotion was created, so that the creation can
// be repeated for a day.
type CreationKey struct {
	UserID, Key string
	EventID     string
	// Hash is the hash of the request. A different request with the same key is refused.
	Hash      string
	CreatedAt int64
}

// CreationKeyKey is the table key of a CreationKey.
func CreationKeyKey(user, key string) dynamo.Item { return Key("KEY#"+user+"#"+key, "LOCK") }

func (k *CreationKey) Item() dynamo.Item {
	b := newItem("KEY#"+k.UserID+"#"+k.Key, "LOCK", "CREATION_KEY")
	b.setString("eventId", k.EventID)
	b.setString("hash", k.Hash)
	b.setNonZero("createdAt", k.CreatedAt)
	b.setNonZero(TTL, k.CreatedAt/1000+creationKeyHours*3600)
	return dynamo.Item(b)
}

// DecodeCreationKey reads the id of the created promotion and the hash of the request.
func DecodeCreationKey(it dynamo.Item) (event, hash string, err error) {
	d := dynamo.Reader{Item: it}
	return d.String("eventId"), d.String("hash"), d.Err()
}

// CapacityKey is the key of a promotion's capacity.
func CapacityKey(event string) dynamo.Item { return Key(eventPK(event), "CAPACITY") }

// CapacityItem encodes a capacity.
func CapacityItem(c *promotion.Capacity) dynamo.Item {
	b := newItem(eventPK(c.EventID), "CAPACITY", "CAPACITY")
	b.setNumberOrZero("capacityTotal", c.Total)
	b.setNumberOrZero("capacityRemaining", c.Remaining)
	b.setNonZero("updatedAt", c.UpdatedAt)
	b.setNonZero("sentAt", c.SentAt)
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
