// Package table stores promotions and their requests in AsyncEventTable of DynamoDB: keys,
// attributes, conditions, times of expiry, and the transactions that both ingest and worker write.
//
//	item            PK                    SK                  written by
//	request         REQ#<id>              META                ingest creates, worker adds the result
//	status log      REQ#<id>              LOG#<ms>            with each change of the status
//	lock            IDEMP#<event>#<user>  LOCK                ingest: one per user and event
//	promotion       EVENT#<event>         CONFIG              ingest
//	capacity        EVENT#<event>         CAPACITY            worker counts it down
//	figures         COUNTS#<event>#<slot> COUNTS              ADDed to by ingest and worker
//	list            EVENTS                EVENT#<event>       ingest
//	creation key    KEY#<user>#<key>      LOCK                ingest, with the promotion
//	marker          PENDING#<00..3f>      <ms>#<id>[#r<gen>]  until the request is processed
//	unsent          UNSENT                EVENT#<event>       ingest, while the queue is away
//	announcements   OUTBOX#<00..3f>       <ms>#<uuid>         with each result; the relay deletes
//	dead letter     DLQ#requests          <ms>#<id>           worker, for operators
//	                DLQ#admissions        <ms>#<id>
//	lottery entry   ENTRY#<event>#<gg>    <id>                worker
//	entry counter   ENTRIES#<event>#<gg>  ENTRIES             worker
//	excluded        EXCLUDED#<event>      <id>                with a result that is not an entry
//	draw            EVENT#<event>         DRAW                worker
//	entries, chunk  LIST#<event>#<n>      ENTRIES#<root>      worker, before the root is public
//	their ranks     LIST#<event>#<n>      RANKS#<round>       worker, with the winners
//	winners         EVENT#<event>         WINNERS#<round>#<n> worker
//	winners         WINNER#<event>        <first place>       worker, in first-come promotions
//	open draw       DRAWS                 <due ms>#<event>    ingest; worker moves and deletes it
//	lease           LEASE#<name>          LEASE               see pkg/dynamo
//
// Only request items have index attributes. GSI1 lists the requests of a user, GSI2 those of an
// event; the status is in no sort key, since it changes often. All times are epoch milliseconds,
// except ttl, which is in seconds.
package table

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"urr.guru/pkg/dynamo"
)

// TableName is the name of the table, without the installation's prefix.
const TableName = "AsyncEventTable"

// The attributes and names of the table's keys and indexes, and the attribute with the expiry.
const (
	PK     = "PK"
	SK     = "SK"
	GSI1   = "GSI1"
	GSI1PK = "GSI1PK"
	GSI1SK = "GSI1SK"
	GSI2   = "GSI2"
	GSI2PK = "GSI2PK"
	GSI2SK = "GSI2SK"
	TTL    = "ttl"
)

// Table describes the table for dynamo.EnsureTable.
func Table(cfg dynamo.Config) dynamo.Table {
	key := func(name string) dynamo.Key { return dynamo.Key{Name: name, Type: types.ScalarAttributeTypeS} }
	return dynamo.Table{
		Name: cfg.Table(TableName), Partition: key(PK), Sort: key(SK), TTL: TTL, PITR: cfg.PITR,
		Indexes: []dynamo.Index{
			{Name: GSI1, Partition: key(GSI1PK), Sort: key(GSI1SK)},
			{Name: GSI2, Partition: key(GSI2PK), Sort: key(GSI2SK)},
		},
	}
}

// Key makes the key of an item from its partition key and sort key.
func Key(pk, sk string) dynamo.Item {
	return dynamo.Item{PK: dynamo.String(pk), SK: dynamo.String(sk)}
}

// KeyOf returns the key that an item contains.
func KeyOf(it dynamo.Item) dynamo.Item { return dynamo.Item{PK: it[PK], SK: it[SK]} }

// sortableTime formats a time so that texts sort as times do (until the year 2286).
func sortableTime(ms int64) string { return fmt.Sprintf("%013d", ms) }

// Expired reports whether the expiry of an item has passed. DynamoDB deletes the item later.
func Expired(it dynamo.Item, now int64) bool {
	r := dynamo.Reader{Item: it}
	ttl := r.Number(TTL)
	return r.Err() == nil && ttl > 0 && ttl <= now/1000
}

// How long items are kept, in days after the promotion is over and announced; see also
// promotion.RetentionDays and promotion.LockDays.
const (
	logDays = 30
	// creationKeyHours is in hours after the creation of the promotion.
	creationKeyHours = 24
)

// expirySeconds returns when an item expires, in epoch seconds: days after end (epoch ms).
func expirySeconds(end, days int64) int64 { return end/1000 + days*24*3600 }

// itemBuilder builds an item and leaves out empty attributes.
type itemBuilder dynamo.Item

func newItem(pk, sk, entity string) itemBuilder {
	b := itemBuilder(Key(pk, sk))
	b.setString("entityType", entity)
	return b
}

func (b itemBuilder) setString(name, v string) {
	if v != "" {
		b[name] = dynamo.String(v)
	}
}

// setNonZero sets a number but leaves out 0, which stands for an unknown time or no count.
func (b itemBuilder) setNonZero(name string, v int64) {
	if v != 0 {
		b[name] = dynamo.Number(v)
	}
}

// setNumberOrZero sets a number, also 0, for attributes that conditions name.
func (b itemBuilder) setNumberOrZero(name string, v int64) { b[name] = dynamo.Number(v) }

func (b itemBuilder) setIfTrue(name string, v bool) {
	if v {
		b[name] = dynamo.Bool(v)
	}
}
