package asyncevent

import (
	"fmt"
	"strings"

	"urr.guru/pkg/dynamo"
)

// Promotion is the configuration of an event of requests.
type Promotion struct {
	EventID       string
	Title         string
	EventType     Type
	CapacityTotal int64

	OpensAt, ClosesAt            int64
	LotteryCutoffAt, AnnouncedAt int64 // lottery only
	ClosedAt, VoidedAt           int64 // by an operator; 0: not

	// Commitment is what a lottery published when it opened: canonical JSON (pkg/fairdraw), verbatim.
	Commitment string
	// SeedNonce makes the seed of the draw unique: 32 bytes in hex. It is not public before the seed.
	SeedNonce string

	Paused    bool  // takes no requests at present
	Shards    int64 // of GSI2; at least 1
	CreatedAt int64
	// Version grows with each change by an operator.
	Version int64
}

// PromotionStatus is computed from the configuration and the clock.
type PromotionStatus string

// The statuses of a promotion.
const (
	PromotionScheduled PromotionStatus = "Scheduled"
	PromotionOpen      PromotionStatus = "Open"
	PromotionClosed    PromotionStatus = "Closed"
	PromotionAnnounced PromotionStatus = "Announced"
	PromotionVoid      PromotionStatus = "Void"
)

// Status at a time.
func (p *Promotion) Status(now int64) PromotionStatus {
	switch {
	case p.VoidedAt != 0:
		return PromotionVoid
	case p.AnnouncedAt != 0 && now >= p.AnnouncedAt:
		return PromotionAnnounced
	case now >= p.closing():
		return PromotionClosed
	case now < p.OpensAt:
		return PromotionScheduled
	default:
		return PromotionOpen
	}
}

// Accepts reports whether a request stamped with this time is taken.
func (p *Promotion) Accepts(now int64) bool { return p.Status(now) == PromotionOpen && !p.Paused }

func (p *Promotion) closing() int64 {
	if p.ClosedAt != 0 {
		return min(p.ClosedAt, p.ClosesAt)
	}
	return p.ClosesAt
}

// EndsAt is when the promotion is over and announced. Closing it earlier does not change that.
func (p *Promotion) EndsAt() int64 { return max(p.ClosesAt, p.AnnouncedAt) }

// Forgotten reports whether the promotion's requests, entries and winners have expired.
func (p *Promotion) Forgotten(now int64) bool { return expiry(p.EndsAt(), requestDays) <= now/1000 }

func eventPK(event string) string { return "EVENT#" + event }

// PromotionKey is the key of a promotion's configuration.
func PromotionKey(event string) dynamo.Item { return Key(eventPK(event), "CONFIG") }

// Item encodes the configuration; it never expires.
func (p *Promotion) Item() dynamo.Item {
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
	b.str("commitment", p.Commitment)
	b.str("seedNonce", p.SeedNonce)
	b.flag("paused", p.Paused)
	b.num("shards", p.Shards)
	b.num("createdAt", p.CreatedAt)
	b.count("version", p.Version)
	return dynamo.Item(b)
}

// DecodePromotion reads a configuration.
func DecodePromotion(it dynamo.Item) (Promotion, error) {
	d := dynamo.Reader{Item: it}
	p := Promotion{
		EventID: d.String("eventId"), Title: d.String("title"), EventType: Type(d.String("eventType")), CapacityTotal: d.Number("capacityTotal"),
		OpensAt: d.Number("opensAt"), ClosesAt: d.Number("closesAt"), LotteryCutoffAt: d.Number("lotteryCutoffAt"),
		AnnouncedAt: d.Number("announcedAt"), ClosedAt: d.Number("closedAt"), VoidedAt: d.Number("voidedAt"),
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
func (p *Promotion) ListItem() dynamo.Item {
	b := newItem(PromotionList, ListSK(p.EventID), "EVENT")
	b.str("eventId", p.EventID)
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

// CreationKeyKey is the key of its item.
func CreationKeyKey(user, key string) dynamo.Item { return Key("KEY#"+user+"#"+key, "LOCK") }

// Item encodes the key.
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

// Capacity is what is left of a first-come promotion. It never rises.
type Capacity struct {
	EventID          string
	Total, Remaining int64
	UpdatedAt        int64
	// SentAt is when the queue got the latest message settled, by its clock: messages of the event
	// sent before it have been settled, or are lost.
	SentAt int64
}

// CapacityKey is the key of its item.
func CapacityKey(event string) dynamo.Item { return Key(eventPK(event), "CAPACITY") }

// Item encodes the capacity.
func (c *Capacity) Item() dynamo.Item {
	b := newItem(eventPK(c.EventID), "CAPACITY", "CAPACITY")
	b.count("capacityTotal", c.Total)
	b.count("capacityRemaining", c.Remaining)
	b.num("updatedAt", c.UpdatedAt)
	b.num("sentAt", c.SentAt)
	return dynamo.Item(b)
}

// DecodeCapacity reads a capacity.
func DecodeCapacity(it dynamo.Item) (Capacity, error) {
	d := dynamo.Reader{Item: it}
	c := Capacity{
		EventID: strings.TrimPrefix(d.String(PK), "EVENT#"), Total: d.Number("capacityTotal"), Remaining: d.Number("capacityRemaining"),
		UpdatedAt: d.Number("updatedAt"), SentAt: d.Number("sentAt"),
	}
	return c, d.Err()
}
